// A frozen node of a cluster, and a frozen primary behind Sentinel. There node-redis 5 is not played: it may look for the new primary for a
// minute, and meanwhile keeps its process so busy that other tests fail.

import { describe, test } from "node:test";

import { Cluster } from "ioredis";
import { Locks, NotReleased, Stock, Unreachable } from "lockstock";

import { LIBRARIES, ready } from "../libraries.mjs";
import { startCluster, startSentinel } from "../own.mjs";
import { assert, cmd, eventually, hangUp, info, newKey, rejectsAfter, sleep, takes, waiting } from "../servers.mjs";

const SETTINGS = { "ioredis 6, pipelining by itself": (url) => new Cluster([url], { enableAutoPipelining: true }).on("error", () => {}) };

describe("a node of a cluster that freezes costs nothing of the others", { concurrency: 3 }, () => {
  for (const name of [...Object.keys(LIBRARIES), ...Object.keys(SETTINGS)]) {
    test(name, async (t) => {
      const nodes = await startCluster(t);
      const client = await ready((SETTINGS[name] ?? LIBRARIES[name].cluster)(nodes[0].url));
      const locks = new Locks(client);
      t.after(async () => {
        nodes[1].thaw();
        await locks.close();
        await hangUp(client);
      });
      const [eye, stock] = [await nodes[0].eye(t), new Stock(client)];
      /** A key of a node. */
      const keyOf = async (node) => {
        for (;;) {
          const key = newKey();
          if (Math.floor(((await eye.cluster("KEYSLOT", key)) * 3) / 16_384) === node) return key;
        }
      };
      const keys = await Promise.all(Array.from({ length: 20 }, (_, number) => keyOf(number % 2 ? 0 : 2)));
      const holds = await Promise.all(keys.map((key) => locks.acquire(key, { leaseMs: 8_000 })));
      nodes[1].freeze();
      assert.deepEqual(await Promise.all(keys.map((key) => stock.info(`${key}sale`))), keys.map(() => null));
      // Each listens over a connection of its own, some to the node that is frozen.
      const others = keys.map(() => new Locks(client));
      const granted = Promise.all(others.map((other, number) => other.acquire(keys[number], { waitMs: 30_000, extend: false })));
      await sleep(10_000);
      assert(holds.every((hold) => hold.held));
      assert((await Promise.all(holds.map((hold) => hold.release()))).every(Boolean));
      const time = await takes(granted);
      assert(time < 6_000, `${time}`);
      assert((await Promise.all((await granted).map((hold) => hold.release()))).every(Boolean));
      await Promise.all(others.map((other) => other.close()));
    });
  }
});

const SILENT = {
  async "in a cluster"(t, name) {
    const servers = await startCluster(t, 1);
    // By itself it does not know its address.
    await (await servers[0].eye(t)).config("SET", "cluster-announce-ip", "127.0.0.1");
    return { servers, client: await ready(LIBRARIES[name].cluster(servers[0].url)) };
  },
  async "behind Sentinel"(t, name) {
    const { primary, replica, sentinel } = await startSentinel(t, 60_000);
    return { servers: [primary, replica, sentinel], client: await ready(LIBRARIES[name].sentinel(sentinel.port)) };
  },
};

describe("where nothing answers, nobody is kept longer", { concurrency: 3 }, () => {
  for (const [where, make] of Object.entries(SILENT)) {
    for (const name of Object.keys(LIBRARIES)) {
      if (where === "behind Sentinel" && name.startsWith("node-redis 5")) continue;
      test(`${where}: ${name}`, async (t) => {
        const { servers, client } = await make(t, name);
        const locks = new Locks(client);
        t.after(async () => {
          for (const server of servers) server.thaw();
          await locks.close();
          await hangUp(client);
        });
        const eye = await servers[0].eye(t);
        const hold = await locks.acquire("lock", { leaseMs: 60_000, waitMs: 10_000 });
        const inLine = locks.acquire("lock", { waitMs: 3_000 });
        await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
        for (const server of servers) server.freeze();
        const waited = rejectsAfter(inLine, Unreachable);
        const later = rejectsAfter(locks.acquire("other", { waitMs: 500 }), Unreachable);
        const others = [locks.locked("lock"), new Stock(client).order("sale", "id"), hold.execute("GET", "lock")];
        const answers = others.map((answer) => rejectsAfter(answer, Unreachable));
        const released = rejectsAfter(hold.release(), NotReleased);
        assert((await later) < 2_500);
        assert((await waited) < 5_000);
        for (const answer of [...answers, released]) assert((await answer) < 5_500);
      });
    }
  }
});

for (const name of ["ioredis 5.0", "ioredis 5", "ioredis 6", "node-redis 6"]) {
  test(`behind Sentinel, a primary that freezes, and wakes as one of two: ${name}`, async (t) => {
    const { primary, replica, sentinel } = await startSentinel(t, 2_000);
    const client = await ready(LIBRARIES[name].sentinel(sentinel.port, { failoverDetector: true }));
    const locks = new Locks(client);
    t.after(async () => {
      await locks.close();
      await hangUp(client);
    });
    const [old, eye] = [await primary.eye(t), await replica.eye(t)];
    assert(await cmd(old, "LOCK.ACQUIRE", "lock", "TOKEN", "first", "PX", "600000"));
    assert.equal(await old.wait(1, 0), 1);
    let granted = false;
    const wait = locks.acquire("lock", { waitMs: 300_000 }).finally(() => (granted = true));
    await eventually("it waits", async () => (await waiting(old, "lock")) === 1);
    primary.freeze();
    await eventually("it takes over", async () => /role:master/.test(await eye.info("replication")));
    await eventually("it waits there", async () => (await waiting(eye, "lock")) === 1, 60_000);
    primary.thaw();
    await eventually("it waits there only", async () => (await waiting(old, "lock")) === 0);
    // Unless the old one has heard of the new one by now.
    await cmd(old, "LOCK.RELEASE", "lock", "first").catch((error) => assert.match(error.message, /^READONLY/));
    await sleep(500);
    assert(!granted);
    assert(await cmd(eye, "LOCK.RELEASE", "lock", "first"));
    const next = await wait;
    assert.equal((await info(eye, "lock")).holders[0].fence, next.fence);
    assert(next.held && (await next.owned()) && (await next.release()));
    assert.equal(await cmd(eye, "LOCK.INFO", "lock"), null);
  });
}
