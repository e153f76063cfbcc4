// Wrong arguments are refused where they are made, with what was expected, and nothing is sent.

import { EventEmitter } from "node:events";
import { test } from "node:test";

import { createClient, createClientPool } from "redis";
import { Locks, NotGranted, Stock } from "lockstock";

import { assert } from "../servers.mjs";

/** A client that is not asked anything. */
class Silent extends EventEmitter {
  status = "ready";
  asked = 0;
  async call() {
    this.asked++;
    return null;
  }
  duplicate = () => assert.fail("a second connection");
  subscribe = this.duplicate;
  disconnect() {}
}

const silent = new Silent();
const [locks, stock] = [new Locks(silent), new Stock(silent)];
const hold = { token: "ann" };
const work = () => assert.fail("inside");

const refused = {
  "no key": [() => locks.acquire(), /^TypeError: keys: expected an array of strings that is not empty, not undefined$/],
  "a key that is not there": [() => locks.using(null, {}, work), /^TypeError: keys: .* not null/],
  "an empty key": [() => locks.acquire(""), /^TypeError: key: expected a string that is not empty, not ''$/],
  "a number for a key": [() => locks.acquire(42), /^RangeError: keys: expected .* not 42$/],
  "an empty list": [() => locks.acquire([]), /not \[\]/],
  "a hole in a list": [() => locks.acquire([, "a"]), /^TypeError: keys\[0\]: expected a string that is not empty, not undefined$/],
  "a list of holes": [() => locks.acquire(new Array(1)), /^TypeError: keys\[0\]: expected a string/],
  "an empty key in a list": [() => locks.acquire(["a", ""]), /^TypeError: keys\[1\]: expected a string/],
  "seconds for options": [() => locks.acquire("a", 30), /^RangeError: options: expected an object of waitMs, leaseMs, .* not 30$/],
  "null for options": [() => locks.acquire("a", null), /^TypeError: options: /],
  "an unknown option": [() => locks.acquire("a", { wait: 30 }), /^TypeError: option wait is unknown: expected waitMs, leaseMs, /],
  "an inherited name": [() => locks.acquire("a", { toString: 1 }), /option toString is unknown/],
  "a negative wait": [() => locks.acquire("a", { waitMs: -1 }), /^RangeError: waitMs: expected milliseconds, 0 or more, or Infinity, not -1$/],
  "a wait that is no number": [() => locks.acquire("a", { waitMs: "10" }), /^TypeError: waitMs: .* not '10'$/],
  "NaN": [() => locks.acquire("a", { waitMs: NaN }), /waitMs: .* not NaN/],
  "no lease": [() => locks.acquire("a", { leaseMs: 0 }), /^RangeError: leaseMs: expected milliseconds, more than 0, not 0$/],
  "a negative lease": [() => locks.using("a", { leaseMs: -5 }, work), /leaseMs: /],
  "an endless lease": [() => locks.acquire("a", { leaseMs: Infinity }), /leaseMs: .* not Infinity/],
  "no permits": [() => locks.acquire("a", { limit: 0 }), /^RangeError: limit: expected an integer from 1 to 9007199254740991, not 0$/],
  "half a permit": [() => locks.acquire("a", { limit: 0.5 }), /limit: /],
  "shared with limit": [() => locks.acquire("a", { shared: true, limit: 2 }), /^TypeError: shared and limit: /],
  "shared, and several": [() => locks.acquire(["a", "b"], { shared: true }), /^TypeError: shared: several locks are taken together exclusively only/],
  "limit, and several": [() => locks.acquire(["a", "b"], { limit: 2 }), /^TypeError: limit: /],
  "yes for true": [() => locks.acquire("a", { shared: "yes" }), /^TypeError: shared: expected true or false, not 'yes'$/],
  "1 for true": [() => locks.acquire("a", { session: 1 }), /session: expected true or false, not 1/],
  "an empty token": [() => locks.acquire("a", { token: "" }), /token: expected a string of 1 to 512 bytes, not ''/],
  "a long token": [() => locks.acquire("a", { token: "ä".repeat(257) }), /token: /],
  "a controller for its signal": [() => locks.acquire("a", { signal: new AbortController() }), /signal: expected an AbortSignal/],
  "what is no signal to all of its users": [() => locks.acquire("a", { signal: { aborted: false, addEventListener() {} } }), /signal: expected an AbortSignal/],
  "no replicas": [() => locks.acquire("a", { replicas: 0 }), /replicas: /],
  "no work": [() => locks.using("a", {}), /^TypeError: work: expected a function, not undefined$/],
  "a promise for work": [() => locks.using("a", {}, Promise.resolve()), /work: expected a function/],
  "whose hold?": [() => locks.release("a", {}), /token: expected a string of 1 to 512 bytes, not undefined/],
  "a fence of 0": [() => locks.release("a", { ...hold, fence: 0 }), /fence: expected an integer from 1/],
  "a token for a hold": [() => locks.extend("a", "ann", 5), /options: expected an object of token, fence/],
  "no time": [() => locks.extend("a", hold), /leaseMs: expected milliseconds, more than 0, not undefined/],
  "two keys for a guard": [() => locks.guard(["a", "b"], hold, "GET", "a"), /key: expected a string/],
  "no command": [() => locks.guard("a", hold), /command: expected a string/],
  "an object for an argument": [() => locks.guard("a", hold, "SET", "a", {}), /argument 2 of SET: expected a string, a number or a Buffer, not {}/],
  "two keys to look at": [() => locks.locked(["a", "b"]), /key: expected a string/],

  "no sale": [() => stock.order(undefined, "id"), /^TypeError: sale: expected a string that is not empty, not undefined$/],
  "no id": [() => stock.order("sale"), /^TypeError: id: expected a string of 1 to 512 bytes, not undefined$/],
  "a number for an id": [() => stock.order("sale", 7), /id: .* not 7/],
  "no units": [() => stock.order("sale", "id", { qty: 0 }), /qty: expected an integer from 1 to \d+, not 0/],
  "no hold": [() => stock.order("sale", "id", { holdMs: 0 }), /holdMs: expected milliseconds, more than 0, not 0/],
  "Python's hold": [() => stock.order("sale", "id", { hold: 600 }), /option hold is unknown: expected qty, buyer, holdMs, ref, waitlist/],
  "a string for options": [() => stock.order("sale", "id", "ann"), /options: expected an object of qty, /],
  "an empty buyer": [() => stock.order("sale", "id", { buyer: "" }), /buyer: /],
  "no time to extend by": [() => stock.extend("sale", "id", -1), /holdMs: /],
  "nothing to keep": [() => stock.confirm("sale", "id", { keep: 0 }), /keep: expected an integer from 1/],
  "a number for keep": [() => stock.cancel("sale", "id", 1), /options: expected an object of keep, not 1/],
  "a sale for a list of sales": [() => stock.confirmAll("id", "sale"), /^TypeError: sales: expected an array of strings that is not empty, not 'sale'$/],
  "no sales": [() => stock.cancelAll("id", []), /sales: /],
  "a list for units by sale": [() => stock.orderAll("id", ["a", "b"]), /units: expected an object of units by sale/],
  "an empty cart": [() => stock.orderAll("id", {}), /sales: /],
  "no units of a sale": [() => stock.orderAll("id", { a: 1, b: 0 }), /units of b: expected an integer from 1/],
  "a waitlist for a cart": [() => stock.orderAll("id", { a: 1 }, { waitlist: true }), /option waitlist is unknown/],
  "a negative total": [() => stock.create("sale", -1), /total: expected an integer from 0/],
  "no total": [() => stock.create("sale"), /total: .* not undefined/],
  "a date in words": [() => stock.create("sale", 1, { start: "tomorrow" }), /start: expected a Date, or Unix milliseconds from 1 on, not 'tomorrow'/],
  "no units for each buyer": [() => stock.create("sale", 1, { limit: 0 }), /^RangeError: limit: expected an integer from 1 to \d+, not 0$/],
  "no beginning": [() => stock.create("sale", 1, { start: 0 }), /^RangeError: start: expected a Date, or Unix milliseconds from 1 on, not 0$/],
  "no end": [() => stock.create("sale", 1, { end: new Date(0) }), /^TypeError: end: expected a Date, or Unix milliseconds from 1 on/],
  "no date": [() => stock.create("sale", 1, { end: new Date(NaN) }), /end: expected a Date/],
  "deadlines without a stream": [() => stock.create("sale", 1, { deadlines: true }), /deadlines: they go to a stream/],
  "no terms": [() => stock.alter("sale", {}), /terms: expected at least one of limit, start, end, rebuy/],
  "no delta": [() => stock.adjust("sale"), /delta: expected an integer/],
  "an empty id": [() => stock.adjust("sale", 1, { id: "" }), /id: /],
  "no such state": [async () => stock.orders("sale", { state: "paid" }), /state: expected one of held, sold, cancelled, expired, waiting, not 'paid'/],
  "half a character": [() => locks.acquire("a\ud800"), /^TypeError: key: expected a string of whole characters, not /],
  "half a character in a token": [() => locks.acquire("a", { token: "\ud800" }), /^TypeError: token: expected a string of whole characters/],
  "half a character in an id": [() => stock.look("sale", "\udfff"), /^TypeError: id: expected a string of whole characters/],
  "a Map for options": [() => locks.acquire("a", new Map([["waitMs", 5]])), /^TypeError: options: expected an object of waitMs, /],
  "an unknown option that is inherited": [() => locks.acquire("a", Object.create({ wait: 30 })), /^TypeError: option wait is unknown/],
  "options for a look": [() => locks.info("a", { waitMs: 5 }), /^TypeError: this takes no options, not { waitMs: 5 }$/],
  "options for a question": [() => locks.locked("a", {}), /this takes no options/],
  "options for work that is not run": [() => locks.acquire("a", {}, { waitMs: 5 }), /this takes no options/],
  "options of a release": [() => locks.release("a", hold, { leaseMs: 5 }), /this takes no options/],
  "options of a lease": [() => locks.extend("a", hold, 5, { fence: 5 }), /this takes no options/],
  "options of Locks": [async () => new Locks(silent, { leaseMs: 5 }), /this takes no options/],
  "options of Stock": [async () => new Stock(silent, { prefix: "a" }), /this takes no options/],
  "units to keep of a cart": [() => stock.confirmAll("id", ["a"], { keep: 1 }), /this takes no options, not { keep: 1 }/],
  "units to keep of a cart that ends": [() => stock.cancelAll("id", ["a"], { keep: 1 }), /this takes no options/],
  "options for a hold": [() => stock.extend("sale", "id", 5, { keep: 1 }), /this takes no options/],
  "options for an order": [() => stock.look("sale", "id", { keep: 1 }), /this takes no options/],
  "options for a buyer": [() => stock.buyer("sale", "ann", { limit: 1 }), /this takes no options/],
  "options for a sale": [() => stock.info("sale", { limit: 1 }), /this takes no options/],
  "no buyer": [() => stock.buyer("sale"), /buyer: /],
};

for (const [name, [call, text]] of Object.entries(refused)) {
  test(`refused: ${name}`, async () => {
    await assert.rejects(call(), (error) => (error instanceof TypeError || error instanceof RangeError) && text.test(`${error}`));
    assert.equal(silent.asked, 0);
  });
}

for (const client of [undefined, null, "redis://localhost", {}, new EventEmitter(), Promise.resolve(silent), new Map()]) {
  test(`no client: ${typeof client} ${client?.constructor.name}`, () => {
    for (const Class of [Locks, Stock]) assert.throws(() => new Class(client), /^TypeError: client: expected a client of ioredis or node-redis/);
  });
}

test("what is refused is shown, but not all of it", async () => {
  await assert.rejects(locks.acquire("a", { token: "x".repeat(100_000) }), (error) => error.message.length < 200);
  const legacy = createClient().legacy();
  assert.throws(() => new Locks(legacy), (error) => error instanceof TypeError && error.message.length < 300);
});

test("a pool is no client for this", () => {
  assert.throws(() => new Locks(createClientPool()), /^TypeError: client \(a pool has no connection to stay with\): expected/);
});

test("what is undefined counts as not given", async () => {
  assert.equal(await locks.acquire("a", { waitMs: undefined, limit: undefined, shared: undefined }), null);
  assert.equal(silent.asked, 1);
});

test("options that are undefined count as none", async () => {
  await assert.rejects(locks.using("a", undefined, work), (error) => error instanceof NotGranted && /not granted within 0 ms/.test(error.message));
});

test("options may be inherited, and names be told by map", async () => {
  const asked = silent.asked;
  assert.equal(await locks.acquire("a", Object.create({ leaseMs: 5 })), null);
  assert.deepEqual(await Promise.all(["a", "b"].map(locks.locked, locks)), [false, false]);
  assert.equal(silent.asked, asked + 3);
});
