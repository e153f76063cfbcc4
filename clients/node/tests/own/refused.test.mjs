// A server that refuses what a hold needs: its owner is told before another has the lock, and why.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";

import { Redis } from "ioredis";
import { Locks, Lost, Refused, Unreachable } from "lockstock";
import { createClient } from "redis";

import { start } from "../own.mjs";
import { assert, cmd, eventually, hangUp, sleep, waiting } from "../servers.mjs";

const USER = { username: "worker", password: "worker-password" };
const LIBRARIES = {
  ioredis: (url) => new Redis(url, USER),
  "node-redis": (url) => createClient({ url, ...USER }).connect(),
};

for (const [name, connect] of Object.entries(LIBRARIES)) {
  describe(name, () => {
    async function set(t) {
      const server = await start(t);
      const eye = await server.eye(t);
      await eye.call("ACL", "SETUSER", "worker", "on", ">worker-password", "~*", "&*", "+@all");
      const client = (await connect(server.url)).on("error", () => {});
      const locks = new Locks(client);
      t.after(async () => {
        await locks.close();
        await hangUp(client);
      });
      return { server, eye, locks };
    }

    for (const keys of ["lock", ["{lock}1", "{lock}2"]]) {
      test(`a hold of ${keys} that may not be extended any longer is lost in time, and says why`, async (t) => {
        const { server, eye, locks } = await set(t);
        const hold = await locks.acquire(keys, { leaseMs: 1_500 });
        const first = hold.keys[0];
        const other = await server.eye(t);
        const next = other.call("LOCK.ACQUIRE", first, "TOKEN", "next", "WAIT", "60000");
        await eventually("it waits", async () => (await waiting(eye, first)) === 1);
        await eye.call("ACL", "SETUSER", "worker", "-lock.extend", "-lock.mextend", "-lock.release", "-lock.mrelease");
        const told = new Promise((resolve) => hold.lost.addEventListener("abort", () => resolve("told")));
        await assert.rejects(hold.extend(), (error) => error instanceof Refused && error.code === "NOPERM");
        assert(hold.held);
        assert.equal(await Promise.race([told, next]), "told");
        assert(!hold.held && hold.lost.reason instanceof Lost);
        assert.equal(hold.lost.reason.cause.code, "NOPERM");
        await next;
        await cmd(eye, "LOCK.RELEASE", first, "next");
      });
    }

    for (const waitMs of [0, 60_000]) {
      test(`what is granted after a wait of ${waitMs} ms, and may not ask for its replicas, is given back`, async (t) => {
        const { eye, locks } = await set(t);
        await eye.call("ACL", "SETUSER", "worker", "-wait");
        if (waitMs) assert(await cmd(eye, "LOCK.ACQUIRE", "lock", "TOKEN", "first"));
        const told = assert.rejects(locks.acquire("lock", { waitMs, replicas: 1, leaseMs: 60_000 }), (error) => error.code === "NOPERM");
        if (waitMs) await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
        if (waitMs) await cmd(eye, "LOCK.RELEASE", "lock", "first");
        await told;
        await eventually("it is free", async () => (await cmd(eye, "LOCK.INFO", "lock")) === null, 5_000);
      });
    }

    test("the end of the work says why it was lost", async (t) => {
      const { eye, locks } = await set(t);
      const work = async (hold) => {
        await eye.call("ACL", "SETUSER", "worker", "-lock.extend");
        await eventually("it is lost", () => hold.lost.aborted);
      };
      await assert.rejects(locks.using("lock", { leaseMs: 300 }, work), (error) => error instanceof Lost && error.cause.code === "NOPERM");
    });

    test("a server that does not answer is named as the cause", async (t) => {
      const { server, locks } = await set(t);
      const hold = await locks.acquire("lock", { leaseMs: 300 });
      server.freeze();
      await eventually("it is lost", () => hold.lost.aborted);
      assert(hold.lost.reason.cause instanceof Unreachable);
      server.thaw();
    });

    const REFUSE = {
      NOREPLICAS: async (eye) => {
        await eye.config("SET", "min-replicas-to-write", "1");
        return () => eye.config("SET", "min-replicas-to-write", "0");
      },
      MISCONF: async (eye) => {
        await eye.config("SET", "save", "3600 100000");
        // The file of a save cannot take the place of a directory.
        mkdirSync(join((await eye.config("GET", "dir"))[1], "dump.rdb"));
        await eye.bgsave();
        await eventually("it has failed", async () => /rdb_last_bgsave_status:err/.test(await eye.info("persistence")));
        return () => eye.config("SET", "stop-writes-on-bgsave-error", "no");
      },
    };
    for (const [code, refuse] of Object.entries(REFUSE)) {
      test(`a release, and a wait that is broken off, while nothing may be written (${code}) are asked for until they may`, async (t) => {
        const { eye, locks } = await set(t);
        const hold = await locks.acquire("lock");
        const stop = new AbortController();
        const left = assert.rejects(locks.acquire("lock", { waitMs: 60_000, signal: stop.signal }), { name: "AbortError" });
        await eventually("it waits", async () => (await waiting(eye, "lock")) === 1);
        const allow = await refuse(eye);
        await assert.rejects(cmd(eye, "LOCK.RELEASE", "lock", "nobody"), { message: new RegExp(`^${code} `) });
        stop.abort();
        await left;
        const released = hold.release();
        await sleep(100);
        await allow();
        assert(await released);
        await eventually("nobody waits or holds", async () => (await cmd(eye, "LOCK.INFO", "lock")) === null, 4_000);
      });
    }
  });
}
