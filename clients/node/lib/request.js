// A request for a lock: what it asks for, and what of it is on its way.
"use strict";

const { randomUUID } = require("node:crypto");

const { within } = require("./bounds.js");
const check = require("./check.js");
const { ignore } = require("./clients.js");

/**
 * @typedef {object} LockOptions
 * @property {number} [waitMs] How long to stand in line at most. 0, the default: not at all. Infinity: as long as it takes.
 * @property {number} [leaseMs] How long the hold outlasts a process that died or froze (30,000). While it lives, it is extended.
 * @property {string} [token] Who asks. Give one task's locks the same, and the server sees when two tasks wait for each other (DEADLOCK).
 * @property {boolean} [shared] Together with other shared holds.
 * @property {number} [limit] As one of so many.
 * @property {boolean} [session] The hold also ends when the client's connection does.
 * @property {boolean} [extend] Whether to extend the lease until the release (true).
 * @property {number} [replicas] The grant counts when so many replicas have it; else it is released again, and `NotReplicated` thrown.
 * @property {AbortSignal} [signal] Breaks the wait off.
 */

const OPTIONS = {
  waitMs: check.wait,
  leaseMs: check.ms,
  token: check.short,
  shared: check.flag,
  limit: check.integer,
  session: check.flag,
  extend: check.flag,
  replicas: check.integer,
  /** @returns {AbortSignal} */
  signal(/** @type {string} */ name, /** @type {any} */ value) {
    if (typeof value?.addEventListener !== "function" || typeof value.throwIfAborted !== "function") check.refuse(name, "an AbortSignal", value);
    return value;
  },
};

class Request {
  /** @param {unknown} keys @param {unknown} options */
  constructor(keys, options) {
    const read = check.options(options, OPTIONS);
    this.keys = check.keys(keys);
    this.waitMs = read.waitMs ?? 0;
    this.leaseMs = read.leaseMs ?? 30_000;
    this.ownToken = read.token !== undefined;
    this.token = read.token ?? randomUUID();
    this.shared = read.shared ?? false;
    this.limit = read.limit;
    this.session = read.session ?? false;
    this.extend = read.extend ?? true;
    this.replicas = read.replicas;
    this.signal = read.signal;
    if (this.shared && this.limit !== undefined) throw new TypeError("shared and limit: a lock is asked for in one way or the other");
    if (this.keys.length > 1 && (this.shared || this.limit !== undefined)) {
      throw new TypeError(`${this.shared ? "shared" : "limit"}: several locks are taken together exclusively only`);
    }
  }

  /** What to send. */
  get words() {
    const { keys } = this;
    const words = keys.length > 1 ? ["LOCK.MACQUIRE", `${keys.length}`, ...keys] : ["LOCK.ACQUIRE", keys[0]];
    words.push("TOKEN", this.token, "PX", `${this.leaseMs}`);
    if (this.shared) words.push("SHARED");
    if (this.limit !== undefined) words.push("LIMIT", `${this.limit}`);
    if (this.session) words.push("SESSION");
    return words;
  }
}

/**
 * The requests that are not answered yet. A request may lie in the queue of a client that has no connection, and come to the server
 * when nobody thinks of it any more.
 */
class Pending {
  /** @type {Set<Promise<any>>} */
  #asked = new Set();
  #withdraw;

  /** @param {() => unknown} withdraw takes back what a request has got that came too late */
  constructor(withdraw) {
    this.#withdraw = withdraw;
  }

  /** @template T @param {Promise<T>} asked @returns {Promise<T>} */
  add(asked) {
    this.#asked.add(asked);
    const done = () => this.#asked.delete(asked);
    asked.then(done, done);
    return asked;
  }

  get some() {
    return this.#asked.size > 0;
  }

  /** Waits for what is under way, for so long; what comes after that is withdrawn. @param {number} ms */
  async end(ms) {
    if (!this.some) return;
    await within(Promise.allSettled([...this.#asked]), ms, ignore);
    this.abandon();
  }

  /** Withdraws what comes of the requests that are under way. */
  async abandon() {
    const gone = [...this.#asked].map(async (asked) => (await asked) === null || this.#withdraw());
    await Promise.allSettled(gone);
  }
}

module.exports = { Pending, Request };
