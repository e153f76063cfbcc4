// The lowest and the newest of each library that the package names, on one server, in a cluster and behind Sentinel.

import { describe, test } from "node:test";

import { Locks, Stock, Unreachable, NotReplicated } from "lockstock";

import { aDay } from "../day.mjs";
import { LIBRARIES, ready } from "../libraries.mjs";
import { start, startCluster, startPair, startProxy, startSentinel } from "../own.mjs";
import { CLIENTS, assert, cmd, eventually, hangUp, info, newKey, rejectsAfter, sleep, waiting } from "../servers.mjs";

describe("libraries", { concurrency: 2 }, () => {
  for (const [name, library] of Object.entries(LIBRARIES)) {
    describe(name, { concurrency: true }, () => {
      for (const kind of ["alone", "cluster"]) {
        test(kind, async (t) => {
          const client = await ready(library[kind](kind === "alone" ? (await start(t)).url : undefined));
          const locks = new Locks(client);
          t.after(async () => {
            await locks.close();
            await hangUp(client);
          });
          await aDay(client, locks);
        });
      }

      test("a wait in a cluster outlasts its connection", async (t) => {
        const [client, eye] = [await library.cluster(), CLIENTS["ioredis cluster"]()];
        const locks = new Locks(client);
        t.after(async () => {
          await locks.close();
          await Promise.all([client, eye].map(hangUp));
        });
        const key = newKey();
        assert(await cmd(eye, "LOCK.ACQUIRE", key, "TOKEN", "first"));
        const begun = performance.now();
        const wait = locks.acquire(key, { waitMs: 9_500 });
        await eventually("it waits", async () => (await waiting(eye, key)) === 1);
        const { waiters } = await info(eye, key);
        for (const node of eye.nodes("master")) {
          // The others answer with MOVED.
          const isHere = await node.call("LOCK.INFO", key).then(() => true, () => false);
          if (isHere) assert.equal(await node.client("KILL", "ID", waiters[0].client), 1);
        }
        const again = async () => (await info(eye, key)).waiters.some((row) => row.client !== waiters[0].client);
        await eventually("it waits over another one", again, 9_000);
        assert(await cmd(eye, "LOCK.RELEASE", key, "first"));
        assert(await (await wait).release());
        assert(performance.now() - begun < 9_500);
      });

      test("behind Sentinel, through a failover", async (t) => {
        const { primary, replica, sentinel } = await startSentinel(t);
        const client = await ready(library.sentinel(sentinel.port));
        const locks = new Locks(client);
        t.after(async () => {
          await locks.close();
          await hangUp(client);
        });
        await aDay(client, locks);
        const safe = await locks.acquire("safe", { replicas: 1, leaseMs: 60_000 });
        const eye = await replica.eye(t);
        assert.equal((await info(eye, "safe")).holders[0].fence, safe.fence);
        const asked = performance.now();
        await assert.rejects(locks.acquire("lonely", { replicas: 2, waitMs: 3_000 }), NotReplicated);
        assert(performance.now() - asked < 5_000);
        await eventually("it was given back", async () => (await locks.info("lonely")) === null);
        // node-redis lends the only connection to the primary that it has, unless it is told to have more.
        if (client.acquire) {
          const main = await primary.eye(t);
          const lend = client.acquire.bind(client);
          client.acquire = async () => {
            client.acquire = lend;
            const lent = await lend();
            assert.equal(await main.del("robbed"), 1);
            return lent;
          };
          const robbed = await locks.acquire("robbed", { replicas: 1, waitMs: 20_000 });
          assert(await robbed.release());
        }

        const wait = locks.acquire("safe", { waitMs: 60_000 });
        await eventually("it waits", async () => (await locks.info("safe")).waiting === 1);
        const brief = locks.acquire("safe", { waitMs: 3_000 }).catch((error) => error);
        await eventually("they wait", async () => (await locks.info("safe")).waiting === 2);
        const begun = performance.now();
        await primary.kill();
        const said = await brief;
        assert(said === null || said instanceof Unreachable, said);
        assert(performance.now() - begun < 5_000);
        await eventually("it takes over", async () => /role:master/.test(await eye.info("replication")));
        await eventually("it waits there", async () => (await waiting(eye, "safe")) === 1);
        assert(safe.held && (await safe.owned()));
        assert(await safe.release());
        const next = await wait;
        assert(next.fence > safe.fence);
        assert(await next.release());
      });

      test("with replicas, in a database that was selected since", async (t) => {
        const { primary, replica } = await startPair(t);
        const client = await ready(library.alone(`${primary.url}/3`));
        const locks = new Locks(client);
        t.after(async () => {
          await locks.close();
          await hangUp(client);
        });
        const eye = await replica.eye(t);
        for (const database of [2, 0]) {
          await client.select(database);
          const hold = await locks.acquire("lock", { replicas: 1, waitMs: 20_000 });
          await eye.select(database);
          assert.equal((await info(eye, "lock")).holders[0].fence, hold.fence);
          assert(await hold.release());
        }
      });

      test("with replicas, a grant that ends before they have it leaves no connection while it is asked for again", async (t) => {
        const { primary } = await startPair(t);
        const proxy = await startProxy(t, primary);
        const client = await ready(library.alone(proxy.url));
        const locks = new Locks(client);
        t.after(async () => {
          await locks.close();
          await hangUp(client);
        });
        const eye = await primary.eye(t);
        const count = async () => (await eye.client("LIST")).match(/^id=/gm).length;
        const before = await count();
        proxy.lateMs = 150;
        const wait = locks.acquire("lock", { replicas: 1, waitMs: 60_000 });
        for (let [round, fence] = [0, 0]; round < 5; round++) {
          const granted = async () => (await info(eye, "lock")).holders[0]?.fence ?? 0;
          await eventually("it is granted", async () => (await granted()) > fence);
          fence = await granted();
          assert.equal(await eye.del("lock"), 1);
        }
        const more = (await count()) - before;
        assert(more <= 3, `${more} more connections`);
        assert(await (await wait).release());
      });

      test("an adjustment of which the answer is lost happens once", async (t) => {
        const server = await start(t);
        const proxy = await startProxy(t, server);
        const client = await ready(library.alone(proxy.url));
        t.after(() => hangUp(client));
        const [stock, eye] = [new Stock(client), await server.eye(t)];
        await stock.create("sale", 10);
        proxy.lateMs = 500;
        const adjusted = stock.adjust("sale", 5).catch((error) => assert(error instanceof Unreachable));
        await eventually("it was done", async () => /cmdstat_stock.adjust:calls=1,/.test(await eye.info("commandstats")));
        proxy.cut();
        proxy.lateMs = 0;
        await adjusted;
        assert.equal((await stock.info("sale")).total, 15);
        // Each is one of its own.
        assert.equal(await stock.adjust("sale", 5), 20);
      });

      test("what is closed while it connects leaves no connection", async (t) => {
        const server = await start(t);
        const proxy = await startProxy(t, server);
        const client = await ready(library.alone(proxy.url));
        const eye = await server.eye(t);
        t.after(() => hangUp(client));
        assert(await cmd(eye, "LOCK.ACQUIRE", "lock", "TOKEN", "first"));
        const count = async () => (await eye.client("LIST")).match(/^id=/gm).length;
        const before = await count();
        proxy.lateMs = 200;
        for (const ms of [0, 1, 5, 50, 300, 600]) {
          const locks = new Locks(client);
          const waits = [locks.acquire("lock", { waitMs: 60_000 }), locks.acquire("free", { replicas: 1, waitMs: 60_000, leaseMs: 1_000 })];
          const ended = Promise.allSettled(waits);
          await sleep(ms);
          await locks.close();
          await ended;
        }
        proxy.lateMs = 0;
        await eventually("they are closed", async () => (await count()) === before, 10_000);
      });

      test("what is closed while it connects to a cluster leaves no connection", async (t) => {
        const nodes = await startCluster(t);
        const client = await ready(library.cluster(nodes[0].url));
        t.after(() => hangUp(client));
        const eyes = await Promise.all(nodes.map((node) => node.eye(t)));
        const count = async () => (await Promise.all(eyes.map((eye) => eye.client("LIST")))).join("\n").match(/^id=/gm).length;
        await cmd(client, "LOCK.ACQUIRE", "key", "TOKEN", "first");
        const before = await count();
        for (const ms of [0, 1, 2, 3, 5, 8, 12, 20, 40, 100]) {
          const locks = new Locks(client);
          const ended = Promise.allSettled([locks.acquire("key", { waitMs: 60_000 })]);
          await sleep(ms);
          await locks.close();
          await ended;
        }
        // ioredis connects to the other two nodes when it asks for the slots.
        await eventually("they are closed", async () => (await count()) <= before + 2, 20_000);
      });

      test("in a session, and with replicas that are not there", async (t) => {
        const server = await start(t);
        const client = await ready(library.alone(server.url));
        const eye = await server.eye(t);
        const locks = new Locks(client);
        t.after(async () => {
          await locks.close();
          await hangUp(client);
        });
        const warnings = [];
        const warn = ({ name }) => warnings.push(name);
        process.on("warning", warn);
        t.after(() => process.off("warning", warn));
        // More listeners of an emitter than ten look like a leak.
        const holds = [];
        for (let number = 0; number < 12; number++) holds.push(await locks.acquire(`lock${number}`, { session: true }));
        assert.equal((await locks.info("lock0")).holders[0].session, true);
        assert(await holds.pop().release());
        await cmd(eye, "CLIENT", "KILL", "ID", await cmd(client, "CLIENT", "ID"));
        await eventually("they hear of it", () => holds.every((hold) => hold.lost.aborted), 5_000);
        for (const hold of holds) assert.equal(await hold.release(), false);
        assert(!warnings.includes("MaxListenersExceededWarning"));
        assert((await rejectsAfter(locks.acquire("lock", { replicas: 1, waitMs: 100 }), NotReplicated)) < 2_100);
        await eventually("it was given back", async () => (await locks.info("lock")) === null);
        assert.equal(Number((await cmd(eye, "CLIENT", "LIST")).match(/cmd=wait/g)?.length ?? 0), 0);
      });
    });
  }
});
