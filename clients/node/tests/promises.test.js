// What the server promises to clients as they are, without the help of this package: time-outs, resends, one connection for all.

import { test } from "node:test";

import { Locks } from "../lockstock.js";
import { CLIENTS, assert, close, cmd, eventually, info, newKey, sleep, waiting } from "./servers.js";

// Each connects with a time-out. That of ioredis keeps the connection, that of node-redis ends it.
const IMPATIENT = {
  ioredis: (ms) => CLIENTS.ioredis({ commandTimeout: ms }),
  "node-redis": (ms) => CLIENTS["node-redis"]({ socket: { socketTimeout: ms, reconnectStrategy: false } }),
};

for (const name of ["ioredis", "node-redis"]) {
  test(`${name}: a wait that timed out ends with a release`, async () => {
    const key = newKey();
    const eye = await CLIENTS[name]();
    const impatient = await IMPATIENT[name](300);
    await cmd(eye, "LOCK.ACQUIRE", key, "TOKEN", "holder");
    await assert.rejects(cmd(impatient, "LOCK.ACQUIRE", key, "TOKEN", "impatient", "WAIT", "60000"));
    if (name === "ioredis") assert.equal(await waiting(eye, key), 1);
    assert.equal(await cmd(eye, "LOCK.RELEASE", key, "impatient"), 0);
    assert.equal(await waiting(eye, key), 0);
    assert.equal(await cmd(eye, "LOCK.RELEASE", key, "holder"), 1);
    assert.equal(await cmd(eye, "LOCK.INFO", key), null);
    // The connection that was kept is free again.
    if (name === "ioredis") assert.equal(await impatient.ping(), "PONG");
    if (impatient.isOpen !== false) await close(impatient);
    await close(eye);
  });

  test(`${name}: contenders that time out and resend are served in the order of their first asking`, async () => {
    const key = newKey();
    const eye = await CLIENTS[name]();
    const order = [];
    const contend = async (number) => {
      const used = [];
      const words = ["LOCK.ACQUIRE", key, "TOKEN", `c${number}`, "PX", "30000", "WAIT", "60000"];
      let granted;
      // The first time, and three resends, each over a new connection.
      for (let time = 0; !granted && time < 4; time++) {
        const client = await IMPATIENT[name](3_000);
        used.push(client);
        granted = await cmd(client, ...words).catch(() => null);
      }
      assert(granted, `${number} was not granted the lock`);
      order.push(number);
      await sleep(400);
      await cmd(eye, "LOCK.RELEASE", key, `c${number}`);
      // What timed out has closed the connection of node-redis already.
      for (const client of used) name === "ioredis" ? client.disconnect() : client.isOpen && client.destroy();
    };
    const works = [];
    for (let number = 0; number < 12; number++) {
      works.push(contend(number));
      await eventually("it asks", async () => {
        const { holders, waiters } = await info(eye, key);
        return holders.length + waiters.length + order.length > number;
      });
    }
    await Promise.all(works);
    assert.deepEqual(order, Array.from({ length: 12 }, (_, number) => number));
    assert.equal(await cmd(eye, "LOCK.INFO", key), null);
    await close(eye);
  });

  // Each GET over their connection has one beside it over another, so that what keeps the whole machine waiting counts for neither.
  test(`${name}: fifty tasks wait over one connection, and GET beside them is quick`, async () => {
    const key = newKey();
    const [client, beside] = [await CLIENTS[name](), await CLIENTS[name]()];
    const locks = new Locks(client);
    const first = await locks.acquire(key);
    const order = [];
    const works = [];
    for (let number = 0; number < 50; number++) {
      works.push(
        locks.using(key, { wait: 30_000 }, async () => {
          order.push(number);
          await sleep(5);
        }),
      );
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
    for (let round = 0; round < 200; round++) {
      pairs.push(await Promise.all([timed(client), timed(beside)]));
      if (round === 100) await first.release();
      await sleep(1);
    }
    await Promise.all(works);
    assert.deepEqual(order, Array.from({ length: 50 }, (_, number) => number));
    const ours = pairs.map(([ours]) => ours).sort((a, b) => a - b);
    assert(ours[100] < 5, `${ours}`);
    const heldUp = pairs.filter(([ours, other]) => ours > 5 && other < ours / 2);
    assert(heldUp.length <= 2, `${heldUp}`);
    await locks.close();
    await Promise.all([close(client), close(beside)]);
  });
}
