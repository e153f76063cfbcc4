// Locks: what to ask for them, and what to do while they are held.
"use strict";

const { AsyncLocalStorage } = require("node:async_hooks");

const { Acquisition } = require("./acquisition.js");
const { ANSWER_MS, ask, within } = require("./bounds.js");
const check = require("./check.js");
const { ignore, known } = require("./clients.js");
const { now } = require("./clock.js");
const { AlreadyHeld, Closed, NotGranted, NotReleased } = require("./errors.js");
const { guard } = require("./hold.js");
const { Listener } = require("./listener.js");
const { fields, text } = require("./reply.js");
const { Request } = require("./request.js");
const { aboutHold } = require("./upkeep.js");

/** @typedef {import("./request.js").LockOptions} LockOptions */
/** @typedef {import("./hold.js").Hold} Hold */
/** @typedef {import("./clients.js").RedisClient} RedisClient */

/** Which hold is meant: that of a token, and with a fence this one and no other. @typedef {{ token: string, fence?: number }} Which */

/**
 * @typedef {object} LockInfo
 * @property {"exclusive" | "shared" | "limit" | "free"} mode free: there are only waiters
 * @property {number} limit the largest that is held, else 0
 * @property {{ token: string, fence: number, leaseMs: number, session: boolean }[]} holders
 * @property {{ token: string, mode: string, waitedMs: number, waitLeftMs: number, client: number }[]} waiters the first hundred
 * @property {number} waiting how many there are
 */

/** @typedef {{ client: import("./clients.js").KnownClient, hold: Hold, outer: Task | undefined }} Task */

/** What a task holds by `using`, and what its callers do. @type {AsyncLocalStorage<Task>} */
const task = new AsyncLocalStorage();

const WHICH = { token: check.short, fence: check.integer };

/** Asks for locks. One for each client is enough; any number of tasks may use it. */
class Locks {
  #client;
  #listener;
  /** @type {Set<Acquisition>} */
  #asking = new Set();
  #closed = false;

  /**
   * @param {RedisClient} client of ioredis or node-redis, connected; of one server, a cluster or Sentinel
   * @param {never[]} more
   */
  constructor(client, ...more) {
    check.noOptions(more[0]);
    this.#client = known(client);
    this.#listener = new Listener(this.#client);
  }

  /**
   * Runs `work` while the lock is held, or all of several locks.
   * @template T
   * @overload
   * @param {string | readonly string[]} keys
   * @param {(hold: Hold) => Promise<T> | T} work
   * @returns {Promise<T>}
   */
  /**
   * Runs `work` while the lock is held, or all of several locks.
   * @template T
   * @overload
   * @param {string | readonly string[]} keys
   * @param {LockOptions} options
   * @param {(hold: Hold) => Promise<T> | T} work
   * @returns {Promise<T>} what the work returns
   * @throws {NotGranted} before the work, and {Lost} or {NotReleased} after it
   */
  /**
   * @param {string | readonly string[]} keys
   * @param {any} options
   * @param {any} [work]
   */
  async using(keys, options = {}, work) {
    if (work === undefined && typeof options === "function") return this.using(keys, {}, options);
    if (typeof work !== "function") check.refuse("work", "a function", work);
    const hold = await this.acquire(keys, options);
    if (!hold) throw new NotGranted(`${keys}: not granted within ${options.waitMs ?? 0} ms`);
    let result;
    try {
      result = await task.run({ client: this.#client, hold, outer: task.getStore() }, work, hold);
    } catch (error) {
      await hold.release().catch(ignore);
      throw error;
    }
    try {
      await hold[Symbol.asyncDispose]();
    } catch (error) {
      if (error instanceof NotReleased) error.result = result;
      throw error;
    }
    return result;
  }

  /**
   * Takes the lock, or all of several locks. The hold belongs to no task: one that has a lock by this, and asks for it again, waits for itself.
   * @param {string | readonly string[]} keys
   * @param {LockOptions} [options]
   * @returns {Promise<Hold | null>} null: not granted within the wait
   * @throws {import("./errors.js").Unreachable} the server did not answer within the wait
   */
  async acquire(keys, options = {}) {
    const begun = now();
    const request = new Request(keys, options);
    request.signal?.throwIfAborted();
    this.#refuseNested(request.keys);
    if (this.#closed) throw new Closed("these Locks are closed");
    const acquisition = new Acquisition(this.#client, this.#listener, request, begun);
    this.#asking.add(acquisition);
    try {
      return await acquisition.run();
    } finally {
      this.#asking.delete(acquisition);
    }
  }

  /** Whether a token holds the lock. @param {string} key @returns {Promise<boolean>} */
  async locked(key) {
    const info = await this.info(key);
    return info !== null && info.holders.length > 0;
  }

  /** The holders of the lock, and its waiters; null if there are none. @param {string} key @returns {Promise<LockInfo | null>} */
  async info(key) {
    const found = fields(await ask(this.#client, check.word("key", key), ["LOCK.INFO", key]));
    if (!found) return null;
    const holders = found.holders.map((/** @type {any} */ row) => {
      const { token, fence, "lease-ms": leaseMs, session } = /** @type {any} */ (fields(row));
      return { token: text(token), fence: Number(fence), leaseMs: Number(leaseMs), session: text(session) === "yes" };
    });
    const waiters = found.waiters.map((/** @type {any} */ row) => {
      const { token, mode, "waited-ms": waited, "wait-left-ms": left, client } = /** @type {any} */ (fields(row));
      return { token: text(token), mode: text(mode), waitedMs: Number(waited), waitLeftMs: Number(left), client: Number(client) };
    });
    const mode = /** @type {LockInfo["mode"]} */ (text(found.mode));
    return { mode, limit: Number(found.limit), holders, waiters, waiting: Number(found.waiting) };
  }

  /**
   * Ends a hold that was taken elsewhere. Without its fence also the wait of its token.
   * @param {string | readonly string[]} keys
   * @param {Which} which
   * @returns {Promise<number>} of how many of the locks
   */
  async release(keys, which) {
    const { all, token, fence } = read(keys, which);
    return Number(await ask(this.#client, all[0], aboutHold("RELEASE", all, token, fence)));
  }

  /**
   * Lets the lease of a hold that was taken elsewhere end so long from now.
   * @param {string | readonly string[]} keys
   * @param {Which} which
   * @param {number} leaseMs
   * @returns {Promise<boolean>} false: there is no such hold
   */
  async extend(keys, which, leaseMs) {
    const { all, token, fence } = read(keys, which);
    const words = aboutHold("EXTEND", all, token, fence, "PX", `${check.ms("leaseMs", leaseMs)}`);
    return Number(await ask(this.#client, all[0], words)) === 1;
  }

  /**
   * Runs a command in the step in which the server has seen that there is such a hold (LOCK.GUARD).
   * @param {string} key
   * @param {Which} which
   * @param {string} command
   * @param {...(string | number | Buffer)} args
   * @returns {Promise<any>} the reply of the command
   * @throws {import("./errors.js").NotHeld} there is no such hold, and the command did not run
   */
  async guard(key, which, command, ...args) {
    const { all, token, fence } = read(check.word("key", key), which);
    return guard(this.#client, all[0], token, fence, command, args);
  }

  /** Breaks the waits off, which throw `Closed`, and ends the second connection. Holds stay, and are extended until their release. */
  async close() {
    this.#closed = true;
    const asking = [...this.#asking];
    for (const acquisition of asking) acquisition.stop(new Closed("these Locks were closed"));
    await within(Promise.allSettled(asking.map(({ outcome }) => outcome)), ANSWER_MS, ignore);
    this.#listener.close();
  }

  /** For `await using`. */
  async [Symbol.asyncDispose]() {
    await this.close();
  }

  /** @param {string[]} keys */
  #refuseNested(keys) {
    for (let at = task.getStore(); at; at = at.outer) {
      const { client, hold } = at;
      const both = client === this.#client && hold.held && hold.keys.find((key) => keys.includes(key));
      if (both) throw new AlreadyHeld(`${both}: this task is inside already, and a lock is not reentrant: hand the hold on, or release it before`);
    }
  }
}

check.noOptionsAfter(Locks, { acquire: 2, locked: 1, info: 1, release: 2, extend: 3 });

/** @param {unknown} keys @param {unknown} which */
function read(keys, which) {
  const all = check.keys(keys);
  const { token, fence } = check.options(which, WHICH);
  return { all, token: check.short("token", token), fence };
}

module.exports = { Locks };
