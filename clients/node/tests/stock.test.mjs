// `Stock` over ioredis and node-redis, alone and in a cluster.

import { after, before, describe, test } from "node:test";

import { Stock } from "lockstock";
import { CLIENTS, assert, close, cmd, newKey } from "./servers.mjs";

for (const [name, make] of Object.entries(CLIENTS)) {
  describe(name, () => {
    let client, stock;

    before(async () => {
      client = await make();
      stock = new Stock(client);
    });
    after(() => close(client));

    test("the way of an order", async () => {
      const key = newKey();
      assert.equal((await stock.order(key, "order:1")).status, "NOSTOCK");
      await cmd(client, "STOCK.CREATE", key, "5", "LIMIT", "2");
      const held = await stock.order(key, "order:1", { qty: 2, buyer: "ann", holdMs: 60_000, ref: "cart:88" });
      assert.deepEqual({ ...held, deadline: 0 }, { status: "OK", done: true, units: 2, remaining: 3, deadline: 0, ref: "cart:88" });
      const again = await stock.order(key, "order:1", { qty: 2, buyer: "ann", holdMs: 60_000 });
      assert.deepEqual(again, { ...held, status: "DUPLICATE" });
      assert.equal((await stock.order(key, "order:2", { buyer: "ann" })).status, "LIMIT");
      assert((await stock.extend(key, "order:1", 120_000)).deadline > held.deadline);
      assert.equal((await stock.confirm(key, "order:1")).status, "OK");
      const row = { state: "sold", units: 2, buyer: "ann", ref: "cart:88", deadline: -1 };
      assert.deepEqual(await stock.look(key, "order:1"), row);
      assert.equal(await stock.look(key, "order:9"), null);
      assert.equal((await stock.cancel(key, "order:1")).remaining, 5);
      assert(!(await stock.confirm(key, "order:1")).done);
    });

    test("the waitlist", async () => {
      const key = newKey();
      await cmd(client, "STOCK.CREATE", key, "1");
      assert((await stock.order(key, "ann", { holdMs: 60_000 })).done);
      const queued = await stock.order(key, "bob", { holdMs: 60_000, waitlist: true });
      assert(queued.status === "QUEUED" && !queued.done);
      assert.equal((await stock.look(key, "bob")).place, 1);
      assert((await stock.cancel(key, "ann")).done);
      assert.equal((await stock.order(key, "bob")).status, "DUPLICATE");
    });

    test("some of an order is kept", async () => {
      const key = newKey();
      await stock.create(key, 10);
      assert.equal((await stock.order(key, "order:1", { qty: 3, holdMs: 60_000 })).units, 3);
      const said = [await stock.confirm(key, "order:1", { keep: 2 }), await stock.cancel(key, "order:1", { keep: 1 })];
      assert.deepEqual(said.map(({ status, units, remaining }) => [status, units, remaining]), [["OK", 2, 8], ["OK", 1, 9]]);
      assert.equal((await stock.look(key, "order:1")).units, 1);
    });

    test("a cart is all or none", async () => {
      const key = newKey();
      const [mug, cup] = [key + "mug", key + "cup"];
      await cmd(client, "STOCK.CREATE", mug, "3");
      await cmd(client, "STOCK.CREATE", cup, "1");
      const cart = await stock.orderAll("order:1", { [mug]: 2, [cup]: 1 }, { buyer: "ann", holdMs: 60_000, ref: "r" });
      assert(cart.done && cart.sales[mug].units === 2 && cart.sales[cup].remaining === 0);
      const { deadline, ...row } = await stock.look(cup, "order:1");
      assert.deepEqual(row, { state: "held", units: 1, buyer: "ann", ref: "r" });
      assert(deadline > Date.now() + 50_000);
      const refused = await stock.orderAll("order:2", { [mug]: 1, [cup]: 1 });
      assert.equal(`${refused.status} ${refused.sales[mug].status}`, "SOLDOUT SKIPPED");
      assert.equal((await stock.confirmAll("order:1", [mug, cup])).status, "OK");
      assert.equal((await stock.confirmAll("order:1", [mug, cup])).status, "DUPLICATE");
      assert((await stock.cancelAll("order:1", [mug, cup])).done);
    });

    test("a sale, from its opening to its books", async () => {
      const key = newKey();
      assert.equal(await stock.info(key), null);
      assert.equal(await stock.buyer(key, "ann"), null);
      const end = Date.now() + 3_600_000;
      const options = { limit: 3, start: new Date(end - 7_200_000), end, rebuy: true, stream: key + "events", deadlines: true };
      await stock.create(key, 40, options);
      await assert.rejects(stock.create(key, 1), { name: "SaleExists", code: "BUSYKEY" });
      assert.equal(await stock.adjust(key, 10, { id: "delivery:1" }), 50);
      assert.equal(await stock.adjust(key, 10, { id: "delivery:1" }), 50);
      assert.equal(await stock.adjust(key, -1), 49);
      const { counters, ...info } = await stock.info(key);
      const sums = { total: 49, remaining: 49, held: 0, sold: 0, orders: 0, buyers: 0, waiting: 0, seq: 2 };
      const terms = { limit: 3, start: end - 7_200_000, end, rebuy: true, stream: key + "events", deadlines: true };
      assert.deepEqual(info, { ...sums, ...terms });
      assert.equal(counters.ok, 0);
      await stock.alter(key, { limit: 30, start: 0, end: 0, rebuy: false });
      const altered = await stock.info(key);
      assert.deepEqual([altered.limit, altered.start, altered.end, altered.rebuy], [30, 0, 0, false]);
      const ids = Array.from({ length: 25 }, (_, number) => `order:${number}`);
      await Promise.all(ids.map((id) => stock.order(key, id, { buyer: "ann", ref: `r-${id}`, holdMs: 60_000 })));
      assert.deepEqual(await stock.buyer(key, "ann"), { units: 25, limit: 30 });
      await stock.confirm(key, "order:3");
      const all = new Map();
      for await (const order of stock.orders(key, { count: 4 })) all.set(order.id, order);
      assert.deepEqual([...all.keys()].sort(), ids.sort());
      assert.deepEqual(all.get("order:3"), { id: "order:3", state: "sold", units: 1, buyer: "ann", ref: "r-order:3", deadline: -1 });
      const sold = [];
      for await (const { id } of stock.orders(key, { state: "sold" })) sold.push(id);
      assert.deepEqual(sold, ["order:3"]);
      for await (const order of stock.orders(key + "none")) assert.fail(order.id);
      await assert.rejects(stock.adjust(key + "none", 1), { name: "NoSale", code: "NOSTOCK" });
    });

    test("errors of the caller are thrown", async () => {
      const key = newKey();
      await cmd(client, "STOCK.CREATE", key, "1");
      await stock.order(key, "order:1", { buyer: "ann" });
      await assert.rejects(stock.order(key, "order:1", { buyer: "bob" }), /another BUYER/);
    });
  });
}
