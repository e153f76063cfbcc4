// Asks for a lock until it is granted or refused, or the time is over.
//
// - Every request carries a token, so it may be sent again when its reply was lost. Both libraries do so after a reconnect.
// - Both send everything over one connection, where a parked request would hold up all others, its own release included. So waits
//   go by NOTIFY: the answer comes at once, and what becomes of the request over a second connection, which subscribes.
// - A message comes once or never. After a reconnect of either connection every waiter asks again, and is told where it stands.
// - A message may have been under way for long. So a grant of which it tells is extended before it counts.
// - A wait that is broken off is withdrawn: else its token would get the lock and nobody would know.
"use strict";

const { setMaxListeners } = require("node:events");
const { setTimeout: sleep } = require("node:timers/promises");

const { ANSWER_MS, after, asOurs, within } = require("./bounds.js");
const { claim } = require("./claims.js");
const { ignore } = require("./clients.js");
const { now } = require("./clock.js");
const { Closed, Unreachable, NotReplicated, Refused, ofServer, passes, passesForRelease } = require("./errors.js");
const { Hold } = require("./hold.js");
const { Pending } = require("./request.js");
const { Late, Lease, aboutHold, lasting, release } = require("./upkeep.js");

/** How long after the wait to ask for the last time: the message that it is over may have been lost. */
const LAST_MS = 500;
/** How long after the wait to give up. */
const GRACE_MS = 1_500;
/** How long to wait before asking a server again that could not answer: at first, and at most. */
const PAUSES_MS = [50, 500];
/** How often to ask again where nothing was heard. */
const DOUBT_MS = 10_000;
/** How long to wait until messages would be heard, at most, and how often to ask while none would: in a cluster, any node may bring them. */
const HEARING_MS = 1_000;
/** How long to wait for the replicas, at most. */
const REPLICAS_MS = 1_000;
/** How long a caller that breaks a wait off is kept until the server knows. */
const FAREWELL_MS = 50;

/** @typedef {{ event: "granted" | "timeout" | "failed", token: string, keys: string[], fence: number, error: string }} Said */

class Acquisition {
  /** What came of it: null if it was not granted. @type {Promise<Hold | null>} */
  outcome;
  #client;
  #listener;
  /** @type {import("./claims.js").Claim | undefined} */
  #claim;
  /** @type {(hold: Hold | null) => void} */
  #resolve;
  /** @type {(error: any) => void} */
  #reject;
  #pending;
  #late;
  #end;
  #pause = PAUSES_MS[0];
  #over = false;
  #replicating = false;
  /** How often the server was asked: once it was, a later no does not say that the token neither waits nor holds. */
  #asked = 0;
  /** @type {any} */
  #problem;
  /** Calls off what was to be asked again. */
  #callOff = ignore;
  /** @type {(() => void)[]} */
  #cleanup = [];

  /**
   * @param {import("./clients.js").KnownClient} client
   * @param {import("./listener.js").Listener} listener
   * @param {import("./request.js").Request} request
   * @param {number} begun
   */
  constructor(client, listener, request, begun) {
    this.#client = client;
    this.#listener = listener;
    this.request = request;
    this.waits = request.waitMs > 0;
    this.channel = this.waits ? listener.channel(request.ownToken) : "";
    this.#end = begun + request.waitMs;
    this.#pending = new Pending(() => this.#withdraw());
    this.#late = new Late(client, request);
    /** @type {any} */
    let settle;
    this.outcome = new Promise((resolve, reject) => (settle = { resolve, reject }));
    this.#resolve = (hold) => this.#finish(settle.resolve, hold);
    this.#reject = (error) => this.#finish(settle.reject, error);
  }

  /** @returns {Promise<Hold | null>} */
  async run() {
    const { signal } = this.request;
    if (signal) this.#stopOn(signal);
    try {
      this.#claim = await claim(this.#client, this.request, this.outcome);
      this.#begin();
    } catch (error) {
      this.#reject(error);
    }
    try {
      const hold = await this.outcome;
      // It may still have some of them, for it may have been granted all of them before.
      if (!hold) await this.#leave(this.request.keys.length > 1 && this.#asked > 1);
      return hold;
    } catch (error) {
      // The server's no to the only request means that the token neither waits nor has got anything.
      const no = error instanceof Refused && !this.#pending.some;
      // A hold in another mode was taken elsewhere.
      const isOther = error instanceof Refused && error.message.includes("the token holds this lock in another mode");
      await this.#leave(this.#asked > (no ? 1 : 0) && !isOther);
      throw error;
    }
  }

  #begin() {
    if (this.#over) return;
    const { waitMs } = this.request;
    this.#cleanup.push(after(this.#end + GRACE_MS - now(), () => this.#giveUp()));
    // ioredis asks by itself again over the new connection.
    this.#cleanup.push(this.#client.onNew(() => this.#pending.some && this.#asked++));
    if (this.waits) {
      this.#cleanup.push(after(this.#end + LAST_MS - now(), () => this.ask()));
      if (waitMs > DOUBT_MS) {
        // A message may have come to nobody, while a connection was made anew.
        const doubt = setInterval(() => this.askOnce(), DOUBT_MS);
        this.#cleanup.push(() => clearInterval(doubt));
      }
    }
    this.ask();
  }

  /** Asks, unless it has asked and was not answered. */
  askOnce() {
    if (!this.#pending.some) this.ask();
  }

  /** Asks, or asks again: the token finds its place, or its grant. */
  async ask() {
    if (this.#over) return;
    const closed = this.#client.closed();
    if (closed) return this.stop(new Closed(`${this.request.keys}: ${closed}`));
    try {
      const left = this.#end - now();
      const words = this.request.words;
      let hears = true;
      if (this.waits && left > 0) {
        hears = await within(this.#listener.hear(this).then(() => true), HEARING_MS, () => false);
        words.push("WAIT", left === Infinity ? "0" : `${Math.ceil(left)}`, "NOTIFY", this.channel);
      }
      if (this.#over) return;
      const sent = now();
      this.#asked++;
      const reply = await this.#pending.add(this.#send(words));
      this.#pause = PAUSES_MS[0];
      this.#problem = undefined;
      if (Array.isArray(reply)) await this.#granted(Number(reply[1]), sent);
      else if (reply === null) this.#resolve(null);
      // Else it is the place in line.
      else if (!hears) this.#askAgain(HEARING_MS);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {Said} said */
  async hear(said) {
    if (said.event === "timeout") return this.#resolve(null);
    // REPLACED by what was asked again from here.
    if (said.event === "failed") return /^REPLACED/.test(said.error) || this.#fail(new Error(said.error));
    try {
      const { keys, token, leaseMs } = this.request;
      const sent = now();
      this.#asked++;
      const words = aboutHold("EXTEND", keys, token, said.fence, "PX", `${leaseMs}`);
      const held = Number(await this.#send(words)) === 1;
      if (held) await this.#granted(said.fence, sent);
      else this.ask();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Sends what sets the lease. @param {string[]} words */
  #send(words) {
    const { keys, leaseMs } = this.request;
    return this.#late.send(this.#client, leaseMs, () => this.#client.send(keys[0], words));
  }

  /** Breaks it off. @param {any} reason */
  stop(reason) {
    this.#reject(reason);
  }

  /** @param {number} fence @param {number} since */
  async #granted(fence, since) {
    if (this.#over) return;
    const { keys, token, leaseMs, replicas, session } = this.request;
    if (replicas !== undefined) {
      const asked = now();
      let ended = false;
      // The replicas are asked over another connection, which outlasts that of the session.
      const unhook = session ? this.#client.onLoss(keys[0], () => (ended = true)) : ignore;
      const reached = await this.#replicate(fence, replicas).finally(unhook);
      if (ended) throw new Error("the session has ended before its replicas had it");
      if (reached < replicas) return this.#reject(new NotReplicated(`${keys}: granted, but only ${reached} of ${replicas} replicas have it`));
      if (this.#over) return;
      since = asked;
    }
    // The way took longer than the lease, or this process was kept from its work.
    if (now() >= since + lasting(leaseMs)) throw new Error("the lease was over when its grant came");
    const lease = new Lease(this.#client, keys, token, fence, this.request, /** @type {import("./claims.js").Claim} */ (this.#claim), this.#late);
    this.#resolve(new Hold(lease, this.#pending, since));
  }

  /**
   * How many replicas have the grant. A WAIT holds its connection up, so it has one of its own; and as it waits for what this connection
   * has written, the lease is extended there.
   * @param {number} fence @param {number} replicas @returns {Promise<number>}
   */
  async #replicate(fence, replicas) {
    const { keys, token, leaseMs } = this.request;
    this.#replicating = true;
    this.#asked++;
    const apart = await this.#client.apart(keys[0]);
    let end = () => {
      end = ignore;
      apart.end();
    };
    this.#cleanup.push(() => end());
    try {
      if (this.#over) return 0;
      const ms = Math.min(REPLICAS_MS, Math.max(Math.ceil(this.#end + GRACE_MS - now()) - 100, 1));
      const extend = aboutHold("EXTEND", keys, token, fence, "PX", `${leaseMs}`);
      const extended = this.#late.send(apart, leaseMs, () => apart.send(extend));
      const [held, reached] = await Promise.all([extended, apart.send(["WAIT", `${replicas}`, `${ms}`])]);
      if (Number(held) !== 1) throw new Error("the hold has ended before its replicas had it");
      return Number(reached);
    } finally {
      // With the attempt and not with the wait: behind Sentinel, it may be the only connection that a client of node-redis has.
      end();
    }
  }

  /** @param {any} error */
  #fail(error) {
    if (this.#over) return;
    const ours = ofServer(error);
    if (this.waits && passes(ours) && now() < this.#end + GRACE_MS) {
      this.#problem = error;
      this.#askAgain(this.#pause);
      this.#pause = Math.min(2 * this.#pause, PAUSES_MS[1]);
    } else {
      this.#reject(asOurs(error, `${this.request.keys}`));
    }
  }

  #askAgain(/** @type {number} */ ms) {
    this.#callOff();
    if (!this.#over) this.#callOff = after(ms, () => this.ask());
  }

  #giveUp() {
    const { keys, waitMs, replicas } = this.request;
    if (this.#replicating) return this.#reject(new NotReplicated(`${keys}: granted, but ${replicas} replicas have not said in time that they have it`));
    if (this.#problem) return this.#reject(asOurs(this.#problem, `${keys}`));
    this.#reject(new Unreachable(`${keys}: no answer within ${Math.ceil(waitMs + GRACE_MS)} ms`));
  }

  /** @param {AbortSignal} signal */
  #stopOn(signal) {
    const stop = () => this.#reject(signal.reason);
    if (signal.aborted) stop();
    // One signal may end any number of waits.
    if (signal instanceof EventTarget) setMaxListeners(0, signal);
    signal.addEventListener("abort", stop);
    this.#cleanup.push(() => signal.removeEventListener("abort", stop));
  }

  /** @param {(result: any) => void} settle @param {any} result */
  #finish(settle, result) {
    if (this.#over) return;
    this.#over = true;
    settle(result);
    if (this.waits) this.#listener.forget(this);
    this.#callOff();
    for (const end of this.#cleanup.splice(0)) end();
  }

  /**
   * Leaves the line, or gives back what was granted meanwhile: in the background, if the server does not answer at once.
   * @param {boolean} has whether the token may wait there or have been granted something
   */
  async #leave(has) {
    const claim = this.#claim;
    if (!claim) return;
    claim.leaveAfter(Promise.allSettled([has && this.#withdraw(), this.#pending.abandon()]));
    if (has) await within(/** @type {Promise<void>} */ (claim.leaving), FAREWELL_MS, ignore);
  }

  /** For a server out of reach the lease does it, or the end of the connection; for one that the token has asked since, its next request. */
  async #withdraw() {
    const { keys, token } = this.request;
    const deadline = now() + ANSWER_MS;
    while (!this.#client.closed() && this.#claim?.isLast) {
      try {
        return await release(this.#client, keys, token);
      } catch (error) {
        if (!passesForRelease(ofServer(error)) || now() > deadline) throw error;
      }
      await sleep(PAUSES_MS[0]);
    }
  }
}

module.exports = { Acquisition };
