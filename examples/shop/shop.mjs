// A shop over HTTP with Express: reserve, pay, give back, stand in line, buy a cart. Every request may be sent again.

import express from "express";
import { Redis } from "ioredis";
import { NoSale, SaleExists, Stock, Unreachable } from "lockstock";

// A status that is not here is a refusal: 409.
const CODES = { OK: 200, DUPLICATE: 200, QUEUED: 202, NOORDER: 404, NOSTOCK: 404, EXPIRED: 410, CANCELLED: 410 };

const shop = express();
const stock = new Stock(new Redis(process.env.REDIS_URL ?? "redis://localhost"));

const answer = (response, status, more = {}) => response.status(CODES[status] ?? 409).json({ status, ...more });
const told = (response, { status, units, remaining }) => answer(response, status, { units, remaining });

shop.put("/sales/:sale", async ({ params: { sale }, query }, response) => {
  await stock.create(sale, Number(query.total), { stream: `events:${sale}`, deadlines: true }); // for lockstock-outbox
  answer(response, "OK");
});

shop.put("/sales/:sale/orders/:order", async ({ params: { sale, order }, query }, response) => {
  const { buyer, hold = 600, waitlist } = query;
  told(response, await stock.order(sale, order, { buyer, holdMs: hold * 1000, waitlist: waitlist === "true" }));
});

shop.post("/sales/:sale/orders/:order/payment", async ({ params: { sale, order } }, response) => {
  told(response, await stock.confirm(sale, order)); // EXPIRED: refund it
});

shop.delete("/sales/:sale/orders/:order", async ({ params: { sale, order } }, response) => {
  told(response, await stock.cancel(sale, order));
});

shop.get("/sales/:sale/orders/:order", async ({ params: { sale, order } }, response) => {
  const found = await stock.look(sale, order);
  if (!found) return answer(response, "NOORDER");
  answer(response, "OK", { state: found.state, place: found.place ?? null });
});

shop.put("/carts/:order", express.json(), async ({ params: { order }, query: { buyer }, body }, response) => {
  const { status, sales } = await stock.orderAll(order, body, { buyer, holdMs: 600_000 });
  const legs = Object.entries(sales).map(([sale, leg]) => [sale, leg.status]);
  answer(response, status, { sales: Object.fromEntries(legs) });
});

shop.use((error, request, response, next) => {
  if (error instanceof NoSale) answer(response, "NOSTOCK");
  else if (error instanceof SaleExists) answer(response, "EXISTS");
  else if (error instanceof Unreachable) response.status(503).json({ status: "UNKNOWN" }); // send it again
  else next(error);
});

shop.listen(Number(process.env.PORT ?? 8000));
