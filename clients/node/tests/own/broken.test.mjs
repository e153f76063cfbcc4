// What is believed of a hold, and left behind of a wait, while the network breaks and the server refuses: never two are inside.

import { EventEmitter } from "node:events";
import { describe, test } from "node:test";

import { Redis } from "ioredis";
import { AlreadyHeld, Closed, Locks, Lost, NotReleased, Refused, Unreachable } from "lockstock";
import { createClient } from "redis";
import { createClient as createClient5 } from "redis-5";

import { start, startPair, startProxy } from "../own.mjs";
import { assert, cmd, eventually, hangUp, info, sleep, waiting } from "../servers.mjs";

const quiet = (client) => client.on("error", () => {});
const LIBRARIES = {
  ioredis: (url) => quiet(new Redis(url, { retryStrategy: () => 20 })),
  "node-redis": (url) => quiet(createClient({ url, socket: { reconnectStrategy: () => 20 } })).connect(),
};

/** A server, a way to it that may break, a client that goes this way, its locks, and an eye on them that does not. */
async function set(t, name) {
  const server = await start(t);
  const proxy = await startProxy(t, server);
  const client = await LIBRARIES[name](proxy.url);
  const locks = new Locks(client);
  t.after(async () => {
    await locks.close();
    await hangUp(client);
  });
  return { server, proxy, client, locks, eye: await server.eye(t) };
}

const holders = async (eye, key) => (await info(eye, key)).holders.length;
const listeners = async (eye) => [...(await eye.client("LIST")).matchAll(/^id=(\d+) .* sub=[1-9]/gm)].map(([, id]) => id);

for (const name of Object.keys(LIBRARIES)) {
  describe(name, { concurrency: 4 }, () => {
    test("a longer lease counts when the answer to it has come, not when that to an earlier request has", async (t) => {
      const { proxy, locks, eye } = await set(t, name);
      const hold = await locks.acquire("lock", { leaseMs: 3_000, extend: false });
      proxy.lateMs = 1_000;
      const first = hold.extend();
      await eventually("the server has heard it", async () => /cmdstat_lock.extend:calls=1,/.test(await eye.info("commandstats")));
      proxy.drops = () => true;
      const second = assert.rejects(hold.extend(60_000), Unreachable);
      assert(await first);
      await eventually("it is over", async () => (await holders(eye, "lock")) === 0);
      assert(!hold.held);
      await second;
    });

    test("a shorter lease counts at once", async (t) => {
      const { proxy, locks } = await set(t, name);
      const hold = await locks.acquire("lock", { leaseMs: 60_000, extend: false });
      proxy.deaf = true;
      const asked = assert.rejects(hold.extend(300), Unreachable);
      await sleep(350);
      assert(!hold.held && hold.lost.aborted);
      await asked;
    });

    test("a lease that could not be made longer is extended all the same", async (t) => {
      const { proxy, locks, eye } = await set(t, name);
      const hold = await locks.acquire("lock", { leaseMs: 20_000 });
      proxy.closed = true;
      proxy.cut();
      await assert.rejects(hold.extend(600_000), Unreachable);
      proxy.closed = false;
      await eventually("it is extended", async () => (await info(eye, "lock")).holders[0]["lease-ms"] > 500_000);
      assert(hold.held && (await hold.release()));
    });

    test("a lease that is not to be extended is not, whatever became of a request for that", async (t) => {
      const { proxy, locks, eye } = await set(t, name);
      const hold = await locks.acquire("lock", { leaseMs: 3_000, extend: false });
      // Its many extensions give every occasion to extend the first, too.
      const other = await locks.acquire("other", { leaseMs: 1_500 });
      proxy.closed = true;
      proxy.cut();
      await assert.rejects(hold.extend(), Unreachable);
      proxy.closed = false;
      await eventually("it is lost", () => hold.lost.aborted);
      await eventually("it is over", async () => (await holders(eye, "lock")) === 0);
      await other.release().catch((error) => assert(error instanceof NotReleased));
    });

    test("a session is over with its connection, though there is no other yet", async (t) => {
      const { proxy, locks, eye } = await set(t, name);
      const hold = await locks.acquire("lock", { session: true });
      const other = await locks.acquire("other");
      proxy.closed = true;
      proxy.cut();
      await eventually("the next one has it", () => cmd(eye, "LOCK.ACQUIRE", "lock", "TOKEN", "next"));
      await eventually("it is lost", () => hold.lost.aborted);
      assert(!hold.held && hold.lost.reason instanceof Lost);
      assert(other.held && !other.lost.aborted);
      proxy.closed = false;
      assert.equal(await hold.release(), false);
      assert(await other.release());
      assert.equal((await info(eye, "lock")).holders[0].token, "next");
    });

    test("a session that ends while the replicas are asked is no hold", async (t) => {
      const { primary, replica } = await startPair(t);
      const client = await LIBRARIES[name](primary.url);
      const locks = new Locks(client);
      t.after(async () => {
        await locks.close();
        await hangUp(client);
      });
      const eye = await primary.eye(t);
      const id = await cmd(client, "CLIENT", "ID");
      replica.freeze();
      const told = assert.rejects(locks.acquire("lock", { session: true, replicas: 1 }), Unreachable);
      await eventually("the replicas are asked", async () => / cmd=wait /.test(await eye.client("LIST")));
      assert.equal(await eye.client("KILL", "ID", id), 1);
      await eventually("the next one has it", () => cmd(eye, "LOCK.ACQUIRE", "lock", "TOKEN", "next"));
      replica.thaw();
      await told;
      assert.equal((await info(eye, "lock")).holders[0].token, "next");
    });

    test("a grant that comes when its lease is over lets nobody in", async (t) => {
      const { proxy, locks, eye } = await set(t, name);
      proxy.lateMs = 300;
      await assert.rejects(locks.using("lock", { leaseMs: 200 }, () => assert.fail("inside")), Unreachable);
      const wait = locks.acquire("lock", { leaseMs: 200, waitMs: 5_000 });
      await sleep(1_000);
      proxy.lateMs = 0;
      const hold = await wait;
      assert(hold.held && (await hold.release()));
      await eventually("it is free", async () => (await holders(eye, "lock")) === 0);
    });

    test("an answer that comes when the hold is lost does not say that it is extended", async (t) => {
      const { proxy, locks } = await set(t, name);
      const hold = await locks.acquire("lock", { leaseMs: 1_000, extend: false });
      proxy.lateMs = 1_500;
      assert.equal(await hold.extend(60_000), false);
      assert(!hold.held && hold.lost.aborted);
      proxy.lateMs = 0;
    });

    test("a hold that is lost by the clock is not taken up by the next of its token", async (t) => {
      const { proxy, locks, eye } = await set(t, name);
      const lost = await locks.acquire("lock", { token: "ann", leaseMs: 1_000, extend: false });
      await sleep(500);
      // For the server it lasts half a second longer than for its owner, who hears too late of that.
      proxy.lateMs = 1_200;
      const asked = lost.extend();
      await eventually("it is lost", () => lost.lost.aborted);
      proxy.lateMs = 0;
      const next = await locks.acquire("lock", { token: "ann", waitMs: 5_000 });
      assert(next.fence > lost.fence);
      assert.equal(await lost.release(), false);
      await asked.catch(() => {});
      await eye.ping();
      assert(await next.owned());
      assert(await next.release());
    });

    test("a release that is sent again does not end the next hold of its token", async (t) => {
      const { proxy, locks } = await set(t, name);
      for (let round = 0; round < 5; round++) {
        const hold = await locks.acquire("lock", { token: "ann" });
        proxy.drops = (request) => request.includes("RELEASE") && (proxy.cut(), true);
        const released = hold.release().catch((error) => assert(error instanceof NotReleased));
        await sleep(10 * round);
        proxy.drops = () => false;
        const next = await locks.acquire("lock", { token: "ann", waitMs: 4_000 });
        await released;
        assert(next.held && (await next.owned()));
        assert(await next.release());
      }
    });

    test("a wait that is refused when it asks again leaves the line", async (t) => {
      const { locks, eye } = await set(t, name);
      const hold = await locks.acquire("lock");
      const wait = assert.rejects(locks.acquire("lock", { waitMs: 60_000 }), (error) => error instanceof Refused && error.code === "OOM");
      await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
      await eventually("it listens", async () => (await listeners(eye)).length === 1);
      await eye.config("SET", "maxmemory", "1");
      for (const id of await listeners(eye)) await eye.client("KILL", "ID", id);
      await wait;
      await eventually("it has left", async () => (await waiting(eye, "lock")) === 0, 5_000);
      assert(await hold.release());
    });

    test("what was granted by a lost answer is given back when the library asks again and is refused", async (t) => {
      const { proxy, locks, eye } = await set(t, name);
      await locks.locked("lock");
      proxy.lateMs = 500;
      const told = assert.rejects(locks.acquire("lock", { leaseMs: 60_000 }), (error) => error.code === "OOM" || error instanceof Unreachable);
      await eventually("it is granted", async () => (await holders(eye, "lock")) === 1);
      await eye.config("SET", "maxmemory", "1");
      proxy.cut();
      proxy.lateMs = 0;
      await told;
      await eventually("it is given back", async () => (await holders(eye, "lock")) === 0, 5_000);
    });

    test("a hold of the token in another mode, which was taken elsewhere, stays", async (t) => {
      const { proxy, locks, eye } = await set(t, name);
      assert(await cmd(eye, "LOCK.ACQUIRE", "lock", "TOKEN", "first"));
      const told = assert.rejects(locks.acquire("lock", { waitMs: 60_000, token: "ann" }), /another mode/);
      await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
      proxy.closed = true;
      proxy.cut();
      await eventually("its place is gone", async () => (await waiting(eye, "lock")) === 0);
      assert(await cmd(eye, "LOCK.RELEASE", "lock", "first"));
      assert(await cmd(eye, "LOCK.ACQUIRE", "lock", "TOKEN", "ann", "LIMIT", "2"));
      proxy.closed = false;
      await told;
      await sleep(200);
      assert.equal(await holders(eye, "lock"), 1);
    });

    test("what is left of several locks is given back when the wait for them is over", async (t) => {
      const { proxy, locks, eye } = await set(t, name);
      const keys = ["{lock}1", "{lock}2"];
      assert(await cmd(eye, "LOCK.ACQUIRE", keys[0], "TOKEN", "first"));
      const wait = locks.acquire(keys, { waitMs: 2_000, leaseMs: 60_000, token: "ann" });
      await eventually("they wait", async () => (await waiting(eye, keys[1])) === 1);
      proxy.lateMs = 500;
      assert(await cmd(eye, "LOCK.RELEASE", keys[0], "first"));
      // Before the grant is heard of here.
      assert.equal(await cmd(eye, "LOCK.RELEASE", keys[0], "ann"), 1);
      assert(await cmd(eye, "LOCK.ACQUIRE", keys[0], "TOKEN", "next"));
      proxy.lateMs = 0;
      assert.equal(await wait, null);
      await eventually("it is free", async () => (await holders(eye, keys[1])) === 0, 5_000);
    });

    test("and where one of them has another value meanwhile", async (t) => {
      const { proxy, locks, eye } = await set(t, name);
      const keys = ["{lock}1", "{lock}2"];
      assert(await cmd(eye, "LOCK.ACQUIRE", keys[0], "TOKEN", "first"));
      const wait = locks.acquire(keys, { waitMs: 10_000, leaseMs: 60_000 });
      const told = assert.rejects(wait, { code: "WRONGTYPE" });
      await eventually("they wait", async () => (await waiting(eye, keys[1])) === 1);
      proxy.lateMs = 500;
      assert(await cmd(eye, "LOCK.RELEASE", keys[0], "first"));
      assert.equal(await cmd(eye, "SET", keys[0], "text"), "OK");
      proxy.lateMs = 0;
      await told;
      await eventually("it is free", async () => (await holders(eye, keys[1])) === 0, 5_000);
    });

    test("a server that runs a script for long is asked again, for a lock and for its release", async (t) => {
      const { locks, eye, server } = await set(t, name);
      await eye.config("SET", "busy-reply-threshold", "20");
      const hold = await locks.acquire("lock");
      const script = await server.eye(t);
      const done = script.eval("local s = redis.call('TIME'); repeat local n = redis.call('TIME') until (n[1] - s[1]) * 1e6 + n[2] - s[2] > 3e6", 0);
      await eventually("it is busy", () => eye.ping().then(() => false, (error) => /^BUSY /.test(error.message)));
      const wait = locks.acquire("lock", { waitMs: 60_000 });
      assert(await hold.release());
      await done;
      assert(await (await wait).release());
    });

    test("a token that is still leaving the line can be stopped from asking again", async (t) => {
      const { server, locks, eye } = await set(t, name);
      await locks.acquire("lock", { extend: false, leaseMs: 60_000 });
      const ask = (signal) => locks.acquire("lock", { waitMs: 60_000, token: "ann", signal });
      const first = new AbortController();
      const left = assert.rejects(ask(first.signal), { name: "AbortError" });
      await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
      server.freeze();
      first.abort();
      await left;
      const second = new AbortController();
      const again = assert.rejects(ask(second.signal), { name: "AbortError" });
      await sleep(50);
      const begun = performance.now();
      second.abort();
      await again;
      assert(performance.now() - begun < 1_000);
      const closed = assert.rejects(ask(), Closed);
      await assert.rejects(locks.acquire("lock", { token: "ann" }), (error) => !(error instanceof AlreadyHeld));
      await locks.close();
      await closed;
      server.thaw();
    });

    test("what is asked for just before the end is ended, too, and nothing listens any more", async (t) => {
      const { client, locks, eye } = await set(t, name);
      await locks.acquire("lock", { waitMs: 1, extend: false });
      const begun = performance.now();
      const last = assert.rejects(locks.acquire("lock", { waitMs: 5_000 }), Closed);
      await locks.close();
      await last;
      assert(performance.now() - begun < 2_000);
      await eventually("nothing listens", async () => (await listeners(eye)).length === 0);
      const others = new Locks(client);
      assert.equal(await others.acquire("lock", { waitMs: 1 }), null);
      await eventually("it listens", async () => (await listeners(eye)).length === 1);
      await (client.close ?? client.quit).call(client);
      await eventually("nothing listens", async () => (await listeners(eye)).length === 0);
    });

    test("messages that the server has not sent do no harm", async (t) => {
      const { locks, eye } = await set(t, name);
      const hold = await locks.acquire("lock");
      const wait = locks.acquire("lock", { waitMs: 60_000, token: "ann" });
      await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
      const ours = { key: "lock", token: "ann" };
      const said = ["", "{", "null", "[]", 1, {}, { key: {}, token: [] }, { keys: 5, token: "ann" }, { keys: [{}], token: "ann" }, ours];
      said.push({ ...ours, event: "granted" }, { ...ours, event: "granted", fence: "x" }, { ...ours, event: "granted", fence: 7 });
      // What cannot be made a string.
      const odd = { toString: 1 };
      said.push(odd, { keys: [odd, odd], token: "ann" }, { key: odd, token: "ann" }, { ...ours, token: odd }, { ...ours, event: odd });
      said.push({ ...ours, event: "granted", fence: 0 }, { ...ours, event: "granted", fence: odd }, { ...ours, event: "failed", error: odd });
      said.push({ ...ours, event: "what" }, { ...ours, event: "failed", error: "REPLACED by another" });
      for (const channel of await eye.call("PUBSUB", "CHANNELS", "lockstock:*")) {
        for (const message of said) await eye.publish(channel, typeof message === "object" ? JSON.stringify(message) : message);
      }
      await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
      assert(await hold.release());
      assert(await (await wait).release());
    });
  });
}

/** A client of ioredis that answers what it is told to, one after the other. */
class Told extends EventEmitter {
  status = "ready";
  constructor(...answers) {
    super();
    this.answers = answers;
  }
  async call() {
    const answer = this.answers.shift() ?? null;
    if (answer instanceof Error) throw answer;
    return answer;
  }
  duplicate = () => this;
  subscribe = async () => 1;
  unsubscribe = async () => 0;
  disconnect() {}
}

test("ioredis's own question to a connection that listens already fails no wait", async () => {
  const no = new Error("ERR Can't execute 'info': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context");
  const locks = new Locks(new Told(no, ["ann", 7, 30_000], 1));
  const hold = await locks.acquire("lock", { waitMs: 5_000 });
  assert.equal(hold.fence, 7);
  assert(await hold.release());
  await locks.close();
});

test("what ended in part was not ended by a release whose answer was lost", async () => {
  for (const [count, sure] of [[2, true], [1, true], [0, false]]) {
    const locks = new Locks(new Told(["ann", 7, 30_000], new Error("connection lost"), count));
    const hold = await locks.acquire(["lock", "other"]);
    if (sure) assert.equal(await hold.release(), count === 2);
    else await assert.rejects(hold.release(), NotReleased);
    await locks.close();
  }
});

test("node-redis: what listens may be silent for longer than the client", async (t) => {
  const server = await start(t);
  const client = await quiet(createClient({ url: server.url, socket: { socketTimeout: 500 } })).connect();
  const locks = new Locks(client);
  const busy = setInterval(() => client.ping().catch(() => {}), 50);
  t.after(async () => {
    clearInterval(busy);
    await locks.close();
    await hangUp(client);
  });
  const eye = await server.eye(t);
  assert(await cmd(eye, "LOCK.ACQUIRE", "lock", "TOKEN", "first"));
  const wait = locks.acquire("lock", { waitMs: 60_000 });
  await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
  const ears = await listeners(eye);
  await sleep(1_500);
  assert.deepEqual([ears.length, await listeners(eye)], [1, ears]);
  assert(await cmd(eye, "LOCK.RELEASE", "lock", "first"));
  assert(await (await wait).release());
});

test("a token may ask again when what it asked for before has surely ended, however long that takes", async (t) => {
  const server = await start(t);
  const client = quiet(new Redis(server.url, { maxRetriesPerRequest: null }));
  const locks = new Locks(client);
  t.after(() => client.disconnect());
  const eye = await server.eye(t);
  assert(await cmd(eye, "LOCK.ACQUIRE", "lock", "TOKEN", "first"));
  const stop = new AbortController();
  const left = assert.rejects(locks.acquire("lock", { token: "ann", waitMs: 60_000, signal: stop.signal }), { name: "AbortError" });
  await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
  server.freeze();
  stop.abort();
  await left;
  // Longer than any answer is waited for: the withdrawal is on its way still.
  const next = locks.acquire("lock", { token: "ann", waitMs: 20_000 });
  await sleep(5_500);
  server.thaw();
  await eventually("it waits again", async () => (await waiting(eye, "lock")) === 1);
  assert(await cmd(eye, "LOCK.RELEASE", "lock", "first"));
  assert(await (await next).release());
  await locks.close();
});

test("node-redis 5 that does not connect again: the waits are told", async (t) => {
  const server = await start(t);
  const proxy = await startProxy(t, server);
  const client = await quiet(createClient5({ url: proxy.url, socket: { reconnectStrategy: false } })).connect();
  const locks = new Locks(client);
  t.after(() => locks.close());
  await locks.acquire("lock", { extend: false, leaseMs: 60_000 });
  const wait = assert.rejects(locks.acquire("lock", { waitMs: 60_000 }), Closed);
  const eye = await server.eye(t);
  await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
  proxy.cut();
  const begun = performance.now();
  await wait;
  assert(performance.now() - begun < 5_000);
});
