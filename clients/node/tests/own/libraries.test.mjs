// The lowest and the newest of each library that the package names, on one server, in a cluster and behind Sentinel.

import { describe, test } from "node:test";

import { Locks, NoAnswer, NotReplicated, Stock } from "lockstock";

import { start, startSentinel } from "../own.mjs";
import { aborted, assert, close, cmd, eventually, info, newKey, waiting } from "../servers.mjs";

const clusterUrl = process.env.LOCKSTOCK_CLUSTER_URL;
const quiet = (client) => client.on("error", () => {});

async function ioredis(name) {
  const { Cluster, default: Redis } = await import(name);
  const sentinelRetryStrategy = () => 50;
  return {
    alone: (url) => quiet(new Redis(url)),
    cluster: () => quiet(new Cluster([clusterUrl])),
    sentinel: (port) => quiet(new Redis({ sentinels: [{ host: "127.0.0.1", port }], name: "shop", sentinelRetryStrategy })),
  };
}

async function nodeRedis(name) {
  const { createClient, createCluster, createSentinel } = await import(name);
  return {
    alone: (url) => quiet(createClient({ url })).connect(),
    cluster: () => quiet(createCluster({ rootNodes: [{ url: clusterUrl }] })).connect(),
    async sentinel(port) {
      const options = { name: "shop", sentinelRootNodes: [{ host: "127.0.0.1", port }], scanInterval: 100 };
      const client = quiet(createSentinel(options));
      await client.connect();
      return client;
    },
  };
}

const LIBRARIES = {
  "ioredis 5.0": await ioredis("ioredis-oldest"),
  "ioredis 5": await ioredis("ioredis-5"),
  "ioredis 6": await ioredis("ioredis"),
  "node-redis 5.0": await nodeRedis("redis-oldest"),
  "node-redis 5": await nodeRedis("redis-5"),
  "node-redis 6": await nodeRedis("redis"),
};

/** What a user does in a day. */
async function aDay(client, locks) {
  const key = newKey();
  const first = await locks.acquire(key, { token: "ann", leaseMs: 3_000 });
  assert.equal(await locks.acquire(key, { waitMs: 50 }), null);
  await assert.rejects(locks.acquire(key, { waitMs: 60_000, signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  const both = [locks.acquire(key, { waitMs: 60_000 })];
  await eventually("it waits", async () => (await locks.info(key)).waiting === 1);
  both.push(locks.acquire([key, key + "b"], { waitMs: 60_000, token: "bob" }));
  await eventually("they wait", async () => (await locks.info(key)).waiting === 2);
  assert(await first.extend());
  assert(await first.release());
  const second = await both[0];
  assert(second.fence > first.fence && (await second.owned()));
  assert.equal(await locks.release(key, { token: second.token, fence: first.fence }), 0);
  assert.equal(await locks.extend(key, { token: second.token, fence: second.fence }, 30_000), true);
  assert(await second.release());
  const third = await both[1];
  assert.deepEqual(third.keys, [key, key + "b"]);
  assert.equal(await locks.release(key, { token: "bob", fence: third.fence }), 1);
  assert.equal(await third.owned(), false);
  assert.equal(await third.extend(), false);
  await aborted(third.lost);

  const stock = new Stock(client);
  const [mug, cup] = [key + "mug", key + "cup"];
  for (const sale of [mug, cup]) await stock.create(sale, 3);
  assert.equal((await stock.orderAll("order:1", { [mug]: 1, [cup]: 2 }, { holdMs: 60_000 })).status, "OK");
  assert.equal((await stock.confirmAll("order:1", [mug, cup])).sales[cup].units, 2);
  const orders = [];
  for await (const order of stock.orders(cup)) orders.push(order);
  assert.deepEqual(orders, [{ id: "order:1", state: "sold", units: 2, buyer: "order:1", ref: "", deadline: -1 }]);
  assert.equal((await stock.info(mug)).remaining, 2);
}

describe("libraries", { concurrency: 4 }, () => {
  for (const [name, library] of Object.entries(LIBRARIES)) {
    describe(name, { concurrency: true }, () => {
      for (const kind of ["alone", "cluster"]) {
        test(kind, async (t) => {
          const client = await library[kind](kind === "alone" ? (await start(t)).url : undefined);
          const locks = new Locks(client);
          t.after(async () => {
            await locks.close();
            await close(client);
          });
          await aDay(client, locks);
        });
      }

      test("behind Sentinel, through a failover", async (t) => {
        const { primary, replica, sentinel } = await startSentinel(t);
        const client = await library.sentinel(sentinel.port);
        const locks = new Locks(client);
        t.after(async () => {
          await locks.close();
          await (client.destroy ?? client.disconnect).call(client);
        });
        await aDay(client, locks);
        const safe = await locks.acquire("safe", { replicas: 1, leaseMs: 60_000 });
        const eye = await replica.eye(t);
        assert.equal((await info(eye, "safe")).holders[0].fence, safe.fence);
        const asked = performance.now();
        await assert.rejects(locks.acquire("lonely", { replicas: 2 }), NotReplicated);
        assert(performance.now() - asked < 2_000);
        await eventually("it was given back", async () => (await locks.info("lonely")) === null);

        const wait = locks.acquire("safe", { waitMs: 60_000 });
        const brief = locks.acquire("safe", { waitMs: 500 }).catch((error) => error);
        await eventually("they wait", async () => (await locks.info("safe")).waiting === 2);
        const begun = performance.now();
        await primary.kill();
        const said = await brief;
        assert(said === null || said instanceof NoAnswer, said);
        assert(performance.now() - begun < 2_500);
        await eventually("it takes over", async () => /role:master/.test(await eye.info("replication")));
        await eventually("it waits there", async () => (await waiting(eye, "safe")) === 1);
        assert(safe.held && (await safe.owned()));
        assert(await safe.release());
        const next = await wait;
        assert(next.fence > safe.fence);
        assert(await next.release());
      });

      test("in a session, and with replicas that are not there", async (t) => {
        const server = await start(t);
        const client = await library.alone(server.url);
        const eye = await server.eye(t);
        const locks = new Locks(client);
        t.after(async () => {
          await locks.close();
          await close(client);
        });
        const hold = await locks.acquire("lock", { session: true });
        assert.equal((await locks.info("lock")).holders[0].session, true);
        await cmd(eye, "CLIENT", "KILL", "ID", await cmd(client, "CLIENT", "ID"));
        await eventually("it hears of it", () => hold.lost.aborted, 5_000);
        assert.equal(await hold.release(), false);
        const asked = performance.now();
        await assert.rejects(locks.acquire("lock", { replicas: 1, waitMs: 100 }), NotReplicated);
        assert(performance.now() - asked < 2_100);
        await eventually("it was given back", async () => (await locks.info("lock")) === null);
        assert.equal(Number((await cmd(eye, "CLIENT", "LIST")).match(/cmd=wait/g)?.length ?? 0), 0);
      });
    });
  }
});
