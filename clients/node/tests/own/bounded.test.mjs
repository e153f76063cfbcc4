// Nobody is kept waiting: whatever the server does, and however patient the client is.

import { describe, test } from "node:test";

import { Redis } from "ioredis";
import { Closed, Locks, Lost, NotReleased, Stock, Unreachable } from "lockstock";
import { createClient } from "redis";

import { assert, cmd, eventually, hangUp, info, rejectsAfter, sleep, waiting } from "../servers.mjs";
import { start } from "../own.mjs";

const quiet = (client) => client.on("error", () => {});
const LIBRARIES = {
  ioredis: (url) => quiet(new Redis(url)),
  "ioredis, patient": (url) => quiet(new Redis(url, { maxRetriesPerRequest: null })),
  "ioredis, without a queue": async (url) => {
    const client = quiet(new Redis(url, { enableOfflineQueue: false, lazyConnect: true }));
    await client.connect();
    return client;
  },
  "node-redis": (url) => quiet(createClient({ url })).connect(),
  "node-redis, without a queue": (url) => quiet(createClient({ url, disableOfflineQueue: true })).connect(),
};

/** What goes wrong with a server. */
const TROUBLES = { frozen: (server) => server.freeze(), killed: (server) => server.kill() };

/** A server, a client of it, its locks and an eye on them. */
async function set(t, name) {
  const server = await start(t);
  const client = await LIBRARIES[name](server.url);
  const locks = new Locks(client);
  t.after(async () => {
    await locks.close();
    await hangUp(client);
  });
  return { server, client, locks, eye: await server.eye(t) };
}

describe("bounded", { concurrency: 4 }, () => {
  for (const name of Object.keys(LIBRARIES)) {
    for (const [trouble, befall] of Object.entries(TROUBLES)) {
      test(`${name}: a server that is ${trouble} while they wait keeps nobody longer`, async (t) => {
        const { server, client, locks, eye } = await set(t, name);
        const hold = await locks.acquire("lock", { leaseMs: 60_000 });
        const soon = await locks.acquire("soon", { leaseMs: 4_000 });
        const stop = new AbortController();
        const aborted = locks.acquire("lock", { waitMs: 60_000, signal: stop.signal });
        const inLine = locks.acquire("lock", { waitMs: 3_000, token: "ann" });
        await eventually("they wait", async () => (await waiting(eye, "lock")) === 2);
        const waited = rejectsAfter(inLine, Unreachable);
        await befall(server);
        const later = rejectsAfter(locks.acquire("other", { waitMs: 500 }), Unreachable);
        const atOnce = rejectsAfter(locks.acquire("other"), Unreachable);
        const guarded = [hold.execute("GET", "lock"), locks.guard("other", { token: "ann" }, "PING")];
        const ordered = [new Stock(client).order("sale", "id"), new Stock(client).orders("sale").next()];
        const answers = [...guarded, ...ordered].map((answer) => rejectsAfter(answer, Unreachable));
        const looked = rejectsAfter(locks.locked("lock"), Unreachable);
        const brief = rejectsAfter(soon.release(), NotReleased);
        const long = rejectsAfter(hold.release(), NotReleased);
        assert(!hold.held && !hold.lost.aborted);
        await sleep(100);
        const left = rejectsAfter(aborted, { name: "AbortError" });
        stop.abort();
        assert((await left) < 100);
        assert((await atOnce) < 2_000);
        assert((await brief) < 4_100);
        assert((await later) < 2_500);
        assert((await waited) < 5_000);
        assert((await looked) < 5_500);
        for (const answer of answers) assert((await answer) < 5_500);
        assert((await long) < 5_500);
      });
    }

    test(`${name}: what was broken off is not granted when the server comes to`, async (t) => {
      const { server, locks, eye } = await set(t, name);
      const hold = await locks.acquire("lock", { leaseMs: 60_000 });
      const stop = new AbortController();
      const inLine = locks.acquire("lock", { waitMs: 60_000, token: "ann", signal: stop.signal });
      await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
      server.freeze();
      stop.abort(new RangeError("enough"));
      await assert.rejects(inLine, RangeError);
      await assert.rejects(locks.acquire("free"), Unreachable);
      server.thaw();
      await eventually("it has left", async () => (await waiting(eye, "lock")) === 0, 3_000);
      await eventually("it is free", async () => (await cmd(eye, "LOCK.INFO", "free")) === null, 3_000);
      assert(await hold.release());
      // The same token may ask again, and hears of this wait only.
      const next = await locks.acquire("lock", { waitMs: 5_000, token: "ann" });
      assert(next.held && (await next.release()));
    });

    test(`${name}: the end of the work says that it is not sure`, async (t) => {
      const { server, locks } = await set(t, name);
      const work = () => {
        server.freeze();
        return "done";
      };
      await assert.rejects(locks.using("lock", { leaseMs: 1_000 }, work), (error) => error instanceof NotReleased && error.result === "done");
      server.thaw();
      const late = locks.using("lock", { waitMs: 5_000, leaseMs: 300 }, async () => {
        server.freeze();
        await sleep(400);
      });
      await assert.rejects(late, Lost);
    });

    test(`${name}: closing breaks the waits off and leaves the holds`, async (t) => {
      const { client, locks } = await set(t, name);
      const hold = await locks.acquire("lock", { waitMs: 60_000 });
      const next = locks.acquire("lock", { waitMs: Infinity });
      const told = assert.rejects(next, Closed);
      await eventually("it waits", async () => (await info(client, "lock")).waiters.length === 1);
      await locks.close();
      await told;
      await assert.rejects(locks.acquire("other"), Closed);
      assert.equal((await info(client, "lock")).waiters.length, 0);
      assert(await hold.release());
      const others = new Locks(client);
      t.after(() => others.close());
      const last = await others.acquire("lock");
      const orphan = others.acquire("lock", { waitMs: Infinity });
      await eventually("it waits", async () => (await info(client, "lock")).waiters.length === 1);
      await hangUp(client);
      assert((await rejectsAfter(orphan, Closed)) < 1_000);
      assert((await rejectsAfter(others.acquire("other", { waitMs: 60_000 }), Closed)) < 1_000);
      assert((await rejectsAfter(last.release(), NotReleased)) < 1_000);
    });
  }
});
