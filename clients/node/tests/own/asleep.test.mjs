// A machine that sleeps: Node's own clock stands still on Linux, the wall clock leaps. Here only the wall clock does, which comes to the same.

import { test } from "node:test";

import { Redis } from "ioredis";
import { Locks, Lost, Unreachable } from "lockstock";

import { start, startProxy } from "../own.mjs";
import { assert, eventually, info, sleep } from "../servers.mjs";

const { now: wall } = Date;
let leapt = 0;
Date.now = () => wall() + leapt;

test("a machine that sleeps", async (t) => {
  const server = await start(t);
  const proxy = await startProxy(t, server);
  const client = new Redis(proxy.url).on("error", () => {});
  const locks = new Locks(client);
  const eye = await server.eye(t);
  t.after(async () => {
    await locks.close();
    client.disconnect();
  });

  await t.test("a hold does not outlast a sleep longer than its lease, and its owner is told soon", async () => {
    const hold = await locks.acquire("lock", { leaseMs: 600_000 });
    leapt += 601_000;
    assert(!hold.held);
    assert(!hold.lost.aborted);
    await eventually("it is told", () => hold.lost.aborted, 2_000);
    assert(hold.lost.reason instanceof Lost);
    assert.equal(await hold.release(), false);
    await eventually("it is free", async () => (await info(eye, "lock")).holders.length === 0);
  });

  await t.test("a shorter sleep counts, too, and the lease is extended after it", async () => {
    const hold = await locks.acquire("lock", { leaseMs: 600_000 });
    assert(await eye.call("LOCK.EXTEND", "lock", hold.token, "PX", "100000"));
    leapt += 500_000;
    assert(hold.held);
    await eventually("it is extended", async () => (await info(eye, "lock")).holders[0]["lease-ms"] > 500_000, 3_000);
    // Behind the answer to that, and after what it leads to.
    await client.ping();
    await sleep(20);
    leapt += 500_000;
    assert(hold.held && (await hold.release()));
  });

  await t.test("a wall clock that is set back ends nothing, and a sleep after that does", async () => {
    const hold = await locks.acquire("lock", { leaseMs: 60_000 });
    leapt -= 7_200_000;
    assert(hold.held);
    leapt += 61_000;
    assert(!hold.held);
    assert.equal(await hold.release(), false);
  });

  await t.test("a grant that came before a sleep, and was read after it, lets nobody in", async () => {
    proxy.lateMs = 300;
    const asked = assert.rejects(locks.acquire("lock", { leaseMs: 60_000 }), Unreachable);
    await sleep(100);
    leapt += 60_000;
    await asked;
    proxy.lateMs = 0;
    await eventually("it is free", async () => (await info(eye, "lock")).holders.length === 0);
  });
});
