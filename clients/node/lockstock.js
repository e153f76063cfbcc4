// Locks and stock of the server module lockstock, for ioredis and node-redis, alone and in a cluster.
//
//     const locks = new Locks(redis);
//     await locks.using("job:42", { wait: 10_000 }, async (hold) => write(row, hold.fence));
//
// The server does the work. What is left to a client, and easily forgotten, is in this file:
//
// - Every request carries a token, so it may be sent again when its reply was lost. Both libraries do so after a reconnect.
// - Both send everything over one connection, where a parked request would hold up all others, its own release included. So waits
//   go by NOTIFY: the answer comes at once, and what becomes of the request over a second connection, which subscribes.
// - A message comes once or never. After a reconnect of either connection everybody asks again, and hears where it stands.
// - A wait that is broken off is withdrawn: else its token would get the lock and nobody would know.
// - While a lock is held, its lease is extended. If that fails, `hold.lost` is aborted.
//
// Times are milliseconds. Locks that are taken together, and the sales of one cart, must be in one slot of a cluster: give them a
// `{tag}`. A key prefix of ioredis is not put before the keys of these commands.

import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * @typedef {object} LockOptions
 * @property {number} [wait] How long to stand in line at most. 0, the default: not at all. Infinity: as long as it takes.
 * @property {number} [lease] How long the hold outlasts a process that died or froze (30,000). While it lives, it is extended.
 * @property {string} [token] Who asks. Give one task's locks the same, and the server sees when two tasks wait for each other (DEADLOCK).
 * @property {boolean} [shared] Together with other shared holds.
 * @property {number} [limit] As one of so many.
 * @property {boolean} [extend] Whether to extend the lease until the release (true).
 * @property {AbortSignal} [signal] Breaks the wait off.
 */

/**
 * @typedef {"OK" | "DUPLICATE" | "SOLDOUT" | "INSUFFICIENT" | "LIMIT" | "NOTSTARTED" | "ENDED" | "EXPIRED" | "CANCELLED" | "QUEUED" |
 *   "SKIPPED" | "NOORDER" | "NOSTOCK"} Status
 */

/**
 * What came of a request for one order. `done`: it is as asked, by this request or by an earlier one. `deadline`: when its hold ends,
 * in Unix milliseconds; -1: it has none.
 * @typedef {{ status: Status, done: boolean, units: number, remaining: number, deadline: number, ref: string }} Outcome
 */

/** @typedef {{ status: Status, done: boolean, sales: Record<string, Outcome> }} Cart */

/** @typedef {{ qty?: number, buyer?: string, hold?: number, ref?: string, waitlist?: boolean }} OrderOptions */

/** How much later than asked for the end of a wait may be told before it is taken for lost. */
const GRACE = 5_000;
/** How long to wait before asking a server again that could not answer. */
const PAUSE = 50;
/** How often to ask again where nothing was heard. */
const DOUBT = 10_000;
/** The longest that a timer can run. */
const LONGEST = 2 ** 31 - 1;

/** The lock was not granted within the wait. */
export class NotGranted extends Error {}

/** The hold had ended before it was released: somebody else may have had the lock meanwhile. */
export class Lost extends Error {}

/** Asks for locks. One for each client is enough. */
export class Locks {
  #client;
  #channel = `lockstock:${randomUUID()}`;
  /** @type {Map<string, Waiting>} */
  #waiting = new Map();
  /** @type {Promise<any> | undefined} */
  #subscriber;
  /** @type {(() => void)[]} */
  #unhook = [];

  /** @param {any} client of ioredis or node-redis, connected; of one server or a cluster */
  constructor(client) {
    this.#client = client;
  }

  /**
   * Runs `work` while the lock is held, or all of several locks.
   * @template T
   * @param {string | string[]} keys
   * @param {LockOptions} options
   * @param {(hold: Hold) => Promise<T> | T} work
   * @returns {Promise<T>}
   * @throws {NotGranted} before the work, and {Lost} after it
   */
  async using(keys, options, work) {
    const hold = await this.acquire(keys, options);
    if (!hold) throw new NotGranted(`${keys}: not granted within ${options.wait ?? 0} ms`);
    let result;
    try {
      result = await work(hold);
    } catch (error) {
      await hold.release().catch(() => {});
      throw error;
    }
    await hold[Symbol.asyncDispose]();
    return result;
  }

  /**
   * @param {string | string[]} keys
   * @param {LockOptions} [options]
   * @returns {Promise<Hold | null>} null: not granted within the wait
   */
  async acquire(keys, options = {}) {
    const { wait = 0, lease = 30_000, token = randomUUID(), shared, limit, extend = true, signal } = options;
    const all = [keys].flat();
    const words = all.length > 1 ? ["LOCK.MACQUIRE", `${all.length}`, ...all] : ["LOCK.ACQUIRE", all[0]];
    words.push("TOKEN", token, "PX", ms(lease));
    if (shared) words.push("SHARED");
    if (limit) words.push("LIMIT", `${limit}`);
    signal?.throwIfAborted();
    const hold = new Hold(this.#client, all, token, lease, extend);
    try {
      const sent = performance.now();
      if (wait <= 0) return hold.begin(await hold.ask(words), sent, false);
      const reply = await this.#stand(hold, words, wait, signal);
      return hold.begin(reply, performance.now(), true);
    } catch (error) {
      // The server's own no means that the token neither waits nor has got anything by this request. For a server out of reach the
      // lease does it, or the end of the connection.
      if (!isAnswer(error)) await Promise.race([hold.release().catch(() => {}), sleep(GRACE, null, { ref: false })]);
      throw error;
    }
  }

  /** Ends the second connection. */
  async close() {
    const subscriber = await this.#subscriber?.catch(() => {});
    this.#subscriber = undefined;
    for (const unhook of this.#unhook.splice(0)) unhook();
    await (subscriber?.close ?? subscriber?.quit)?.call(subscriber);
  }

  /**
   * Stands in line, and gives the answer that a parked client would get.
   * @param {Hold} hold
   * @param {string[]} words
   * @param {number} wait
   * @param {AbortSignal | undefined} signal
   */
  async #stand(hold, words, wait, signal) {
    await this.#listen();
    const name = nameOf(hold.token, hold.keys);
    try {
      return await new Promise((resolve, reject) => {
        const waiting = new Waiting(hold, [...words, "NOTIFY", this.#channel], wait, resolve, reject);
        this.#waiting.set(name, waiting);
        if (signal) waiting.stopOn(signal);
        waiting.ask();
      });
    } finally {
      this.#waiting.get(name)?.end();
      this.#waiting.delete(name);
    }
  }

  #listen() {
    this.#subscriber ??= this.#subscribe().catch((error) => {
      this.#subscriber = undefined;
      throw error;
    });
    return this.#subscriber;
  }

  async #subscribe() {
    const subscriber = this.#client.duplicate();
    subscriber.on("error", () => {});
    const tell = (/** @type {string} */ text) => {
      const said = JSON.parse(text);
      this.#waiting.get(nameOf(said.token, said.keys ?? [said.key]))?.hear(said);
    };
    try {
      if (isIoredis(subscriber)) {
        await subscriber.subscribe(this.#channel);
        subscriber.on("message", (/** @type {string} */ _, /** @type {string} */ text) => tell(text));
      } else {
        await subscriber.connect();
        await subscriber.subscribe(this.#channel, tell);
      }
    } catch (error) {
      if (subscriber.isOpen !== false) (subscriber.destroy ?? subscriber.disconnect).call(subscriber);
      throw error;
    }
    this.#askAgainWhenConnected(this.#client);
    this.#askAgainWhenConnected(subscriber);
    return subscriber;
  }

  /**
   * A request is gone with the connection that brought it, and the server keeps its place for a second. A message that came meanwhile
   * is gone with the other connection.
   * @param {any} client
   */
  #askAgainWhenConnected(client) {
    const again = () => this.#waiting.forEach((waiting) => waiting.ask());
    const on = (/** @type {any} */ emitter, /** @type {string} */ event, /** @type {(_: any) => void} */ listener) => {
      emitter.on(event, listener);
      this.#unhook.push(() => emitter.off(event, listener));
    };
    on(client, "ready", again);
    on(client, "node-ready", again);
    // The nodes of a cluster of ioredis connect each for itself.
    if (!isIoredis(client) || !client.nodes) return;
    const watch = (/** @type {any} */ node) => on(node, "ready", again);
    client.nodes().forEach(watch);
    on(client, "+node", watch);
  }
}

/** A request that stands in line, until it is told how it ends. */
class Waiting {
  #hold;
  #words;
  #end;
  #timer;
  #doubt;
  #resolve;
  #reject;
  #over = false;
  /** @type {() => void} */
  #unhook = () => {};

  /**
   * @param {Hold} hold
   * @param {string[]} words
   * @param {number} wait
   * @param {(reply: any) => void} resolve
   * @param {(error: any) => void} reject
   */
  constructor(hold, words, wait, resolve, reject) {
    this.#hold = hold;
    this.#words = words;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#end = performance.now() + wait;
    const late = () => reject(new NotGranted(`${hold.keys}: no word of it within ${wait} ms`));
    if (wait + GRACE <= LONGEST) this.#timer = setTimeout(late, wait + GRACE);
    // A message may have come to nobody, while a connection was made anew.
    this.#doubt = setInterval(() => this.ask(), DOUBT);
  }

  /** Asks, or asks again: the token finds its place, or its grant. */
  async ask() {
    if (this.#over) return;
    const left = this.#end - performance.now();
    try {
      const wait = left === Infinity ? "0" : ms(Math.max(left, 1));
      const reply = await this.#hold.ask([...this.#words, "WAIT", wait]);
      // A number is the place in line.
      if (typeof reply !== "number") this.#resolve(reply);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {any} said */
  hear(said) {
    if (said.event === "granted") this.#resolve([said.token, said.fence]);
    else if (said.event === "timeout") this.#resolve(null);
    // By what it has asked again itself.
    else if (!said.error.startsWith("REPLACED")) this.#fail(new Error(said.error));
  }

  /** @param {AbortSignal} signal */
  stopOn(signal) {
    const stop = () => this.#reject(signal.reason);
    if (signal.aborted) stop();
    // One signal may end any number of waits.
    if (signal instanceof EventTarget) setMaxListeners(0, signal);
    signal.addEventListener("abort", stop);
    this.#unhook = () => signal.removeEventListener("abort", stop);
  }

  end() {
    this.#over = true;
    clearTimeout(this.#timer);
    clearInterval(this.#doubt);
    this.#unhook();
  }

  /** @param {any} error */
  #fail(error) {
    if (passes(error) && performance.now() < this.#end) setTimeout(() => this.ask(), PAUSE);
    else this.#reject(error);
  }
}

/** A lock that is held, or several together. */
export class Hold {
  /** A number larger than that of every grant before: have what you write to refuse smaller ones. */
  fence = 0;
  #client;
  #lease;
  #extend;
  #until = 0;
  #lost = new AbortController();
  /** @type {Set<Promise<any>>} */
  #asked = new Set();
  /** @type {NodeJS.Timeout | undefined} */
  #next;
  /** @type {NodeJS.Timeout | undefined} */
  #last;

  /**
   * @param {any} client
   * @param {string[]} keys
   * @param {string} token
   * @param {number} lease
   * @param {boolean} extend
   */
  constructor(client, keys, token, lease, extend) {
    this.#client = client;
    this.keys = keys;
    this.token = token;
    this.#lease = lease;
    this.#extend = extend;
  }

  /**
   * Is aborted when the hold has ended before it was released, or may have: an event, and something to hand on to `fetch`.
   * @returns {AbortSignal}
   */
  get lost() {
    return this.#lost.signal;
  }

  /** Whether the hold should last still, by this process's clock: the lease since it was last asked for is not over. */
  get held() {
    return performance.now() < this.#until;
  }

  /** Ends the hold. @returns {Promise<boolean>} whether there was a whole hold to end */
  async release() {
    clearTimeout(this.#next);
    clearTimeout(this.#last);
    this.#extend = false;
    // What was asked twice, after a reconnect, must not come to the server after this: in a cluster it may be redirected.
    await Promise.allSettled(this.#asked);
    return (await send(this.#client, this.keys[0], this.#words("RELEASE"))) === new Set(this.keys).size;
  }

  /** For `await using`. The lease ends a hold of which the server cannot be told. @throws {Lost} */
  async [Symbol.asyncDispose]() {
    try {
      if (await this.release()) return;
    } catch (error) {
      if (this.held && passes(error)) return;
      throw error;
    }
    throw new Lost(`${this.keys}: the hold had ended before it was released`);
  }

  /**
   * Sends the request for the lock, or sends it again.
   * @internal
   * @param {string[]} words
   */
  async ask(words) {
    const asked = send(this.#client, this.keys[0], words);
    this.#asked.add(asked);
    try {
      return await asked;
    } finally {
      this.#asked.delete(asked);
    }
  }

  /**
   * Reads the answer to the request: its lease counts from `since`.
   * @internal
   * @param {any} reply
   * @param {number} since
   * @param {boolean} waited
   */
  begin(reply, since, waited) {
    if (!reply) return null;
    this.fence = Number(reply[1]);
    this.#lasts(since);
    // After a wait at once: nobody knows how long the answer took.
    if (this.#extend) this.#extendIn(waited ? 0 : this.#lease / 3);
    return this;
  }

  /** @param {number} since */
  #lasts(since) {
    this.#until = since + this.#lease;
    clearTimeout(this.#last);
    const left = this.#until - performance.now();
    if (left <= LONGEST) this.#last = setTimeout(() => this.#ends(), left).unref();
  }

  #ends() {
    // A timer may come a moment early.
    this.#until = -Infinity;
    this.#lost.abort(new Lost(`${this.keys}: lost`));
  }

  /** @param {number} pause */
  #extendIn(pause) {
    this.#next = setTimeout(() => this.#extendNow(), Math.min(pause, LONGEST)).unref();
  }

  async #extendNow() {
    const sent = performance.now();
    let pause = this.#lease / 3;
    try {
      const whole = (await send(this.#client, this.keys[0], [...this.#words("EXTEND"), "PX", ms(this.#lease)])) === 1;
      if (this.#extend) this.#lasts(whole ? sent : -Infinity);
      if (!whole) return;
    } catch {
      // No answer says nothing; the clock does.
      pause = this.#lease / 20;
    }
    if (this.#extend && !this.lost.aborted) this.#extendIn(pause);
  }

  /** @param {string} verb */
  #words(verb) {
    const { keys, token } = this;
    return keys.length > 1 ? [`LOCK.M${verb}`, token, `${keys.length}`, ...keys] : [`LOCK.${verb}`, keys[0], token];
  }
}

/** Takes orders. Every request may be sent again: the id of the order makes it happen once. */
export class Stock {
  #client;

  /** @param {any} client of ioredis or node-redis, connected; of one server or a cluster */
  constructor(client) {
    this.#client = client;
  }

  /**
   * Takes units, or with `hold` reserves them for that long; with `waitlist` stands in line where they are gone.
   * @param {string} sale
   * @param {string} id
   * @param {OrderOptions} [options]
   */
  order(sale, id, options = {}) {
    const words = ["STOCK.DECR_ONCE", sale, id, "QTY", `${options.qty ?? 1}`, ...terms(options)];
    return this.#one(options.waitlist ? [...words, "WAITLIST"] : words);
  }

  /** Makes a hold a sale: the payment is there. @param {string} sale @param {string} id */
  confirm(sale, id) {
    return this.#one(["STOCK.CONFIRM", sale, id]);
  }

  /** Gives the units of a hold or a sale back, or leaves the waitlist. @param {string} sale @param {string} id */
  cancel(sale, id) {
    return this.#one(["STOCK.CANCEL", sale, id]);
  }

  /** Lets a hold end that long from now. @param {string} sale @param {string} id @param {number} hold */
  extend(sale, id, hold) {
    return this.#one(["STOCK.EXTEND", sale, id, "PX", ms(hold)]);
  }

  /**
   * The order's state, units, buyer, ref, deadline and, while it waits, place; null if there is none.
   * @param {string} sale @param {string} id
   * @returns {Promise<Record<string, string | number> | null>}
   */
  async look(sale, id) {
    return fields(await send(this.#client, sale, ["STOCK.ORDER", sale, id]));
  }

  /**
   * Takes units of several sales, all or none.
   * @param {string} id
   * @param {Record<string, number>} units by sale
   * @param {Omit<OrderOptions, "qty" | "waitlist">} [options]
   */
  orderAll(id, units, options = {}) {
    const sales = Object.keys(units);
    const legs = sales.flatMap((sale) => [sale, `${units[sale]}`]);
    return this.#many(sales, ["STOCK.MDECR_ONCE", id, `${sales.length}`, ...legs, ...terms(options)]);
  }

  /** Confirms all or none. @param {string} id @param {string[]} sales */
  confirmAll(id, sales) {
    return this.#many(sales, ["STOCK.MCONFIRM", id, `${sales.length}`, ...sales]);
  }

  /** Cancels each. @param {string} id @param {string[]} sales */
  cancelAll(id, sales) {
    return this.#many(sales, ["STOCK.MCANCEL", id, `${sales.length}`, ...sales]);
  }

  /** @param {string[]} words */
  async #one(words) {
    return outcome(await send(this.#client, words[1], words));
  }

  /** @param {string[]} sales @param {string[]} words @returns {Promise<Cart>} */
  async #many(sales, words) {
    const [status, ...legs] = await send(this.#client, sales[0], words);
    return { status, done: isDone(status), sales: Object.fromEntries(sales.map((sale, leg) => [sale, outcome(legs[leg])])) };
  }
}

/** @param {Omit<OrderOptions, "qty">} options */
function terms({ buyer, hold, ref }) {
  const words = [];
  if (buyer !== undefined) words.push("BUYER", buyer);
  if (hold !== undefined) words.push("HOLD", ms(hold));
  if (ref !== undefined) words.push("REF", ref);
  return words;
}

/** @param {any[]} five @returns {Outcome} */
function outcome([status, units, remaining, deadline, ref]) {
  return { status, done: isDone(status), units, remaining, deadline, ref };
}

/** @param {Status} status */
const isDone = (status) => status === "OK" || status === "DUPLICATE";

/** A map comes as a flat list with RESP2. @param {any} reply */
function fields(reply) {
  if (!Array.isArray(reply)) return reply instanceof Map ? Object.fromEntries(reply) : reply && { ...reply };
  return Object.fromEntries(reply.flatMap((field, at) => (at % 2 ? [] : [[field, reply[at + 1]]])));
}

/** @param {number} time */
const ms = (time) => `${Math.max(Math.ceil(time), 1)}`;

/** What tells one request from all others: the tokens that the server makes known, and the keys in any order. */
const nameOf = (/** @type {string} */ token, /** @type {string[]} */ keys) => JSON.stringify([token, [...new Set(keys)].sort()]);

/** @param {any} client */
const isIoredis = (client) => typeof client.call === "function";

/** Sends a command to the server of `key`. @param {any} client @param {string} key @param {string[]} words */
function send(client, key, words) {
  if (isIoredis(client)) return client.call(...words);
  return typeof client.getSlotRandomNode === "function" ? client.sendCommand(key, false, words) : client.sendCommand(words);
}

/** Whether this is an error that the server has answered: they begin with a code. @param {any} error */
const isAnswer = (error) => /^[A-Z]{3,} /.test(error?.message);

/** Whether asking again, of the same server or another, may help. @param {any} error */
function passes(error) {
  if (!isAnswer(error)) return error instanceof Error && !(error instanceof NotGranted);
  return /^(UNBLOCKED (force|this server)|MOVED|ASK|TRYAGAIN|CLUSTERDOWN|READONLY|LOADING|MASTERDOWN) /.test(error.message);
}
