// Settings of a client that change how it sends and what it answers change nothing here.

import { test } from "node:test";

import { Cluster, Redis } from "ioredis";
import { Locks } from "lockstock";
import { RESP_TYPES, createClient, createCluster } from "redis";

import { aDay } from "./day.mjs";
import { close } from "./servers.mjs";

const [url, clusterUrl] = [process.env.LOCKSTOCK_URL, process.env.LOCKSTOCK_CLUSTER_URL];
const rootNodes = [{ url: clusterUrl }];
const typeMapping = {
  [RESP_TYPES.BLOB_STRING]: Buffer,
  [RESP_TYPES.SIMPLE_STRING]: Buffer,
  [RESP_TYPES.NUMBER]: String,
  [RESP_TYPES.MAP]: Map,
};

const CLIENTS = {
  "ioredis, numbers as strings": () => new Redis(url, { stringNumbers: true }),
  "ioredis, pipelining by itself": () => new Redis(url, { enableAutoPipelining: true }),
  "ioredis, a prefix": () => new Redis(url, { keyPrefix: "app:" }),
  "ioredis, RESP2": () => new Redis(url, { protocol: 2 }),
  "ioredis, maps as objects": () => new Redis(url, { replyMapping: "resp3" }),
  "ioredis, connecting late": () => new Redis(url, { lazyConnect: true }),
  "ioredis cluster, pipelining by itself": () => new Cluster([clusterUrl], { enableAutoPipelining: true }),
  "ioredis cluster, reading from replicas": () => new Cluster([clusterUrl], { scaleReads: "slave" }),
  "node-redis, RESP2": () => createClient({ url, RESP: 2 }).connect(),
  "node-redis, other types": () => createClient({ url, commandOptions: { typeMapping } }).connect(),
  "node-redis, pinging": () => createClient({ url, pingInterval: 100 }).connect(),
  "node-redis cluster, RESP2": () => createCluster({ rootNodes, RESP: 2 }).connect(),
  "node-redis cluster, other types": () => createCluster({ rootNodes, commandOptions: { typeMapping } }).connect(),
  "node-redis cluster, reading from replicas": () => createCluster({ rootNodes, useReplicas: true }).connect(),
  "node-redis cluster, connecting late": () => createCluster({ rootNodes, minimizeConnections: true }).connect(),
};

for (const [name, make] of Object.entries(CLIENTS)) {
  test(name, async (t) => {
    const client = (await make()).on("error", () => {});
    const locks = new Locks(client);
    t.after(async () => {
      await locks.close();
      await close(client);
    });
    await aDay(client, locks);
  });
}
