// A frozen node of a cluster, and a frozen primary behind Sentinel. There node-redis 5 is not played: it may look for the new primary for a
// minute, and meanwhile keeps its process so busy that other tests fail.

import { describe, test } from "node:test";

import { Cluster } from "ioredis";
import { Locks, Stock } from "lockstock";

import { LIBRARIES, ready } from "../libraries.mjs";
import { startCluster, startSentinel } from "../own.mjs";
import { assert, cmd, eventually, hangUp, info, newKey, sleep, takes, waiting } from "../servers.mjs";

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
