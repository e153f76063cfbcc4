// A slot that moves to another node of its cluster, while some wait for locks of it and some hold them.

import { describe, test } from "node:test";

import { Locks, Stock } from "lockstock";

import { LIBRARIES, ready } from "../libraries.mjs";
import { startCluster } from "../own.mjs";
import { assert, cmd, eventually, hangUp, sleep, waiting } from "../servers.mjs";

/** A client of a cluster, and a slot that moves from one of its nodes to another. */
async function set(t, name) {
  const nodes = await startCluster(t);
  const client = await ready(LIBRARIES[name].cluster(nodes[0].url));
  const locks = new Locks(client);
  t.after(async () => {
    await locks.close();
    await hangUp(client);
  });
  const eyes = await Promise.all(nodes.map((node) => node.eye(t)));
  const slot = await eyes[0].cluster("KEYSLOT", "lock");
  const number = Math.floor((slot * 3) / 16_384);
  const [from, to] = [eyes[number], eyes[(number + 1) % 3]];
  const [fromId, toId] = [await from.cluster("MYID"), await to.cluster("MYID")];
  /** What is not here any more, or not yet, is to be asked for there. */
  const begin = async () => {
    await to.cluster("SETSLOT", slot, "IMPORTING", fromId);
    await from.cluster("SETSLOT", slot, "MIGRATING", toId);
    for (const key of await from.cluster("GETKEYSINSLOT", slot, 100)) await from.migrate("127.0.0.1", nodes[(number + 1) % 3].port, key, 0, 5_000);
  };
  const end = async () => {
    for (const eye of [to, from, ...eyes]) await eye.cluster("SETSLOT", slot, "NODE", toId);
  };
  return { client, locks, from, to, begin, end };
}

describe("a slot that moves", { concurrency: 3 }, () => {
  for (const name of Object.keys(LIBRARIES)) {
    test(name, async (t) => {
      const { client, locks, from, to, begin, end } = await set(t, name);
      const hold = await locks.acquire("lock", { leaseMs: 4_000, waitMs: 10_000 });
      const wait = locks.acquire("lock", { waitMs: 60_000 });
      await eventually("it waits", async () => (await waiting(from, "lock")) === 1);
      await begin();
      assert(await hold.extend());
      const other = await locks.acquire("{lock}other", { waitMs: 5_000, leaseMs: 4_000 });
      assert.equal(await locks.acquire("{lock}other", { waitMs: 100 }), null);
      assert.equal(await new Stock(client).info("{lock}sale"), null);
      await sleep(5_000);
      assert(hold.held && (await hold.owned()) && other.held && (await other.owned()));
      assert(await other.release());
      await end();
      await eventually("it waits there", async () => (await waiting(to, "lock")) === 1);
      assert(await hold.release());
      const next = await wait;
      assert(next.held && (await next.owned()) && (await next.release()));
      assert.equal(await cmd(to, "LOCK.INFO", "lock"), null);
    });
  }
});
