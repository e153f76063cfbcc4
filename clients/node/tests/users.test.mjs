// The users of docs/operations.md can do their work with this package, on one server and in a cluster.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { Cluster, Redis } from "ioredis";
import { createClient, createCluster } from "redis";

import { Locks, Stock } from "lockstock";

const PAGE = readFileSync(new URL("../../../docs/operations.md", import.meta.url), "utf8");
const USERS = [...PAGE.matchAll(/^user (\w+) (.*)$/gm)].map(([, name, rules]) => [name, ...rules.split(" ")]);
const IN_A_CLUSTER = PAGE.replaceAll("\n", " ").match(/give each user `([^`]*)`/)[1].split(" ");
const [url, clusterUrl] = [process.env.LOCKSTOCK_URL, process.env.LOCKSTOCK_CLUSTER_URL];

/** Clients that connect as this user. */
const CLIENTS = {
  ioredis: (user) => new Redis(url, user),
  "ioredis cluster": (user) => new Cluster([clusterUrl], { redisOptions: user }),
  "node-redis": (user) => createClient({ url, ...user }).connect(),
  "node-redis cluster": (user) => createCluster({ rootNodes: [{ url: clusterUrl }], defaults: user }).connect(),
};

const close = (client) => (client.close ?? client.quit).call(client);

let nodes = [];

before(async () => {
  const cluster = new Cluster([clusterUrl]);
  await cluster.call("PING");
  nodes = [[new Redis(url), []], ...cluster.nodes("master").map((node) => [node, IN_A_CLUSTER])];
  nodes.cluster = cluster;
  for (const [node, more] of nodes) {
    for (const [name, ...rules] of USERS) await node.call("ACL", "SETUSER", name, "reset", ...rules, ...more);
  }
});

after(async () => {
  for (const [node] of nodes) await node.call("ACL", "DELUSER", ...USERS.map(([name]) => name));
  await nodes[0][0].quit();
  await nodes.cluster.quit();
});

for (const [name, connect] of Object.entries(CLIENTS)) {
  const as = (user) => connect({ username: user, password: `${user}-password` });

  test(`${name}: a worker waits and locks`, async () => {
    const [one, two] = [await as("worker"), await as("worker")];
    const [first, second] = [new Locks(one), new Locks(two)];
    const hold = await first.acquire("job:users", {});
    const waits = second.acquire("job:users", { waitMs: 10_000 });
    await hold.release();
    const next = await waits;
    assert.ok(next.fence > hold.fence);
    await next.release();
    for (const locks of [first, second]) await locks.close();
    for (const client of [one, two]) await close(client);
  });

  test(`${name}: a shop sells`, async () => {
    const client = await as("shop");
    assert.equal((await new Stock(client).order("sale:none", "order:1")).status, "NOSTOCK");
    await close(client);
  });
}
