// A server without the module.

import { test } from "node:test";

import { Redis } from "ioredis";
import { Locks, ModuleMissing, Stock } from "lockstock";
import { createClient } from "redis";

import { startPlain } from "../own.mjs";
import { assert, hangUp } from "../servers.mjs";

for (const [name, make] of [["ioredis", (url) => new Redis(url)], ["node-redis", (url) => createClient({ url }).connect()]]) {
  test(`${name}: a server without the module says what it needs`, async (t) => {
    const client = (await make((await startPlain(t)).url)).on("error", () => {});
    t.after(() => hangUp(client));
    const [locks, stock] = [new Locks(client), new Stock(client)];
    t.after(() => locks.close());
    const asks = [() => locks.acquire("a"), () => locks.acquire("a", { waitMs: 60_000 }), () => locks.locked("a"), () => stock.order("a", "id")];
    for (const ask of asks) await assert.rejects(ask, (error) => error instanceof ModuleMissing && /load the module lockstock/.test(error.message));
    await assert.rejects(locks.guard("a", { token: "ann" }, "PING"), ModuleMissing);
  });
}
