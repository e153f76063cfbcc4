// What the server promises to clients as they are, without the help of this package: time-outs, resends, one connection for all.

import { test } from "node:test";

import { Locks } from "lockstock";
import { CLIENTS, assert, close, cmd, eventually, info, keepPlaces, newKey, sleep, waiting } from "./servers.mjs";

/**
 * How each library is impatient: makes a client of which the requests fail after so many milliseconds. `keeps`: the connection is kept,
 * and the request in it. A bare node-redis has no time-out for what is written, so its callers race.
 */
const IMPATIENT = {
  ioredis: { keeps: true, make: (ms) => CLIENTS.ioredis({ commandTimeout: ms }) },
  "node-redis": { keeps: true, make: () => CLIENTS["node-redis"](), race: true },
  "node-redis, closing": { make: (ms) => CLIENTS["node-redis"]({ socket: { socketTimeout: ms, reconnectStrategy: false } }) },
};

const hangUp = (client) => client.isOpen !== false && (client.destroy ?? client.disconnect).call(client);

/** An impatient client, and a function that asks over it. It is closed after the test. */
async function impatient(t, name, ms) {
  const { make, race } = IMPATIENT[name];
  // On a busy machine even the way to a connection may take longer than it has patience.
  let client;
  const answers = async () => (client = await make(ms)) && (await client.ping()) === "PONG";
  await eventually("it is connected", () => answers().catch(() => client && void hangUp(client)));
  t.after(() => hangUp(client));
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
    if (keeps) await eventually("it waits", async () => (await waiting(eye, key)) === 1);
    assert.equal(await cmd(eye, "LOCK.RELEASE", key, "impatient"), 0);
    assert.equal(await waiting(eye, key), 0);
    assert.equal(await cmd(eye, "LOCK.RELEASE", key, "holder"), 1);
    assert.equal(await cmd(eye, "LOCK.INFO", key), null);
    // The connection that was kept is free again.
    if (keeps) await eventually("it answers", async () => (await client.ping().catch(() => "")) === "PONG");
  });
}

// A release, unless somebody reconnects just now: places are kept, but the next turn must not come while its owner is away.
const RELEASE = `
  local all = string.find(redis.call('INFO', 'lockstock'), 'lock_vacant_places:0\\r')
  return all and redis.call('LOCK.RELEASE', KEYS[1], ARGV[1]) or 0
`;
/** Whether nobody's time-out is near: a turn that comes with it may come before the server knows that its owner is away. */
async function allAskedJustNow(eye, key) {
  const lines = (await cmd(eye, "CLIENT", "LIST")).matchAll(/^id=(\d+) .* idle=(\d+) /gm);
  const idle = new Map([...lines].map(([, id, seconds]) => [Number(id), Number(seconds)]));
  return (await info(eye, key)).waiters.every((row) => (idle.get(row.client) ?? 9) < 2);
}
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
    await keepPlaces(t, eye);
    const order = [];
    const contend = async (number) => {
      const words = ["LOCK.ACQUIRE", key, "TOKEN", `c${number}`, "PX", "30000", "WAIT", "60000"];
      let by = await impatient(t, name, 3_000);
      let granted = await by.ask(...words).catch(() => null);
      for (let resent = 0; !granted && resent < 20; resent++) {
        if (how.includes("new")) by = await impatient(t, name, 3_000);
        granted = await by.ask(...words).catch(() => null);
      }
      assert(granted, `${number} was not granted the lock`);
      order.push(number);
      await sleep(400);
      const release = ["EVAL", RELEASE, "1", key, `c${number}`];
      await eventually("it is released", async () => (await allAskedJustNow(eye, key)) && cmd(eye, ...release));
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
    assert.deepEqual(order, Array.from({ length: 12 }, (_, number) => number));
    assert.equal(await cmd(eye, "LOCK.INFO", key), null);
  });
}

// So many GETs are timed while all wait for a lock, and as many while it goes from hand to hand.
const HALF = 100;

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
    works.push(locks.using(key, { waitMs: 30_000 }, work));
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
  for (let round = 0; round < 2 * HALF; round++) {
    pairs.push(await Promise.all([timed(client), timed(beside)]));
    if (round === HALF) await first.release();
    await sleep(1);
  }
  await Promise.all(works);
  assert.deepEqual(order, Array.from({ length: 50 }, (_, number) => number));
  return pairs;
}

const isHeldUp = (ours, other) => ours > 5 && other < ours / 2;
const median = (times) => times.sort((a, b) => a - b)[times.length >> 1];

for (const name of ["ioredis", "node-redis"]) {
  test(`${name}: fifty tasks wait over one connection, and GET beside them is quick`, async (t) => {
    const [client, beside] = [await patient(t, name), await patient(t, name)];
    const locks = new Locks(client);
    t.after(() => locks.close());
    let said;
    // If they were kept waiting by the machine all the same, they try again.
    for (let again = 0; again < 5; again++) {
      const pairs = await fiftyTasks(client, beside, locks);
      // While all wait, hardly a single GET is held up, or as many beside. While the lock goes from hand to hand, the connection has the
      // releases to carry, too, and how soon this process gets to send them is the machine's affair: that counts as a whole.
      const halves = [pairs.slice(0, HALF + 1), pairs.slice(HALF + 1)];
      const heldUp = halves[0].reduce((sum, [ours, other]) => sum + isHeldUp(ours, other) - isHeldUp(other, ours), 0);
      const medians = halves.map((half) => [0, 1].map((by) => median(half.map((pair) => pair[by]))));
      if (heldUp <= 1 && !medians.some(([ours, other]) => isHeldUp(ours, other))) return;
      said = `${heldUp}, medians ${medians}`;
    }
    assert.fail(said);
  });
}
