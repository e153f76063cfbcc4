// A lock that is held.
"use strict";

const { setTimeout: sleep } = require("node:timers/promises");

const { ANSWER_MS, ask, asOurs, within } = require("./bounds.js");
const check = require("./check.js");
const { ignore } = require("./clients.js");
const { now } = require("./clock.js");
const { Lost, ModuleMissing, NotHeld, NotReleased, Refused, Unreachable, nullIfOther, ofServer, passesForRelease } = require("./errors.js");
const { fields, text } = require("./reply.js");
const { LOST, release } = require("./upkeep.js");

/** How long to wait before a release is sent again. */
const PAUSE = 50;
/** Keeps a hold alive as long as its signal. */
const HOLD = Symbol("hold");

/** A lock that is held, or several together. */
class Hold {
  #lease;
  #pending;
  #lost = new AbortController();
  /** @type {Promise<boolean> | undefined} */
  #released;

  /**
   * @param {import("./upkeep.js").Lease} lease
   * @param {import("./request.js").Pending} pending
   * @param {number} since when the request was sent that was granted
   */
  constructor(lease, pending, since) {
    this.#lease = lease;
    this.#pending = pending;
    Object.defineProperty(this.#lost.signal, HOLD, { value: this });
    lease.begin(this, since);
  }

  /** The locks, each once. @returns {string[]} */
  get keys() {
    return [...this.#lease.keys];
  }

  /** @returns {string} */
  get token() {
    return this.#lease.token;
  }

  /** A number larger than that of every grant before: let the resource that you write refuse smaller fences. @returns {number} */
  get fence() {
    return this.#lease.fence;
  }

  /**
   * Is aborted when the hold has ended before its release, or may have, and some milliseconds before another may have the lock because the
   * lease could not be extended; then the `cause` of the reason says why it could not. An event, and something to hand on to `fetch`.
   * @returns {AbortSignal}
   */
  get lost() {
    return this.#lost.signal;
  }

  /** Whether the hold lasts still, by this process's clock: it was not released, and the lease since it was last asked for is not over. */
  get held() {
    return this.#lease.holds;
  }

  /**
   * Whether the hold lasts still, by the server's word.
   * @returns {Promise<boolean>}
   */
  async owned() {
    const { client, keys, token, fence } = this.#lease;
    const locks = await Promise.all(keys.map((key) => ask(client, key, ["LOCK.INFO", key]).catch(nullIfOther)));
    const isOurs = (/** @type {any} */ row) => text(fields(row)?.token) === token && Number(fields(row)?.fence) === fence;
    const owned = locks.every((lock) => fields(lock)?.holders.some(isOurs));
    if (!owned) this.#lease.lose();
    return owned;
  }

  /**
   * Lets the lease end so long from now, and has it extended by as much from here on; without a time, by as much as before.
   * @param {number} [leaseMs]
   * @returns {Promise<boolean>} false: the hold has ended
   */
  async extend(leaseMs) {
    const lease = this.#lease;
    if (leaseMs !== undefined) lease.length = check.ms("leaseMs", leaseMs);
    if (this.#released || this.lost.aborted) return false;
    const about = `extending ${lease.keys}`;
    const late = () => Promise.reject(new Unreachable(`${about}: no answer within ${ANSWER_MS} ms`));
    try {
      return await within(lease.extend(), ANSWER_MS, late);
    } catch (error) {
      throw asOurs(error, about);
    }
  }

  /**
   * Runs a command in the step in which the server has seen that the hold lasts (LOCK.GUARD). Of several locks it looks at the first.
   * @param {string} command
   * @param {...(string | number | Buffer)} args
   * @returns {Promise<any>} the reply of the command
   * @throws {NotHeld} the hold has ended, and the command did not run
   */
  async execute(command, ...args) {
    const { client, keys, token, fence } = this.#lease;
    try {
      return await guard(client, keys[0], token, fence, command, args);
    } catch (error) {
      if (error instanceof NotHeld) this.#lease.lose();
      throw error;
    }
  }

  /**
   * Ends the hold, once: later calls get the same answer.
   * @returns {Promise<boolean>} false: it had ended before
   * @throws {NotReleased} the server did not answer: the lease ends it
   */
  release() {
    this.#released ??= this.#release();
    return this.#released;
  }

  /** For `await using`. @throws {Lost} it had ended before */
  async [Symbol.asyncDispose]() {
    if (!(await this.release())) throw this.#wasLost();
  }

  /** @param {Lost} reason */
  [LOST](reason) {
    this.#lost.abort(reason);
  }

  async #release() {
    const lease = this.#lease;
    const left = lease.holds ? lease.until - now() : 0;
    let told = Promise.resolve(false);
    // Else a later hold of its token has its place.
    if (lease.isLast) lease.end((told = this.#tell(now() + ANSWER_MS)));
    if (left > 0) {
      const limit = Math.min(left, ANSWER_MS);
      const ends = left > limit ? `its lease ends it in ${Math.ceil(left - limit)} ms` : "its lease has ended it";
      const late = () => Promise.reject(new NotReleased(`${lease.keys}: no answer to the release within ${Math.ceil(limit)} ms; ${ends}`));
      return within(told, limit, late);
    }
    told.catch(ignore);
    if (!this.lost.aborted) this.#lost.abort(this.#wasLost());
    return false;
  }

  /** Releases it at the server, again and again until there is an answer. @param {number} deadline @returns {Promise<boolean>} */
  async #tell(deadline) {
    const { client, keys, token, fence } = this.#lease;
    let doubtful = false;
    const unhook = client.onNew(() => (doubtful = true));
    try {
      // What was asked twice, after a reconnect, must not come to the server after this: in a cluster it may be redirected.
      await this.#pending.end(deadline - now());
      for (;;) {
        try {
          const count = await release(client, keys, token, fence);
          if (count === keys.length) return true;
          // What was lost of it was not lost by a release, which ends all of it.
          if (count > 0 || !doubtful) return false;
          throw new NotReleased(`${keys}: it has ended, but perhaps not by this release, which was sent again over a new connection`);
        } catch (error) {
          const ours = ofServer(error);
          if (!passesForRelease(ours)) throw ours;
          if (client.closed()) throw new NotReleased(`${keys}: ${client.closed()}; the lease ends it`, { cause: error });
          if (now() > deadline) throw new NotReleased(`${keys}: no answer to the release; its lease ends it`, { cause: error });
        }
        doubtful = true;
        await sleep(PAUSE);
      }
    } finally {
      unhook();
    }
  }

  #wasLost() {
    const { keys, trouble } = this.#lease;
    return new Lost(`${keys}: the hold had ended before it was released`, { cause: trouble });
  }
}

/**
 * @param {import("./clients.js").KnownClient} client
 * @param {string} key
 * @param {string} token
 * @param {number | undefined} fence
 * @param {string} command
 * @param {(string | number | Buffer)[]} args
 * @returns {Promise<any>}
 */
async function guard(client, key, token, fence, command, args) {
  check.word("command", command);
  const words = args.map((arg, at) => {
    if (Buffer.isBuffer(arg) || typeof arg === "string") return arg;
    if (typeof arg === "number" || typeof arg === "bigint") return `${arg}`;
    return check.refuse(`argument ${at + 1} of ${command}`, "a string, a number or a Buffer", arg);
  });
  const fenced = fence === undefined ? [] : ["FENCE", `${fence}`];
  try {
    return await ask(client, key, ["LOCK.GUARD", key, token, ...fenced, command, ...words]);
  } catch (error) {
    // The command's own errors are passed on as the client has them.
    const isOurs = !(error instanceof Refused) || error instanceof NotHeld || error instanceof ModuleMissing;
    throw isOurs ? error : error.cause;
  }
}

module.exports = { Hold, guard };
