// What the server promises to clients as they are, without the help of this package: time-outs, resends, one connection for all.

import { test } from "node:test";

import { Locks } from "../lockstock.js";
import { CLIENTS, assert, close, cmd, eventually, info, newKey, sleep, waiting } from "./servers.js";

/**
 * How each library is impatient: makes a client of which the requests fail after so many milliseconds. `keeps`: the connection is kept,
 * and the request in it. A bare node-redis has no time-out for what is written, so its callers race.
 */
const IMPATIENT = {
  ioredis: { keeps: true, make: (ms) => CLIENTS.ioredis({ commandTimeout: ms }) },
  "node-redis": { keeps: true, make: () => CLIENTS["node-redis"](), race: true },
  "node-redis, closing": { make: (ms) => CLIENTS["node-redis"]({ socket: { socketTimeout: ms, reconnectStrategy: false } }) },
};

/** An impatient client, and a function that asks over it. It is closed after the test. */
async function impatient(t, name, ms) {
  const { make, race } = IMPATIENT[name];
  const client = await make(ms);
  t.after(() => client.isOpen !== false && (client.destroy ?? client.disconnect).call(client));
  const late = () => sleep(ms, null, { ref: false }).then(() => Promise.reject(new Error("too late")));
  return { client, ask: (...words) => (race ? Promise.race([cmd(client, ...words), late()]) : cmd(client, ...words)) };
}

/** A client that is closed after the test. */
async function patient(t, name) {
  const client = await CLIENTS[name]();
  t.after(() => close(client));
  return client;
}

for (const [name, { keeps }] of Object.entries(IMPATIENT)) {
  test(`${name}: a wait that timed out ends with a release`, async (t) => {
    const key = newKey();
    const eye = await patient(t, "ioredis");
    const { client, ask } = await impatient(t, name, 300);
    await cmd(eye, "LOCK.ACQUIRE", key, "TOKEN", "holder");
    await assert.rejects(ask("LOCK.ACQUIRE", key, "TOKEN", "impatient", "WAIT", "60000"));
    assert.equal(client.isOpen ?? true, Boolean(keeps));
    if (keeps) assert.equal(await waiting(eye, key), 1);
    assert.equal(await cmd(eye, "LOCK.RELEASE", key, "impatient"), 0);
    assert.equal(await waiting(eye, key), 0);
    assert.equal(await cmd(eye, "LOCK.RELEASE", key, "holder"), 1);
    assert.equal(await cmd(eye, "LOCK.INFO", key), null);
    // The connection that was kept is free again.
    if (keeps) assert.equal(await client.ping(), "PONG");
  });
}

// A release, unless somebody reconnects just now: places are kept, but the next turn must not come while its owner is away.
const RELEASE = `
  local all = string.find(redis.call('INFO', 'lockstock'), 'lock_vacant_places:0\\r')
  return all and redis.call('LOCK.RELEASE', KEYS[1], ARGV[1]) or 0
`;
const RESENDS = [
  ["ioredis", "over the connection that was kept"],
  ["ioredis", "each over a new connection"],
  ["node-redis", "over the connection that was kept"],
  ["node-redis, closing", "each over a new connection"],
];
for (const [name, how] of RESENDS) {
  test(`${name}: contenders that time out and resend, ${how}, are served in the order of their first asking`, async (t) => {
    const key = newKey();
    const eye = await patient(t, "ioredis");
    // A second is time enough to reconnect, but perhaps not on a machine that is busy with something else.
    await cmd(eye, "CONFIG", "SET", "lockstock.place-grace-ms", "10000");
    const order = [];
    const contend = async (number) => {
      const words = ["LOCK.ACQUIRE", key, "TOKEN", `c${number}`, "PX", "30000", "WAIT", "60000"];
      let by = await impatient(t, name, 3_000);
      let granted = await by.ask(...words).catch(() => null);
      for (let resent = 0; !granted && resent < 3; resent++) {
        if (how.includes("new")) by = await impatient(t, name, 3_000);
        granted = await by.ask(...words).catch(() => null);
      }
      assert(granted, `${number} was not granted the lock`);
      order.push(number);
      await sleep(400);
      await eventually("it is released", () => cmd(eye, "EVAL", RELEASE, "1", key, `c${number}`));
    };
    const works = [];
    for (let number = 0; number < 12; number++) {
      works.push(contend(number));
      await eventually("it asks", async () => {
        const { waiters } = await info(eye, key);
        return order.includes(number) || waiters.some((row) => row.token === `c${number}`);
      });
    }
    await Promise.all(works);
    await cmd(eye, "CONFIG", "SET", "lockstock.place-grace-ms", "1000");
    assert.deepEqual(order, Array.from({ length: 12 }, (_, number) => number));
    assert.equal(await cmd(eye, "LOCK.INFO", key), null);
  });
}

/**
 * Fifty tasks take a lock, one after the other, over one client. Gives how long each of 200 GETs over it took, with one beside it over
 * another, so that what keeps the whole machine waiting counts for neither.
 */
async function fiftyTasks(client, beside, locks) {
  const key = newKey();
  const first = await locks.acquire(key);
  const order = [];
  const works = [];
  for (let number = 0; number < 50; number++) {
    const work = async () => {
      order.push(number);
      await sleep(5);
    };
    works.push(locks.using(key, { wait: 30_000 }, work));
    await eventually("it waits", async () => (await waiting(beside, key)) === number + 1);
  }
  const shared = await cmd(client, "CLIENT", "ID");
  assert((await info(beside, key)).waiters.every((row) => row.client === shared));
  const timed = async (by) => {
    const begun = performance.now();
    await cmd(by, "GET", "key");
    return performance.now() - begun;
  };
  const pairs = [];
  for (let round = 0; round < 200; round++) {
    pairs.push(await Promise.all([timed(client), timed(beside)]));
    if (round === 100) await first.release();
    await sleep(1);
  }
  await Promise.all(works);
  assert.deepEqual(order, Array.from({ length: 50 }, (_, number) => number));
  return pairs;
}

for (const name of ["ioredis", "node-redis"]) {
  test(`${name}: fifty tasks wait over one connection, and GET beside them is quick`, async (t) => {
    const [client, beside] = [await patient(t, name), await patient(t, name)];
    const locks = new Locks(client);
    t.after(() => locks.close());
    let said;
    // If they were kept waiting by the machine all the same, they try again.
    for (let again = 0; again < 5; again++) {
      const pairs = await fiftyTasks(client, beside, locks);
      const ours = pairs.map(([ours]) => ours).sort((a, b) => a - b);
      const heldUp = pairs.filter(([ours, other]) => ours > 5 && other < ours / 2);
      if (ours[100] < 5 && heldUp.length <= 2) return;
      said = `median ${ours[100]}, ${heldUp}`;
    }
    assert.fail(said);
  });
}
