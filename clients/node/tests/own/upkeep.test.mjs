// All holds of a process are extended by one timer.

import { createHook } from "node:async_hooks";
import { test } from "node:test";

import { Redis } from "ioredis";
import { Locks } from "lockstock";

import { start } from "../own.mjs";
import { assert, eventually, sleep } from "../servers.mjs";

test("two hundred holds are extended by one timer", async (t) => {
  const server = await start(t);
  const client = new Redis(server.url).on("error", () => {});
  const locks = new Locks(client);
  t.after(() => client.disconnect());
  const warnings = [];
  process.on("warning", (warning) => warnings.push(warning));
  const holds = await Promise.all(Array.from({ length: 200 }, (_, number) => locks.acquire(`lock:${number}`, { leaseMs: 1_500 })));
  const extended = async () => Number((await client.info("commandstats")).match(/cmdstat_lock.extend:calls=(\d+)/)?.[1] ?? 0);
  const before = await extended();
  let timers = 0;
  const hook = createHook({ init: (_, type) => (timers += Number(type === "Timeout")) }).enable();
  await sleep(2_000);
  hook.disable();
  assert((await extended()) - before >= 600);
  // One after the other, and not one for each.
  assert(timers < 300, `${timers} timers`);
  for (const hold of holds) assert(hold.held);
  await Promise.all(holds.map((hold) => hold.release()));
  await eventually("all are free", async () => /locks_held:0\r/.test(await client.info("lockstock")));
  await locks.close();
  // As one for too many listeners.
  assert.deepEqual(warnings, []);
});
