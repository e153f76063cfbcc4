// Commands that run only while the lock is held.

import { after, before, describe, test } from "node:test";

import { Locks, LockstockError, NotHeld } from "lockstock";

import { CLIENTS, assert, close, cmd, newKey } from "./servers.mjs";

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

    test("a guarded command runs while the hold lasts, and not after it", async () => {
      const key = newKey();
      const hold = await locks.acquire(key, { token: "ann" });
      assert.equal(await hold.execute("SET", key + "report", 1), "OK");
      assert.equal(Number(await hold.execute("INCRBY", key + "report", Buffer.from("41"))), 42);
      assert.equal(await hold.execute("GET", key + "none"), null);
      // Its own errors come as they are.
      await assert.rejects(hold.execute("LPUSH", key + "report", "a"), (error) => /^WRONGTYPE/.test(error.message) && !(error instanceof LockstockError));
      assert.equal(Number(await locks.guard(key, { token: "ann", fence: hold.fence }, "INCR", key + "report")), 43);
      await assert.rejects(locks.guard(key, { token: "ann", fence: hold.fence + 1 }, "INCR", key + "report"), NotHeld);
      await assert.rejects(locks.guard(key, { token: "bob" }, "INCR", key + "report"), NotHeld);
      await cmd(client, "DEL", key);
      const next = await locks.acquire(key, { token: "bob" });
      await assert.rejects(hold.execute("INCR", key + "report"), (error) => error instanceof NotHeld && error.code === "NOTHELD");
      assert.equal(await cmd(client, "GET", key + "report"), "43");
      assert(await next.release());
      await assert.rejects(next.execute("INCR", key + "report"), NotHeld);
      assert.equal(await hold.release(), false);
    });
  });
}
