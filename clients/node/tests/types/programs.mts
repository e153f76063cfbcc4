// Programs of users, right and wrong: the compiler takes the right ones, and each line under a @ts-expect-error is refused.

import { Cluster, Redis } from "ioredis";
import { Cluster as OldCluster, Redis as OldRedis } from "ioredis-5";
import { createClient, createClientPool, createCluster, createSentinel } from "redis";
import * as old from "redis-5";

import { Cart, Hold, LockOptions, LockstockError, Locks, Lost, NotGranted, NotReleased, Outcome, SaleInfo, Refused, Stock } from "lockstock";

export const clients = [
  new Redis(),
  new Redis({ sentinels: [{ host: "a", port: 1 }], name: "shop" }),
  new Cluster([{ host: "a", port: 1 }]),
  new OldRedis(),
  new OldCluster([]),
  createClient(),
  await createClient().connect(),
  createClient({ RESP: 3 }),
  createCluster({ rootNodes: [] }),
  createSentinel({ name: "shop", sentinelRootNodes: [] }),
  old.createClient(),
  old.createCluster({ rootNodes: [] }),
  old.createSentinel({ name: "shop", sentinelRootNodes: [] }),
];
for (const client of clients) [new Locks(client), new Stock(client)];

const redis = new Redis();
const locks = new Locks(redis);
const stock = new Stock(redis);
const options: LockOptions = { waitMs: 10_000, leaseMs: 5_000, signal: AbortSignal.timeout(1) };

export async function right(): Promise<number> {
  const done: string = await locks.using("job", options, async (hold: Hold) => {
    await fetch("https://example.org", { signal: hold.lost });
    await hold.execute("SET", "report", 1);
    return "done";
  });
  await locks.using(["a", "b"] as const, (hold) => hold.fence);
  const hold = await locks.acquire("job", { shared: true, session: true, replicas: 1, token: done });
  if (!hold) return 0;
  const [fence, keys, held]: [number, string[], boolean] = [hold.fence, hold.keys, hold.held];
  await locks.release(keys, { token: hold.token, fence });
  await locks.guard("job", { token: hold.token }, "INCR", "counter");
  if (await locks.locked("job")) console.log((await locks.info("job"))?.holders[0]?.leaseMs, held);
  await using other = await locks.acquire("other");
  return other?.fence ?? 0;
}

export async function shop(): Promise<Outcome["status"]> {
  await stock.create("sale", 10, { limit: 2, start: new Date(), end: Date.now() + 1, stream: "events", deadlines: true });
  await stock.alter("sale", { rebuy: true });
  const left: number = await stock.adjust("sale", -1, { id: "again" });
  const info: SaleInfo | null = await stock.info("sale");
  const cart: Cart = await stock.orderAll("order", { a: 1, b: left }, { holdMs: 1, buyer: "ann" });
  for await (const { id, state, units } of stock.orders("sale", { state: "held" })) console.log(id, state, units, info?.total);
  const { status, done } = await stock.cancel("sale", "order", { keep: 1 });
  if (!done) await stock.confirmAll("order", ["a", "b"]);
  return cart.sales["a"]?.status ?? status;
}

export function errors(error: unknown): string {
  if (error instanceof NotReleased) return `${error.result}`;
  if (error instanceof Refused) return error.code;
  return error instanceof NotGranted || error instanceof Lost || error instanceof LockstockError ? error.message : "";
}

export async function wrong() {
  // @ts-expect-error: no client
  new Locks("redis://localhost");
  // @ts-expect-error
  new Locks({ host: "localhost" });
  // @ts-expect-error: a function that makes one
  new Locks(createClient);
  // @ts-expect-error: a pool has no connection to stay with
  new Locks(createClientPool());
  // @ts-expect-error: a promise of a client
  new Stock(createClient().connect());
  // @ts-expect-error: a pipeline
  new Stock(redis.pipeline());
  // @ts-expect-error: no key
  await locks.acquire();
  // @ts-expect-error
  await locks.acquire(undefined);
  // @ts-expect-error: seconds, as in Python
  await locks.acquire("job", 30);
  // @ts-expect-error: an option of Python
  await locks.acquire("job", { wait: 30 });
  // @ts-expect-error
  await locks.acquire("job", { leaseMs: "5s" });
  // @ts-expect-error
  await locks.acquire("job", { blocking: true });
  // @ts-expect-error: no work
  await locks.using("job", {});
  // @ts-expect-error: a forgotten await
  locks.acquire("job").fence;
  // @ts-expect-error
  if (locks.acquire("job")) console.log("granted?");
  // @ts-expect-error
  if (locks.locked("job")) console.log("locked?");
  // @ts-expect-error: it may be null
  (await locks.acquire("job")).release();
  const hold = await locks.acquire("job");
  if (!hold) return;
  // @ts-expect-error
  if (hold.release()) console.log("released?");
  // @ts-expect-error: only the server gives fences
  hold.fence = 1;
  // @ts-expect-error: a string where a list belongs
  await stock.confirmAll("order", "sale");
  // @ts-expect-error
  await stock.order("sale", "order", { hold: 600 });
  // @ts-expect-error
  await stock.order("sale", "order", { qty: "2" });
  // @ts-expect-error
  await stock.orderAll("order", ["a", "b"]);
  // @ts-expect-error: a forgotten await
  if (stock.order("sale", "order").done) console.log("bought?");
  // @ts-expect-error: no such status
  if ((await stock.order("sale", "order")).status === "SOLD") console.log("sold out?");
  // @ts-expect-error
  stock.orders("sale", { state: "paid" });
}
