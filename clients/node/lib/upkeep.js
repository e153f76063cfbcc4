// Extends the leases of all holds of this process, by one timer.
//
// A hold is referred to weakly: one that its owner has forgotten is not extended any longer, so its lease ends it.
"use strict";

const { LONGEST } = require("./bounds.js");
const { ignore } = require("./clients.js");
const { ofServer, passes, Lost } = require("./errors.js");

/** What is due within so many milliseconds is done in one go. */
const TOGETHER = 5;

/** @type {Set<Lease>} */
const leases = new Set();
/** @type {NodeJS.Timeout | undefined} */
let timer;
let timerAt = Infinity;

/** The lease of a hold, as far as it is known here, and what extends it. */
class Lease {
  /** When the hold ends, by this process's clock, if it is not extended: the lease counts from before it was last asked for. */
  until = 0;
  #next = Infinity;
  #over = false;
  #claim;
  /** @type {() => void} */
  #unhook = ignore;
  /** @type {WeakRef<import("./hold.js").Hold> | undefined} */
  #hold;

  /**
   * @param {import("./clients.js").KnownClient} client
   * @param {string[]} keys
   * @param {string} token
   * @param {number} fence
   * @param {{ leaseMs: number, extend: boolean, session: boolean }} how
   * @param {import("./claims.js").Claim} claim ends with it
   */
  constructor(client, keys, token, fence, how, claim) {
    this.client = client;
    this.keys = keys;
    this.token = token;
    this.fence = fence;
    this.length = how.leaseMs;
    this.extended = how.extend;
    this.#claim = claim;
    // The server ends it together with the connection.
    if (how.session) this.#unhook = client.onNew(() => this.extend().catch(ignore));
  }

  /** Whether the hold should last still, by this process's clock. */
  get holds() {
    return !this.#over && performance.now() < this.until;
  }

  /** Begins to keep the lease that was granted to a request sent at `since`. @param {import("./hold.js").Hold} hold @param {number} since */
  begin(hold, since) {
    if (this.#over) return;
    this.#hold = new WeakRef(hold);
    forgotten.register(hold, this, this);
    leases.add(this);
    this.#lasts(since);
  }

  /** Ends all that is done for it here. */
  end() {
    if (this.#over) return;
    this.#over = true;
    leases.delete(this);
    forgotten.unregister(this);
    this.#unhook();
    this.#claim.end();
  }

  /** The words of a request about this hold, and no other one of its token. @param {string} verb @param {...string} more */
  words(verb, ...more) {
    return aboutHold(verb, this.keys, this.token, this.fence, ...more);
  }

  /** Asks for the lease anew. @returns {Promise<boolean>} whether it is held still */
  async extend() {
    const sent = performance.now();
    this.#next = sent + this.length / 3;
    const held = Number(await this.client.send(this.keys[0], this.words("EXTEND", "PX", `${this.length}`))) === 1;
    if (held) this.#lasts(sent);
    else this.#lost();
    return held;
  }

  /** @param {number} sent */
  #lasts(sent) {
    if (this.#over) return;
    this.until = sent + this.length;
    this.#next = this.extended ? Math.max(sent + this.length / 3, performance.now()) : Infinity;
    alarm(Math.min(this.until, this.#next));
  }

  #lost() {
    if (this.#over) return;
    this.end();
    this.until = -Infinity;
    this.#hold?.deref()?.[LOST](new Lost(`${this.keys}: the hold has ended`));
  }

  /** Does what is due. @param {number} now @returns {number} when to come again */
  tick(now) {
    if (now >= this.until) {
      this.#lost();
      return Infinity;
    }
    if (now + TOGETHER >= this.#next) {
      this.#next = now + this.length / 3;
      // No answer says nothing; the clock does.
      this.extend().catch((error) => {
        if (!passes(ofServer(error))) return;
        this.#next = Math.min(this.#next, performance.now() + this.length / 20);
        alarm(this.#next);
      });
    }
    return Math.min(this.until, this.#next);
  }

  /** Its owner has forgotten the hold. */
  forget() {
    if (this.#over) return;
    this.end();
    if (!this.extended) return;
    const left = Math.max(Math.ceil(this.until - performance.now()), 0);
    process.emitWarning(`a hold of ${this.keys} was dropped without release(): it is not extended any longer and ends within ${left} ms`, {
      type: "LockstockWarning",
      code: "LOCKSTOCK_DROPPED",
    });
  }
}

/** What a lease calls of its hold. */
const LOST = Symbol("lost");

/** @type {FinalizationRegistry<Lease>} */
const forgotten = new FinalizationRegistry((lease) => lease.forget());

/** Sees to it that the timer goes off by then. @param {number} at */
function alarm(at) {
  if (at >= timerAt) return;
  clearTimeout(timer);
  timerAt = at;
  timer = setTimeout(tick, Math.min(Math.max(at - performance.now(), 0), LONGEST)).unref();
}

function tick() {
  timerAt = Infinity;
  const now = performance.now();
  let next = Infinity;
  for (const lease of leases) next = Math.min(next, lease.tick(now));
  if (next < Infinity) alarm(Math.max(next, now + TOGETHER));
}

/**
 * The words of a request about a hold; with a fence, about this one and no other.
 * @param {string} verb
 * @param {string[]} keys
 * @param {string} token
 * @param {number | undefined} fence
 * @param {...string} more
 */
function aboutHold(verb, keys, token, fence, ...more) {
  const words = keys.length > 1 ? [`LOCK.M${verb}`, token, `${keys.length}`, ...keys] : [`LOCK.${verb}`, keys[0], token];
  return [...words, ...more, ...(fence === undefined ? [] : ["FENCE", `${fence}`])];
}

module.exports = { Lease, LOST, aboutHold };
