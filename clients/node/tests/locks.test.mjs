// `Locks` over ioredis and node-redis, alone and in a cluster.

import { EventEmitter } from "node:events";
import { after, before, describe, test } from "node:test";

import { Lost, Locks, NotGranted } from "lockstock";
import { CLIENTS, aborted, assert, close, cmd, elsewhere, eventually, info, keepPlaces, newKey, sleep, waiting } from "./servers.mjs";

for (const [name, make] of Object.entries(CLIENTS)) {
  describe(name, () => {
    let client, locks, key;

    before(async () => {
      client = await make();
      locks = new Locks(client);
    });
    after(async () => {
      await locks.close();
      await close(client);
    });

    const isFree = async (lock) => (await info(client, lock)).holders.length === 0;

    test("it is held within and free after", async () => {
      key = newKey();
      const fence = await locks.using(key, {}, async (hold) => {
        assert(hold.held && !hold.lost.aborted);
        assert.equal(await elsewhere(() => locks.acquire(key)), null);
        await assert.rejects(elsewhere(() => locks.using(key, {}, () => assert.fail())), NotGranted);
        return hold.fence;
      });
      assert(await isFree(key));
      await locks.using(key, { waitMs: 5_000 }, (hold) => assert(hold.fence > fence));
      assert(await isFree(key));
    });

    test("what the work throws is thrown, and the lock is free", async () => {
      key = newKey();
      await assert.rejects(locks.using(key, {}, () => Promise.reject(new RangeError())), RangeError);
      assert(await isFree(key));
    });

    test("readers, permits and several at once", async () => {
      key = newKey();
      const [one, two] = [await locks.acquire(key, { shared: true }), await locks.acquire(key, { shared: true })];
      assert.equal(await locks.acquire(key), null);
      assert(await one.release());
      assert(await two.release());
      const permits = [await locks.acquire(key, { limit: 2 }), await locks.acquire(key, { limit: 2 })];
      assert.equal(await locks.acquire(key, { limit: 2 }), null);
      for (const permit of permits) assert(await permit.release());
      await locks.using([key + "a", key + "b", key + "a"], {}, async (hold) => {
        assert.deepEqual(hold.keys, [key + "a", key + "b"]);
        assert.equal(await elsewhere(() => locks.acquire(key + "b")), null);
      });
      assert(await isFree(key + "b"));
    });

    test("waiters come in order", async () => {
      key = newKey();
      const first = await locks.acquire(key);
      const order = [];
      const works = [];
      for (let number = 0; number < 5; number++) {
        works.push(locks.using(key, { waitMs: 100_000 }, (hold) => order.push([number, hold.fence])));
        await eventually("it waits", async () => (await waiting(client, key)) === number + 1);
      }
      assert(await first.release());
      await Promise.all(works);
      assert.deepEqual(order.map(([number]) => number), [0, 1, 2, 3, 4]);
      assert.deepEqual(order.map(([, fence]) => fence), order.map(([, fence]) => fence).sort((a, b) => a - b));
    });

    test("what is asked for counts after a wait, too", async () => {
      for (const [mode, options] of [["shared", { shared: true }], ["limit", { limit: 2 }]]) {
        key = newKey();
        const first = await locks.acquire(key);
        const wait = locks.acquire(key, { ...options, token: "me", leaseMs: 45_000, session: true, waitMs: 20_000 });
        await eventually("it waits", async () => (await waiting(client, key)) === 1);
        assert(await first.release());
        const hold = await wait;
        const { mode: had, limit, holders } = await locks.info(key);
        assert.deepEqual([had, limit], [mode, options.limit ?? 0]);
        assert.deepEqual({ ...holders[0], leaseMs: 0 }, { token: "me", fence: hold.fence, leaseMs: 0, session: true });
        assert(holders[0].leaseMs > 30_000 && holders[0].leaseMs <= 45_000);
        assert(await hold.release());
      }
    });

    test("several are waited for together", async () => {
      key = newKey();
      const first = await locks.acquire(key + "b");
      const both = locks.acquire([key + "b", key + "a"], { waitMs: 100_000 });
      await eventually("it waits", async () => (await waiting(client, key + "a")) === 1);
      await first.release();
      assert(await (await both).release());
    });

    test("a wait that is over leaves nothing", async () => {
      key = newKey();
      await locks.using(key, {}, async () => {
        const begun = performance.now();
        assert.equal(await elsewhere(() => locks.acquire(key, { waitMs: 300 })), null);
        assert(performance.now() - begun > 290 && performance.now() - begun < 10_000);
        assert.equal(await waiting(client, key), 0);
      });
    });

    test("a wait that is aborted leaves nothing", async () => {
      key = newKey();
      await locks.using(key, {}, async () => {
        const stop = new AbortController();
        const wait = elsewhere(() => locks.acquire(key, { waitMs: 100_000, signal: stop.signal }));
        await eventually("it waits", async () => (await waiting(client, key)) === 1);
        stop.abort(new RangeError("enough"));
        await assert.rejects(wait, RangeError);
        assert.equal(await waiting(client, key), 0);
        const brief = elsewhere(() => locks.acquire(key, { waitMs: 100_000, signal: AbortSignal.timeout(200) }));
        await assert.rejects(brief, { name: "TimeoutError" });
        // It may have been sent and withdrawn a moment ago.
        await eventually("it has left", async () => (await waiting(client, key)) === 0);
      });
      assert(await isFree(key));
    });

    test("a wait that another ends hears of it", async () => {
      key = newKey();
      await locks.using(key, {}, async () => {
        const wait = elsewhere(() => locks.acquire(key, { waitMs: 100_000, token: "me" }));
        await eventually("it waits", async () => (await waiting(client, key)) === 1);
        const told = assert.rejects(wait, /^Cancelled: CANCELLED/);
        assert.equal(await cmd(client, "LOCK.RELEASE", key, "me"), 0);
        await told;
      });
    });

    test("it is extended while it is held and no longer", async () => {
      key = newKey();
      for (const keys of [key, [key + "a", key + "b"]]) {
        // Extended each two seconds, so that a machine may keep all waiting for nearly four.
        await locks.using(keys, { leaseMs: 6_000 }, async (hold) => {
          const left = async () => (await info(client, hold.keys[0])).holders[0]["lease-ms"];
          await eventually("the lease runs", async () => (await left()) < 5_500);
          await eventually("it is extended", async () => (await left()) > 5_500);
          assert(hold.held && !hold.lost.aborted);
        });
      }
      const brief = locks.using(key, { leaseMs: 500, extend: false }, async (hold) => {
        await sleep(600);
        assert(!hold.held && hold.lost.aborted);
      });
      await assert.rejects(brief, Lost);
    });

    test("a hold that is taken away is lost", async () => {
      key = newKey();
      const robbed = locks.using(key, { leaseMs: 1_500 }, async (hold) => {
        await cmd(client, "DEL", key);
        await aborted(hold.lost);
        assert(!hold.held);
      });
      await assert.rejects(robbed, Lost);
    });

    test("two tasks that wait for each other hear of it", async () => {
      key = newKey();
      const a = await locks.acquire(key + "a", { token: "a" });
      const b = await locks.acquire(key + "b", { token: "b" });
      const wait = locks.acquire(key + "b", { token: "a", waitMs: 100_000 });
      await eventually("it waits", async () => (await waiting(client, key + "b")) === 1);
      await assert.rejects(locks.acquire(key + "a", { token: "b", waitMs: 100_000 }), /DEADLOCK/);
      assert(await b.release());
      assert(await (await wait).release());
      assert(await a.release());
    });

    test("errors are thrown and not waited for", async () => {
      key = newKey();
      await cmd(client, "SET", key, "text");
      await assert.rejects(locks.acquire(key, { waitMs: 100_000 }), /WRONGTYPE/);
      const robbed = locks.using(key + "a", {}, async () => {
        const told = assert.rejects(elsewhere(() => locks.acquire(key + "a", { waitMs: 100_000 })), /WRONGTYPE/);
        await eventually("it waits", async () => (await waiting(client, key + "a")) === 1);
        await cmd(client, "SET", key + "a", "text");
        await told;
        await cmd(client, "DEL", key + "a");
      });
      await assert.rejects(robbed, Lost);
    });
  });
}

/** Clients that are closed after the test. */
async function clients(t, name, count) {
  const made = await Promise.all(Array.from({ length: count }, () => CLIENTS[name]()));
  for (const client of made) t.after(() => close(client));
  return made;
}

for (const name of ["ioredis", "node-redis", "node-redis RESP3"]) {
  test(`${name}: connections that are cut are made again, and every place is kept`, async (t) => {
    const [client, eye] = await clients(t, name, 2);
    const locks = new Locks(client);
    await keepPlaces(t, eye);
    const key = newKey();
    const first = await locks.acquire(key);
    const order = [];
    const works = [];
    for (let number = 0; number < 5; number++) {
      works.push(locks.using(key, { waitMs: 100_000, token: `w${number}` }, () => order.push(number)));
      await eventually("it waits", async () => (await waiting(eye, key)) === number + 1);
    }
    const others = new Locks(eye);
    t.after(() => Promise.all([locks.close(), others.close()]));
    const late = others.acquire(key, { waitMs: 100_000, token: "late" });
    await eventually("it waits", async () => (await waiting(eye, key)) === 6);
    const all = ["w0", "w1", "w2", "w3", "w4", "late"];
    for (const kind of ["normal", "pubsub"]) {
      const me = await cmd(eye, "CLIENT", "ID");
      await cmd(eye, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes");
      const tokens = async () => (await info(eye, key)).waiters.map((row) => row.token);
      await eventually("all are back in their places", async () => `${await tokens()}` === `${all}`);
      assert.equal(await cmd(eye, "CLIENT", "ID"), me);
    }
    assert(await first.release());
    await Promise.all(works);
    assert.deepEqual(order, [0, 1, 2, 3, 4]);
    assert(await (await late).release());
  });

  test(`${name}: a server that does not answer costs the hold, and says so`, async (t) => {
    const [client, eye] = await clients(t, name, 2);
    const hold = await new Locks(client).acquire(newKey(), { leaseMs: 600 });
    await cmd(eye, "CLIENT", "PAUSE", "3000", "ALL");
    await aborted(hold.lost);
    assert(!hold.held);
    await hold.release();
  });

  test(`${name}: a server that is demoted for a while is asked again`, async (t) => {
    const [client, eye] = await clients(t, name, 2);
    const locks = new Locks(client);
    t.after(() => locks.close());
    const key = newKey();
    const first = await locks.acquire(key);
    const wait = locks.acquire(key, { waitMs: 100_000 });
    await eventually("it waits", async () => (await waiting(eye, key)) === 1);
    await cmd(eye, "REPLICAOF", "127.0.0.1", "1");
    await eventually("nobody waits at a replica", async () => /lock_waiters:0\r/.test(await cmd(eye, "INFO", "lockstock")));
    await cmd(eye, "REPLICAOF", "NO", "ONE");
    await eventually("it waits again", async () => (await waiting(eye, key)) === 1);
    assert(await first.release());
    assert(await (await wait).release());
  });

  test(`${name}: who may not hear of a channel is told so, and may ask again`, async (t) => {
    const [client, eye] = await clients(t, name, 2);
    const key = newKey();
    const first = await new Locks(eye).acquire(key);
    const locks = new Locks(client);
    t.after(() => locks.close());
    await cmd(eye, "ACL", "SETUSER", "mute", "on", "nopass", "allkeys", "allcommands", "resetchannels");
    await cmd(client, "AUTH", "mute", "any");
    await assert.rejects(locks.acquire(key, { waitMs: 100_000 }), /NOPERM/);
    await cmd(eye, "ACL", "SETUSER", "mute", "allchannels");
    const wait = locks.acquire(key, { waitMs: 100_000 });
    await eventually("it waits", async () => (await waiting(eye, key)) === 1);
    await first.release();
    assert(await (await wait).release());
  });
}

test("a release comes after all that was asked before", async () => {
  const came = [];
  // Its requests take their time, the second for longer than those after it, as after a redirection.
  class Slow extends EventEmitter {
    asked = 0;
    async call(name) {
      const asked = ++this.asked;
      // It is connected anew while it asks for the first time.
      if (asked === 1) this.emit("ready");
      await sleep(asked === 2 ? 100 : 10);
      came.push(name);
      return name === "LOCK.ACQUIRE" ? ["token", 1, 30_000] : 1;
    }
    duplicate = () => new Slow();
    async subscribe() {}
    disconnect() {}
  }
  const client = new Slow();
  const locks = new Locks(client);
  const wait = locks.acquire("lock", { waitMs: 1_000, extend: false });
  assert(await (await wait).release());
  assert.deepEqual(came, ["LOCK.ACQUIRE", "LOCK.ACQUIRE", "LOCK.RELEASE"]);
  await locks.close();
  assert.equal(client.listenerCount("ready"), 0);
});
