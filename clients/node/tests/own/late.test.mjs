// A request that comes to the server after those that were sent later: the connection was cut while it was on its way.

import { describe, test } from "node:test";

import { Locks } from "lockstock";

import { LIBRARIES, ready } from "../libraries.mjs";
import { start, startCluster, startProxy } from "../own.mjs";
import { assert, cmd, eventually, hangUp, sleep } from "../servers.mjs";

const WAYS = {
  alone: { server: (t) => start(t), client: ({ alone }, url) => alone(url) },
  cluster: { server: async (t) => (await startCluster(t, 1))[0], client: ({ cluster }, url) => cluster(url) },
};

/** A server, a way to it that may break, locks over a client that goes this way, and an eye on them that does not. */
async function set(t, library, { server: begin, client: connect }) {
  const server = await begin(t);
  const [proxy, eye] = [await startProxy(t, server), await server.eye(t)];
  if (begin === WAYS.cluster.server) {
    await eye.config("SET", "cluster-announce-ip", "127.0.0.1");
    await eye.config("SET", "cluster-announce-port", new URL(proxy.url).port);
  }
  const client = await connect(LIBRARIES[library], proxy.url);
  const locks = new Locks(client);
  t.after(async () => {
    await locks.close();
    await hangUp(client);
  });
  return { proxy, client, locks, eye };
}

/** The hold lasts by a longer lease, and longer than the request that comes late. */
async function outlasts(hold, all) {
  assert(await hold.extend(60_000));
  await comesLate(hold, all);
}

async function comesLate(hold, { proxy, eye }) {
  assert.equal(proxy.overtaken, 0);
  await eventually("it comes late", () => proxy.overtaken === 1);
  assert.equal(await cmd(eye, "LOCK.ACQUIRE", "lock", "TOKEN", "next", "WAIT", "4500"), null);
  assert(hold.held && (await hold.release()));
}

for (const library of Object.keys(LIBRARIES)) {
  for (const way of Object.keys(WAYS)) {
    describe(`${library}, ${way}`, { concurrency: 3 }, () => {
      test("a request for the lock does not cut the lease of its hold short", async (t) => {
        const all = await set(t, library, WAYS[way]);
        await ready(all.client);
        all.proxy.overtakes = (request) => request.includes("LOCK.ACQUIRE");
        await outlasts(await all.locks.acquire("lock", { leaseMs: 3_000, waitMs: 30_000 }), all);
      });

      test("a request for an earlier hold of the token does not cut that of a later one short", async (t) => {
        const all = await set(t, library, WAYS[way]);
        await ready(all.client);
        all.proxy.overtakes = (request) => request.includes("LOCK.ACQUIRE");
        const first = await all.locks.acquire("lock", { leaseMs: 3_000, waitMs: 30_000, token: "ann" });
        assert(await first.release());
        await comesLate(await all.locks.acquire("lock", { leaseMs: 60_000, waitMs: 30_000, token: "ann" }), all);
      });

      test("an extension by less does not cut a longer one short", async (t) => {
        const all = await set(t, library, WAYS[way]);
        const hold = await all.locks.acquire("lock", { waitMs: 30_000 });
        all.proxy.overtakes = (request) => request.includes("LOCK.EXTEND");
        // Some of the libraries ask again.
        await hold.extend(3_000).catch(() => {});
        await outlasts(hold, all);
      });

      test("over a client that has just connected, a longer lease counts at once", async (t) => {
        const { locks } = await set(t, library, WAYS[way]);
        const hold = await locks.acquire("lock", { leaseMs: 1_500, waitMs: 30_000, extend: false });
        assert(await hold.extend(60_000));
        await sleep(2_000);
        assert(hold.held && (await hold.release()));
      });
    });
  }
}
