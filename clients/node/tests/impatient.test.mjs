// What hurried callers do: abort at any time, by the thousand over one connection, and hold on while servers change their roles.

import { test } from "node:test";

import { Locks, NotGranted } from "lockstock";
import { CLIENTS, aborted, assert, close, cmd, eventually, info, keepPlaces, newKey, sleep, waiting } from "./servers.mjs";

for (const name of ["ioredis", "node-redis"]) {
  /** Locks over a client that is closed after the test, and an eye on them. */
  const set = async (t) => {
    const [client, eye] = [await CLIENTS[name](), await CLIENTS.ioredis()];
    const locks = new Locks(client);
    t.after(async () => {
      await locks.close();
      await Promise.all([close(client), close(eye)]);
    });
    return { client, eye, locks };
  };
  const inLine = async (eye, key) => {
    const reply = await cmd(eye, "LOCK.INFO", key);
    return reply ? reply[reply.indexOf("waiting") + 1] : 0;
  };

  test(`${name}: one signal ends a thousand waits, without a warning`, async (t) => {
    const { eye, locks } = await set(t);
    const warnings = [];
    const warn = (warning) => warnings.push(warning);
    process.on("warning", warn);
    t.after(() => process.off("warning", warn));
    const key = newKey();
    const first = await locks.acquire(key);
    const stop = new AbortController();
    const waits = Array.from({ length: 1_000 }, () => locks.acquire(key, { waitMs: 60_000, signal: stop.signal }));
    const ended = Promise.allSettled(waits);
    await eventually("they wait", async () => (await inLine(eye, key)) === 1_000);
    const begun = performance.now();
    stop.abort();
    assert((await ended).every(({ status, reason }) => status === "rejected" && reason === stop.signal.reason));
    // Not by the time after which a server is taken for dead.
    assert(performance.now() - begun < 5_000);
    await eventually("nobody waits", async () => (await inLine(eye, key)) === 0);
    assert(await first.release());
    assert.deepEqual(warnings, []);
  });

  test(`${name}: a thousand tasks over one connection, which is cut, are served in order`, async (t) => {
    const { eye, locks } = await set(t);
    await keepPlaces(t, eye);
    const key = newKey();
    const first = await locks.acquire(key);
    const order = [];
    const works = Array.from({ length: 1_000 }, (_, number) => locks.using(key, { waitMs: 60_000 }, () => order.push(number)));
    await eventually("they wait", async () => (await inLine(eye, key)) === 1_000);
    await cmd(eye, "CLIENT", "KILL", "ID", (await info(eye, key)).waiters[0].client);
    await eventually("they wait again", async () => (await inLine(eye, key)) === 1_000);
    await first.release();
    await Promise.all(works);
    assert.deepEqual(order, Array.from({ length: 1_000 }, (_, number) => number));
  });

  test(`${name}: a storm of aborts leaves nothing behind`, async (t) => {
    const { eye, locks } = await set(t);
    const key = newKey();
    let [inside, served] = [0, 0];
    const work = async () => {
      assert.equal(++inside, 1);
      await sleep(1);
      inside--;
      served++;
    };
    const tasks = Array.from({ length: 200 }, () => {
      const stop = new AbortController();
      return { stop, done: locks.using(key, { waitMs: 60_000, leaseMs: 200_000, signal: stop.signal }, work) };
    });
    const ended = Promise.allSettled(tasks.map(({ done }) => done));
    for (const { stop } of tasks.sort(() => Math.random() - 0.5).slice(0, 150)) {
      await sleep(Math.random() * 4);
      stop.abort();
    }
    for (const { status, reason } of await ended) assert(status === "fulfilled" || reason.name === "AbortError", reason);
    assert(served >= 50);
    await eventually("it is free", async () => (await cmd(eye, "LOCK.INFO", key)) === null);
  });

  test(`${name}: a hold outlives a failover and is extended by the server that is primary then`, async (t) => {
    const { eye, locks } = await set(t);
    const key = newKey();
    const hold = await locks.acquire(key, { leaseMs: 4_000 });
    await cmd(eye, "REPLICAOF", "127.0.0.1", "1");
    await sleep(300);
    await cmd(eye, "REPLICAOF", "NO", "ONE");
    // Longer than the lease that the server had been told of before.
    await sleep(5_000);
    assert(hold.held && !hold.lost.aborted);
    assert(await hold.release());
  });

  test(`${name}: the end of a lease that nobody extends is told`, async (t) => {
    const { locks } = await set(t);
    const hold = await locks.acquire(newKey(), { leaseMs: 300, extend: false });
    await aborted(hold.lost);
    assert(!hold.held);
  });

  test(`${name}: who does not wait is told at once, also when the connection is cut`, async (t) => {
    const { client, eye, locks } = await set(t);
    const key = newKey();
    const first = await locks.acquire(key);
    const id = await cmd(client, "CLIENT", "ID");
    const asked = Array.from({ length: 50 }, () => locks.using(key, {}, () => {}));
    await Promise.all([cmd(eye, "CLIENT", "KILL", "ID", id), Promise.allSettled(asked)]);
    for (const { reason } of await Promise.allSettled(asked)) assert(reason instanceof NotGranted || /closed|connection|ECONNRESET|EPIPE/i.test(reason), reason);
    assert.equal(await waiting(eye, key), 0);
    assert(await first.release());
  });
}
