// Stock: orders that are taken once, reservations, sales and carts.
"use strict";

const { randomUUID } = require("node:crypto");

const { ask } = require("./bounds.js");
const check = require("./check.js");
const { known } = require("./clients.js");
const { fields, text } = require("./reply.js");

/** @typedef {import("./clients.js").RedisClient} RedisClient */

/**
 * @typedef {"OK" | "DUPLICATE" | "SOLDOUT" | "INSUFFICIENT" | "LIMIT" | "NOTSTARTED" | "ENDED" | "EXPIRED" | "CANCELLED" | "QUEUED" |
 *   "SKIPPED" | "NOORDER" | "NOSTOCK"} Status
 */

/**
 * The outcome of a request for one order. `done`: it is as asked, by this request or by an earlier one. `deadline`: when its hold ends,
 * in Unix milliseconds; -1: it has none.
 * @typedef {{ status: Status, done: boolean, units: number, remaining: number, deadline: number, ref: string }} Outcome
 */

/** @typedef {{ status: Status, done: boolean, sales: Record<string, Outcome> }} Cart */

/**
 * @typedef {object} OrderOptions
 * @property {number} [qty] How many units (1).
 * @property {string} [buyer] For whom, where the sale has a limit for each buyer; the order's id, if it is not given.
 * @property {number} [holdMs] Reserves them for so long, instead of selling them.
 * @property {string} [ref] Is kept with the order.
 * @property {boolean} [waitlist] Stands in line where the units are gone.
 */

/**
 * An order as the sale has it. `place`: its place in line, while it waits.
 * @typedef {{ state: "held" | "sold" | "cancelled" | "expired" | "waiting", units: number, buyer: string, ref: string, deadline: number, place?: number }} Order
 */

/**
 * @typedef {object} Terms
 * @property {number} [limit] How many units a buyer may have; for `alter`, 0: any number.
 * @property {Date | number} [start] When the sale begins; a number is Unix milliseconds; for `alter`, 0: it has begun.
 * @property {Date | number} [end] When the sale ends; for `alter`, 0: never.
 * @property {boolean} [rebuy] Whether an id that lapsed or was cancelled may buy again.
 */
/** @typedef {Terms & { stream?: string, deadlines?: boolean }} SaleOptions `stream` is the key to which every change is appended, with `deadlines` in full. */

/**
 * @typedef {object} SaleInfo
 * @property {number} total always remaining + held + sold
 * @property {number} remaining
 * @property {number} held
 * @property {number} sold
 * @property {number} orders
 * @property {number} buyers buyers that hold or own units
 * @property {number} limit 0: none
 * @property {number} start Unix milliseconds; 0: none
 * @property {number} end Unix milliseconds; 0: none
 * @property {boolean} rebuy
 * @property {string} stream its key; "": none
 * @property {boolean} deadlines
 * @property {number} seq changes so far
 * @property {number} waiting orders in line
 * @property {Record<string, number>} counters of this server, since it loaded the sale: ok, duplicate, soldout …
 */

const TERMS = terms(0);
const SALE = { ...terms(1), stream: check.word, deadlines: check.flag };
const CART = { buyer: check.short, holdMs: check.ms, ref: check.short };
const ORDER = { qty: check.integer, ...CART, waitlist: check.flag };
const KEEP = { keep: check.integer };
const STATES = ["held", "sold", "cancelled", "expired", "waiting"];
const FIELDS = ["total", "remaining", "held", "sold", "orders", "buyers", "limit", "start", "end", "seq", "waiting"];

/** Takes orders. Every request may be sent again: the id of the order makes it happen once. */
class Stock {
  #client;

  /**
   * @param {RedisClient} client of ioredis or node-redis, connected; of one server, a cluster or Sentinel
   * @param {never[]} more
   */
  constructor(client, ...more) {
    check.noOptions(more[0]);
    this.#client = known(client);
  }

  /**
   * Opens a sale of so many units.
   * @param {string} sale
   * @param {number} total
   * @param {SaleOptions} [options]
   * @returns {Promise<void>}
   * @throws {import("./errors.js").SaleExists}
   */
  async create(sale, total, options = {}) {
    const { limit, start, end, rebuy, stream, deadlines } = check.options(options, SALE);
    if (deadlines && stream === undefined) throw new TypeError("deadlines: they go to a stream; name one");
    const words = ["STOCK.CREATE", sale, `${check.integer("total", total, 0)}`];
    words.push(...window(limit, start, end));
    if (rebuy) words.push("REBUY");
    if (stream !== undefined) words.push("STREAM", stream);
    if (deadlines) words.push("DEADLINES");
    await this.#send(sale, words);
  }

  /**
   * Changes the terms that are named.
   * @param {string} sale
   * @param {Terms} terms
   * @returns {Promise<void>}
   * @throws {import("./errors.js").NoSale}
   */
  async alter(sale, terms) {
    const { limit, start, end, rebuy } = check.options(terms, TERMS);
    const words = ["STOCK.ALTER", sale, ...window(limit, start, end)];
    if (rebuy !== undefined) words.push("REBUY", rebuy ? "yes" : "no");
    if (words.length === 2) check.refuse("terms", `at least one of ${Object.keys(TERMS).join(", ")}`, terms);
    await this.#send(sale, words);
  }

  /**
   * Adds units, or withdraws some that are not sold. With an `id` it happens once, however often it is asked for. Without one it gets an id
   * of its own, for ioredis sends again what was not answered.
   * @param {string} sale
   * @param {number} delta
   * @param {{ id?: string }} [options]
   * @returns {Promise<number>} the units that remain now
   */
  async adjust(sale, delta, options = {}) {
    const { id = randomUUID() } = check.options(options, { id: check.short });
    const words = ["STOCK.ADJUST", sale, `${check.integer("delta", delta, -Number.MAX_SAFE_INTEGER)}`];
    return Number(await this.#send(sale, [...words, "ID", id]));
  }

  /** The sale's sums and terms; null if there is none. @param {string} sale @returns {Promise<SaleInfo | null>} */
  async info(sale) {
    const found = fields(await this.#send(sale, ["STOCK.INFO", sale]));
    if (!found) return null;
    const { rebuy, stream, deadlines, ...numbers } = found;
    const read = /** @type {any} */ (Object.fromEntries(FIELDS.map((field) => [field, Number(numbers[field])])));
    const others = Object.keys(numbers).filter((field) => !FIELDS.includes(field));
    const counters = Object.fromEntries(others.map((field) => [field, Number(numbers[field])]));
    return { ...read, rebuy: text(rebuy) === "yes", stream: text(stream), deadlines: text(deadlines) === "yes", counters };
  }

  /**
   * How many units a buyer has or waits for, and may have (0: any number); null if there is no such sale.
   * @param {string} sale
   * @param {string} buyer
   * @returns {Promise<{ units: number, limit: number } | null>}
   */
  async buyer(sale, buyer) {
    const reply = await this.#send(sale, ["STOCK.BUYER", sale, check.short("buyer", buyer)]);
    return reply && { units: Number(reply[0]), limit: Number(reply[1]) };
  }

  /**
   * All orders, or those in one state, page by page: each that was there all the while comes at least once.
   * @param {string} sale
   * @param {{ state?: Order["state"], count?: number }} [options] `count`: about how many for each request
   * @returns {AsyncGenerator<Order & { id: string }, void, undefined>}
   */
  orders(sale, options = {}) {
    const state = (/** @type {string} */ name, /** @type {any} */ value) =>
      STATES.includes(value) ? value : check.refuse(name, `one of ${STATES.join(", ")}`, value);
    const read = check.options(options, { state, count: check.integer });
    check.word("sale", sale);
    const words = read.count === undefined ? [] : ["COUNT", `${read.count}`];
    return this.#pages(sale, read.state === undefined ? words : [...words, "STATE", read.state]);
  }

  /**
   * Takes units, or with `holdMs` reserves them for that long; with `waitlist` stands in line where they are gone.
   * @param {string} sale
   * @param {string} id
   * @param {OrderOptions} [options]
   * @returns {Promise<Outcome>}
   */
  async order(sale, id, options = {}) {
    const { qty = 1, waitlist, ...rest } = check.options(options, ORDER);
    const words = ["STOCK.DECR_ONCE", sale, check.short("id", id), "QTY", `${qty}`, ...details(rest)];
    return this.#one(waitlist ? [...words, "WAITLIST"] : words);
  }

  /**
   * Makes a hold a sale: the payment is there. With `keep` of so many of its units, and gives the others back.
   * @param {string} sale
   * @param {string} id
   * @param {{ keep?: number }} [options]
   */
  async confirm(sale, id, options = {}) {
    return this.#one(["STOCK.CONFIRM", sale, check.short("id", id), ...kept(options)]);
  }

  /**
   * Gives the units of a hold or a sale back, with `keep` all but so many of them; or leaves the waitlist.
   * @param {string} sale
   * @param {string} id
   * @param {{ keep?: number }} [options]
   */
  async cancel(sale, id, options = {}) {
    return this.#one(["STOCK.CANCEL", sale, check.short("id", id), ...kept(options)]);
  }

  /** Lets a hold end that long from now. @param {string} sale @param {string} id @param {number} holdMs */
  async extend(sale, id, holdMs) {
    return this.#one(["STOCK.EXTEND", sale, check.short("id", id), "PX", `${check.ms("holdMs", holdMs)}`]);
  }

  /** The order; null if there is none. @param {string} sale @param {string} id @returns {Promise<Order | null>} */
  async look(sale, id) {
    const found = fields(await this.#send(sale, ["STOCK.ORDER", sale, check.short("id", id)]));
    if (!found) return null;
    const { state, units, buyer, ref, deadline, place } = found;
    const order = orderOf(state, units, buyer, ref, deadline);
    return place === undefined ? order : { ...order, place: Number(place) };
  }

  /**
   * Takes units of several sales, all or none.
   * @param {string} id
   * @param {Readonly<Record<string, number>>} units by sale
   * @param {Pick<OrderOptions, "buyer" | "holdMs" | "ref">} [options]
   */
  async orderAll(id, units, options = {}) {
    if (units === null || typeof units !== "object" || Array.isArray(units)) check.refuse("units", "an object of units by sale", units);
    const sales = check.list("sales", Object.keys(units));
    const legs = sales.flatMap((sale) => [sale, `${check.integer(`units of ${sale}`, units[sale])}`]);
    return this.#many(id, sales, "STOCK.MDECR_ONCE", legs, details(check.options(options, CART)));
  }

  /** Confirms all or none. @param {string} id @param {readonly string[]} sales */
  async confirmAll(id, sales) {
    const all = check.list("sales", sales);
    return this.#many(id, all, "STOCK.MCONFIRM", all);
  }

  /** Cancels each. @param {string} id @param {readonly string[]} sales */
  async cancelAll(id, sales) {
    const all = check.list("sales", sales);
    return this.#many(id, all, "STOCK.MCANCEL", all);
  }

  /** @param {string} sale @param {string[]} words @returns {AsyncGenerator<Order & { id: string }, void, undefined>} */
  async *#pages(sale, words) {
    let cursor = "0";
    do {
      const [next, rows] = await this.#send(sale, ["STOCK.ORDERS", sale, cursor, ...words]);
      for (const [id, state, units, buyer, ref, deadline] of rows) yield { id: text(id), ...orderOf(state, units, buyer, ref, deadline) };
      cursor = text(next);
    } while (cursor !== "0");
  }

  /** @param {string[]} words @returns {Promise<Outcome>} */
  async #one(words) {
    return outcome(await this.#send(words[1], words));
  }

  /**
   * @param {string} id @param {string[]} sales @param {string} command @param {readonly string[]} legs @param {string[]} [options]
   * @returns {Promise<Cart>}
   */
  async #many(id, sales, command, legs, options = []) {
    const words = [command, check.short("id", id), `${sales.length}`, ...legs, ...options];
    const [first, ...fives] = await this.#send(sales[0], words);
    const status = /** @type {Status} */ (text(first));
    const ours = sales.map((sale, leg) => [sale, outcome(fives[leg])]);
    return { status, done: isDone(status), sales: Object.fromEntries(ours) };
  }

  /** @param {string} sale @param {string[]} words @returns {Promise<any>} */
  async #send(sale, words) {
    check.word("sale", sale);
    return ask(this.#client, sale, words);
  }
}

check.noOptionsAfter(Stock, { info: 1, buyer: 2, extend: 3, look: 2, confirmAll: 2, cancelAll: 2 });

/** Readers of the terms of a sale, for which 0 is none, where it may be told. @param {0 | 1} least */
function terms(least) {
  const limit = (/** @type {string} */ name, /** @type {unknown} */ value) => check.integer(name, value, least);
  const time = (/** @type {string} */ name, /** @type {unknown} */ value) => check.time(name, value, least);
  return { limit, start: time, end: time, rebuy: check.flag };
}

/** @param {number | undefined} limit @param {number | undefined} start @param {number | undefined} end */
function window(limit, start, end) {
  const words = [];
  if (limit !== undefined) words.push("LIMIT", `${limit}`);
  if (start !== undefined) words.push("START", `${start}`);
  if (end !== undefined) words.push("END", `${end}`);
  return words;
}

/** @param {{ buyer?: string, holdMs?: number, ref?: string }} options */
function details({ buyer, holdMs, ref }) {
  const words = [];
  if (buyer !== undefined) words.push("BUYER", buyer);
  if (holdMs !== undefined) words.push("HOLD", `${holdMs}`);
  if (ref !== undefined) words.push("REF", ref);
  return words;
}

/** @param {unknown} options */
function kept(options) {
  const { keep } = check.options(options, KEEP);
  return keep === undefined ? [] : ["KEEP", `${keep}`];
}

/** @param {any[]} five @returns {Outcome} */
function outcome([status, units, remaining, deadline, ref]) {
  const said = /** @type {Status} */ (text(status));
  return { status: said, done: isDone(said), units: Number(units), remaining: Number(remaining), deadline: Number(deadline), ref: text(ref) };
}

/** @param {any} state @param {any} units @param {any} buyer @param {any} ref @param {any} deadline @returns {Order} */
function orderOf(state, units, buyer, ref, deadline) {
  const read = /** @type {Order["state"]} */ (text(state));
  return { state: read, units: Number(units), buyer: text(buyer), ref: text(ref), deadline: Number(deadline) };
}

/** @param {Status} status */
const isDone = (status) => status === "OK" || status === "DUPLICATE";

module.exports = { Stock };
