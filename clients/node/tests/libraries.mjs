// The lowest and the newest of each library that the package names, and how each connects.

import { Locks } from "lockstock";

import { hangUp } from "./servers.mjs";

const clusterUrl = process.env.LOCKSTOCK_CLUSTER_URL;
const quiet = (client) => client.on("error", () => {});

async function ioredis(name) {
  const { Cluster, default: Redis } = await import(name);
  const sentinelRetryStrategy = () => 50;
  return {
    alone: (url) => quiet(new Redis(url, { retryStrategy: () => 20 })),
    cluster: (url = clusterUrl) => quiet(new Cluster([url])),
    sentinel: (port, more) => quiet(new Redis({ sentinels: [{ host: "127.0.0.1", port }], name: "shop", sentinelRetryStrategy, ...more })),
  };
}

async function nodeRedis(name) {
  const { createClient, createCluster, createSentinel } = await import(name);
  return {
    alone: (url) => quiet(createClient({ url, socket: { reconnectStrategy: () => 20 } })).connect(),
    cluster: (url = clusterUrl) => quiet(createCluster({ rootNodes: [{ url }] })).connect(),
    async sentinel(port) {
      const options = { name: "shop", sentinelRootNodes: [{ host: "127.0.0.1", port }], scanInterval: 100 };
      const client = quiet(createSentinel(options));
      await client.connect();
      return client;
    },
  };
}

export const LIBRARIES = {
  "ioredis 5.0": await ioredis("ioredis-oldest"),
  "ioredis 5": await ioredis("ioredis-5"),
  "ioredis 6": await ioredis("ioredis"),
  "node-redis 5.0": await nodeRedis("redis-oldest"),
  "node-redis 5": await nodeRedis("redis-5"),
  "node-redis 6": await nodeRedis("redis"),
};

/** What is asked for without a wait has no time for a busy machine to find the server first. */
export async function ready(made) {
  const client = await made;
  try {
    await new Locks(client).info("key");
  } catch (error) {
    // Else it goes on connecting, and the process of the tests does not end.
    await hangUp(client);
    throw error;
  }
  return client;
}
