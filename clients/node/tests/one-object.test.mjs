// One `Locks` for many tasks: never two inside, each release for its own hold only, and no hold without an owner.

import { AsyncResource } from "node:async_hooks";
import { after, before, describe, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { AlreadyHeld, Locks, Lost, NotHeld } from "lockstock";

import { CLIENTS, assert, close, cmd, elsewhere, eventually, info, newKey, sleep, waiting } from "./servers.mjs";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc");

for (const [name, make] of Object.entries(CLIENTS)) {
  describe(name, () => {
    let client, locks;

    before(async () => {
      client = await make();
      locks = new Locks(client);
    });
    after(async () => {
      await locks.close();
      await close(client);
    });

    test("a hundred tasks that share it are inside one after the other", async () => {
      const key = newKey();
      let inside = 0;
      const fences = [];
      const work = async (hold) => {
        assert.equal(++inside, 1);
        fences.push(hold.fence);
        await sleep(1);
        inside--;
      };
      await Promise.all(Array.from({ length: 100 }, () => locks.using(key, { waitMs: 60_000 }, work)));
      assert.equal(new Set(fences).size, 100);
    });

    test("a token that has the lock, or waits for it, does not get it twice", async () => {
      const key = newKey();
      const hold = await locks.acquire(key, { token: "ann" });
      await assert.rejects(locks.acquire(key, { token: "ann" }), AlreadyHeld);
      await assert.rejects(new Locks(client).acquire([key, key + "b"], { token: "ann" }), AlreadyHeld);
      const wait = locks.acquire(key, { token: "bob", waitMs: 60_000 });
      await assert.rejects(locks.acquire(key, { token: "bob", waitMs: 60_000 }), AlreadyHeld);
      await assert.rejects(locks.acquire(key, { token: "bob" }), /another token/);
      assert(await hold.release());
      const next = await wait;
      assert(next.held && (await next.release()));
      const again = await locks.acquire(key, { token: "ann" });
      assert(again.fence > next.fence);
      assert(await again.release());
    });

    test("a wait that was broken off does not end the next one of its token", async () => {
      const key = newKey();
      const first = await locks.acquire(key);
      for (let round = 0; round < 20; round++) {
        const stop = new AbortController();
        const broken = locks.acquire(key, { token: "ann", waitMs: 60_000, signal: stop.signal });
        if (round % 2) await eventually("it waits", async () => (await waiting(client, key)) === 1);
        stop.abort();
        await assert.rejects(broken, { name: "AbortError" });
      }
      const wait = locks.acquire(key, { token: "ann", waitMs: 60_000 });
      await eventually("it waits", async () => (await waiting(client, key)) === 1);
      assert(await first.release());
      const hold = await wait;
      await sleep(20);
      assert(hold.held && (await hold.owned()));
      assert(await hold.release());
    });

    test("a grant that ended before it was heard of does not count", async () => {
      const key = newKey();
      const first = await locks.acquire(key);
      const wait = locks.acquire(key, { token: "ann", waitMs: 60_000, leaseMs: 60_000 });
      await eventually("it waits", async () => (await waiting(client, key)) === 1);
      // Granted and taken away in one step, before its message comes.
      const words = ["LOCK.RELEASE", key, first.token];
      await Promise.all([cmd(client, ...words), cmd(client, "DEL", key), cmd(client, "LOCK.ACQUIRE", key, "TOKEN", "bob", "PX", "300")]);
      const hold = await wait;
      const { holders } = await info(client, key);
      assert.deepEqual(holders.map((row) => [row.token, row.fence]), [["ann", hold.fence]]);
      assert(await hold.release());
      assert(!(await first.release()));
    });

    test("a task that is inside is told at once that it cannot enter again", async () => {
      const key = newKey();
      await locks.using([key + "a", key + "b"], async (hold) => {
        await sleep(1);
        for (const options of [{}, { waitMs: 60_000 }, { shared: true, waitMs: 60_000 }]) {
          await assert.rejects(locks.using(key + "b", options, () => assert.fail()), AlreadyHeld);
          await assert.rejects(locks.acquire(key + "a", options), /inside already/);
        }
        await locks.using(key + "c", async () => {
          await assert.rejects(locks.acquire(key + "a"), AlreadyHeld);
        });
        assert.equal(await elsewhere(() => locks.acquire(key + "a")), null);
        assert(await hold.release());
        assert(await (await locks.acquire(key + "a")).release());
      });
      // A task that it has begun, and that goes on after it, may come later.
      const later = await locks.using(key, async () => AsyncResource.bind(() => locks.acquire(key)));
      assert(await (await later()).release());
    });

    test("released is released, once", async () => {
      const key = newKey();
      const hold = await locks.acquire(key, { token: "ann" });
      const both = [hold.release(), hold.release()];
      assert(!hold.held);
      assert.deepEqual(await Promise.all(both), [true, true]);
      const next = await locks.acquire(key, { token: "ann" });
      assert.equal(await hold.release(), true);
      assert(!(await hold.extend()) && !hold.held && !hold.lost.aborted);
      assert(!(await hold.owned()) && (await next.owned()));
      assert(await next.release());
      const lapsed = await locks.acquire(key, { leaseMs: 500, extend: false });
      await sleep(600);
      assert.equal(await lapsed.release(), false);
      assert(lapsed.lost.aborted && lapsed.lost.reason instanceof Lost);
      await assert.rejects(async () => lapsed[Symbol.asyncDispose](), Lost);
    });

    test("it is extended when asked for, and looked at", async () => {
      const key = newKey();
      assert.equal(await locks.locked(key), false);
      assert.equal(await locks.info(key), null);
      const hold = await locks.acquire(key, { leaseMs: 1_000, token: "ann" });
      assert.equal(await locks.locked(key), true);
      assert.equal(await hold.extend(60_000), true);
      const { mode, limit, holders, waiters, waiting } = await locks.info(key);
      assert.deepEqual([mode, limit, waiters, waiting], ["exclusive", 0, [], 0]);
      assert(holders[0].leaseMs > 50_000);
      assert.deepEqual({ ...holders[0], leaseMs: 0 }, { token: "ann", fence: hold.fence, leaseMs: 0, session: false });
      // As its timer does from now on.
      assert.equal(await hold.extend(), true);
      assert((await locks.info(key)).holders[0].leaseMs > 50_000);
      await cmd(client, "DEL", key);
      assert.equal(await hold.owned(), false);
      assert.equal(await hold.extend(), false);
    });

    test("a hold is lost as soon as an answer says that it has ended", async () => {
      const owned = async (hold) => assert.equal(await hold.owned(), false);
      const extend = async (hold) => assert.equal(await hold.extend(), false);
      const execute = (hold) => assert.rejects(hold.execute("GET", hold.keys[0]), NotHeld);
      const [gone, other] = [["DEL"], ["SET", "text"]];
      for (const [asks, [name, ...value]] of [[owned, gone], [extend, gone], [execute, gone], [owned, other], [extend, other]]) {
        const key = newKey();
        const hold = await locks.acquire(key, { leaseMs: 60_000 });
        await cmd(client, name, key, ...value);
        await asks(hold);
        assert(hold.lost.aborted && !hold.held);
        assert.equal(await hold.release(), false);
      }
      const key = newKey();
      await assert.rejects(locks.using(key, () => cmd(client, "SET", key, "text")), Lost);
    });

    test("the other locks of a hold are released, though one has another value", async () => {
      const key = newKey();
      const keys = [key, key + "a", key + "b"];
      const hold = await locks.acquire(keys);
      await cmd(client, "SET", keys[1], "text");
      assert.equal(await hold.release(), false);
      for (const free of [keys[0], keys[2]]) assert.equal(await locks.info(free), null);
    });

    test("the release of several locks, of which one was lost, does not end a later hold of the token", async () => {
      const key = newKey();
      const first = await locks.acquire([key, key + "a"], { token: "ann" });
      await cmd(client, "DEL", key + "a");
      assert.equal(await first.extend(), false);
      const next = await locks.acquire(key, { token: "ann" });
      assert.equal(next.fence, first.fence);
      assert.equal(await first.release(), false);
      await sleep(100);
      assert(next.held && (await next.owned()));
      assert(await next.release());
      // One that is just being released is waited for.
      const other = await locks.acquire([key, key + "a"], { token: "ann" });
      await cmd(client, "DEL", key + "a");
      assert.equal(await other.extend(), false);
      assert.equal(await other.release(), false);
      const last = await locks.acquire(key, { token: "ann" });
      assert(last.fence > other.fence && (await last.owned()));
      assert(await last.release());
    });

    test("a hold that is dropped is not extended, and the process warns", async () => {
      const key = newKey();
      const warnings = [];
      const warn = (warning) => warning.message.includes(key) && warnings.push(warning);
      process.on("warning", warn);
      await (async () => void (await locks.acquire(key, { leaseMs: 1_500 })))();
      // One of which only the signal is kept, one that is meant to be dropped, and one that was released.
      const { lost } = await locks.acquire(key + "kept", { leaseMs: 1_500 });
      await (async () => void (await locks.acquire(key + "meant", { leaseMs: 1_500, extend: false })))();
      await (async () => void (await (await locks.acquire(key + "released")).release()))();
      await eventually("it is free", async () => (await sleep(50)) ?? (gc(), (await cmd(client, "LOCK.INFO", key)) === null), 10_000);
      await eventually("the process warns", () => warnings.length > 0);
      process.off("warning", warn);
      assert.deepEqual(warnings.map(({ name, code }) => [name, code]), [["LockstockWarning", "LOCKSTOCK_DROPPED"]]);
      assert(warnings[0].message.startsWith(`a hold of ${key} was dropped`));
      assert(await locks.locked(key + "kept"));
      assert(!lost.aborted);
    });
  });
}
