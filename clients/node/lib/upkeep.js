// Extends the leases of all holds of this process, by one timer.
//
// A hold is referred to weakly: one that its owner has forgotten is not extended any longer, so its lease ends it.
"use strict";

const { asOurs } = require("./bounds.js");
const { ignore } = require("./clients.js");
const { now } = require("./clock.js");
const { Lost, Refused, Unreachable, nullIfOther, ofServer, passes } = require("./errors.js");

/** What is due within so many milliseconds is done in one go. */
const TOGETHER = 5;
/** How much sooner a hold ends here than at the server, at most: its owner is told before another has the lock. */
const SOONER = 50;
/** How late a request may arrive, at most: a network that was away brings what it was given. */
const LATE = 60_000;
/** How often to look at the clock, at least: a timer does not know that the machine has slept. */
const LOOK = 1_000;

/** @type {Set<Lease>} */
const leases = new Set();
/** @type {NodeJS.Timeout | undefined} */
let timer;
let timerAt = Infinity;

/** What sets the lease of these locks, by how much, and when it has arrived at the latest. @typedef {{ keys: string[], length: number, until: number }} Setting */

/** Those that may arrive late, by client and token: a token that is named may ask again. @type {WeakMap<object, Map<string, Set<Setting>>>} */
const BEFORE = new WeakMap();
/** Of so many tokens they are remembered. */
const TOKENS = 10_000;

/** The requests of a token that set its lease and may arrive yet, after those that were sent later: then the lease is theirs. */
class Late {
  /** @type {Set<Setting>} */
  #all = new Set();
  #keys;
  #token;
  #tokens;

  /**
   * Those of earlier holds of the token count, too.
   * @param {object} client
   * @param {import("./request.js").Request} request
   */
  constructor(client, { keys, token, ownToken }) {
    this.#keys = keys;
    this.#token = ownToken ? token : undefined;
    this.#tokens = BEFORE.get(client) ?? new Map();
    BEFORE.set(client, this.#tokens);
  }

  /**
   * Sends one. It may arrive yet if it was not answered, and if it was sent again: then the answer may be to the second.
   * @template T
   * @param {{ onCut: (tell: () => void) => () => void }} over
   * @param {number} length
   * @param {() => Promise<T>} send
   */
  async send(over, length, send) {
    const one = { keys: this.#keys, length, until: Infinity };
    forget(this.#all);
    this.#all.add(one);
    let doubtful = false;
    const unhook = over.onCut(() => (doubtful = true));
    try {
      return await send();
    } catch (error) {
      doubtful ||= !(ofServer(error) instanceof Refused);
      throw error;
    } finally {
      unhook();
      if (doubtful) this.#remember(one);
      else this.#all.delete(one);
    }
  }

  /** How much of a lease counts that was asked for at that time. @param {number} length @param {number} sent */
  counts(length, sent) {
    for (const one of [...this.#all, ...this.#before]) {
      if (one.until >= sent && one.keys.some((key) => this.#keys.includes(key))) length = Math.min(length, one.length);
    }
    return length;
  }

  /** @returns {Set<Setting>} */
  get #before() {
    return (this.#token !== undefined && this.#tokens.get(this.#token)) || new Set();
  }

  /** @param {Setting} one */
  #remember(one) {
    one.until = now() + LATE;
    if (this.#token === undefined) return;
    const all = this.#before.add(one);
    forget(all);
    // The latest come last.
    this.#tokens.delete(this.#token);
    this.#tokens.set(this.#token, all);
    const [oldest] = this.#tokens.keys();
    if (this.#tokens.size > TOKENS) this.#tokens.delete(oldest);
  }
}

/** Forgets those that are over: until then they count for what was sent before. @param {Set<Setting>} all */
function forget(all) {
  for (const one of all) if (one.until + LATE < now()) all.delete(one);
}

/** The lease of a hold, as far as it is known here, and what extends it. */
class Lease {
  /** When the hold ends, by this process's clock, if it is not extended: the lease counts from before it was last asked for. */
  until = 0;
  /** Why it could not be extended, since it was for the last time. @type {Error | undefined} */
  trouble;
  /** The length of the lease that the server has granted last. */
  #granted = 0;
  #next = Infinity;
  #over = false;
  #claim;
  #late;
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
   * @param {Late} late
   */
  constructor(client, keys, token, fence, how, claim, late) {
    this.client = client;
    this.keys = keys;
    this.token = token;
    this.fence = fence;
    this.length = how.leaseMs;
    this.extended = how.extend;
    this.#claim = claim;
    this.#late = late;
    // The server ends it together with the connection, and grants the lock to the next.
    if (how.session) this.#unhook = client.onLoss(keys[0], () => this.#giveUp());
  }

  /** Whether the hold should last still, by this process's clock. */
  get holds() {
    return !this.#over && now() < this.until;
  }

  /** Whether no later hold of its token has its place: that one may have its fence. */
  get isLast() {
    return this.#claim.isLast;
  }

  /** Begins to keep the lease that was granted to a request sent at `since`. @param {import("./hold.js").Hold} hold @param {number} since */
  begin(hold, since) {
    if (this.#over) return;
    this.#hold = new WeakRef(hold);
    forgotten.register(hold, this, this);
    leases.add(this);
    this.#lasts(since, this.length);
  }

  /**
   * Ends all that is done for it here. Its token may ask anew when the server has been told: sooner, it would renew this hold.
   * @param {Promise<unknown>} [told]
   */
  end(told) {
    if (told) this.#claim.leaveAfter(told);
    if (this.#over) return;
    this.#over = true;
    leases.delete(this);
    forgotten.unregister(this);
    this.#unhook();
    if (!told) this.#claim.end();
  }

  /** The words of a request about this hold, and no other one of its token. @param {string} verb @param {...string} more */
  words(verb, ...more) {
    return aboutHold(verb, this.keys, this.token, this.fence, ...more);
  }

  /** Asks for the lease anew. @returns {Promise<boolean>} whether it is held still */
  async extend() {
    const sent = now();
    const { length } = this;
    // A shorter lease counts from now on: its answer may be lost.
    this.until = Math.min(this.until, sent + lasting(length));
    this.#extendAt(sent + this.#part(3));
    const about = `extending ${this.keys}`;
    this.trouble ??= new Unreachable(`${about}: no answer`);
    try {
      const asked = this.#late.send(this.client, length, () => this.client.send(this.keys[0], this.words("EXTEND", "PX", `${length}`)));
      const held = Number(await asked.catch(nullIfOther)) === 1;
      this.trouble = undefined;
      if (held) this.#lasts(sent, length);
      else this.lose();
      // What was lost by the clock, and given up, stays so.
      return held && !this.#over;
    } catch (error) {
      this.trouble = asOurs(error, about);
      // No answer says nothing; the clock does.
      if (passes(ofServer(error))) this.#extendAt(Math.min(this.#next, now() + this.#part(20)));
      throw error;
    }
  }

  /** @param {number} sent @param {number} length */
  #lasts(sent, length) {
    if (this.#over) return;
    this.until = sent + lasting(this.#late.counts(Math.min(length, this.length), sent));
    this.#granted = length;
    this.#extendAt(sent + this.#part(3));
  }

  /** A part of the lease. A longer lease counts when the server has granted it. @param {number} of */
  #part(of) {
    return this.#late.counts(Math.min(this.length, this.#granted), now()) / of;
  }

  /** @param {number} at */
  #extendAt(at) {
    if (this.#over) return;
    if (this.extended) this.#next = at;
    alarm(Math.min(this.until, this.#next));
  }

  /** It is over here, and for the server it may not be: then a request of its token would renew it. So the server is told. */
  #giveUp() {
    if (!this.#over) this.lose(release(this.client, this.keys, this.token, this.fence));
  }

  /** The hold has ended before its release. @param {Promise<unknown>} [told] */
  lose(told) {
    if (this.#over) return;
    this.end(told);
    this.until = -Infinity;
    this.#hold?.deref()?.[LOST](new Lost(`${this.keys}: the hold has ended`, { cause: this.trouble }));
  }

  /** Does the due work. @param {number} time @returns {number} when to come again */
  tick(time) {
    if (time >= this.until) {
      this.#giveUp();
      return Infinity;
    }
    if (time + TOGETHER >= this.#next) this.extend().catch(ignore);
    return Math.min(this.until, this.#next);
  }

  /** Its owner has forgotten the hold. */
  forget() {
    if (this.#over) return;
    this.end();
    if (!this.extended) return;
    const left = Math.max(Math.ceil(this.until - now()), 0);
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

/** How much of a lease counts here. @param {number} length */
const lasting = (length) => length - Math.min(length / 20, SOONER);

/** Sees to it that the timer goes off by then. @param {number} at */
function alarm(at) {
  if (at >= timerAt) return;
  clearTimeout(timer);
  timerAt = at;
  timer = setTimeout(tick, Math.min(Math.max(at - now(), 0), LOOK)).unref();
}

function tick() {
  timerAt = Infinity;
  const time = now();
  let next = Infinity;
  for (const lease of leases) next = Math.min(next, lease.tick(time));
  if (next < Infinity) alarm(Math.max(next, time + TOGETHER));
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

/**
 * Releases a hold, or what there is of its token. If one of its locks has another value, none is released together: then each is by itself.
 * @param {import("./clients.js").KnownClient} client
 * @param {string[]} keys
 * @param {string} token
 * @param {number} [fence]
 * @returns {Promise<number>} how many were released together
 */
async function release(client, keys, token, fence) {
  const reply = await client.send(keys[0], aboutHold("RELEASE", keys, token, fence)).catch(nullIfOther);
  if (reply === null && keys.length > 1) await Promise.all(keys.map((key) => release(client, [key], token, fence)));
  return Number(reply);
}

module.exports = { Late, Lease, LOST, aboutHold, lasting, release };
