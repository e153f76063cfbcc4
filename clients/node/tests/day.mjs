// What a user does in a day, with whatever client.

import { Stock } from "lockstock";

import { aborted, assert, eventually, newKey } from "./servers.mjs";

/** Waits, releases, extends, sells and looks. */
export async function aDay(client, locks) {
  const key = newKey();
  assert.equal(await locks.locked(key), false);
  const first = await locks.acquire(key, { token: "ann", leaseMs: 10_000 });
  await assert.rejects(locks.acquire(key, { waitMs: 60_000, signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  const both = [locks.acquire(key, { waitMs: 60_000 })];
  await eventually("it waits", async () => (await locks.info(key)).waiting === 1);
  assert.equal(await locks.acquire(key, { waitMs: 50 }), null);
  both.push(locks.acquire([key, key + "b"], { waitMs: 60_000, token: "bob" }));
  await eventually("they wait", async () => (await locks.info(key)).waiting === 2);
  assert(await first.extend());
  assert(await first.release());
  const second = await both[0];
  assert(second.fence > first.fence && (await second.owned()));
  assert.equal(await locks.release(key, { token: second.token, fence: first.fence }), 0);
  assert.equal(await locks.extend(key, { token: second.token, fence: second.fence }, 30_000), true);
  assert(await second.release());
  const third = await both[1];
  assert.deepEqual(third.keys, [key, key + "b"]);
  assert.equal(await locks.release(key, { token: "bob", fence: third.fence }), 1);
  assert.equal(await third.owned(), false);
  assert.equal(await third.extend(), false);
  await aborted(third.lost);

  const stock = new Stock(client);
  const [mug, cup] = [key + "mug", key + "cup"];
  for (const sale of [mug, cup]) await stock.create(sale, 3);
  assert.equal((await stock.orderAll("order:1", { [mug]: 1, [cup]: 2 }, { holdMs: 60_000 })).status, "OK");
  assert.equal((await stock.confirmAll("order:1", [mug, cup])).sales[cup].units, 2);
  const orders = [];
  for await (const order of stock.orders(cup)) orders.push(order);
  assert.deepEqual(orders, [{ id: "order:1", state: "sold", units: 2, buyer: "order:1", ref: "", deadline: -1 }]);
  assert.equal((await stock.info(mug)).remaining, 2);
}
