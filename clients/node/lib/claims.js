// Which tokens hold which locks here, or wait for them: a token has one hold of a lock, so two requests with it would be inside together.
"use strict";

const { within } = require("./bounds.js");
const { AlreadyHeld, Unreachable } = require("./errors.js");

/** @type {WeakMap<import("./clients.js").KnownClient, Map<string, Claim>>} */
const CLAIMS = new WeakMap();

class Claim {
  #claims;
  #names;
  /** @type {Promise<unknown> | undefined} */
  leaving;

  /** @param {Map<string, Claim>} claims @param {string[]} names */
  constructor(claims, names) {
    this.#claims = claims;
    this.#names = names;
    for (const name of names) claims.set(name, this);
  }

  /** Whether no later one has taken its place: what comes late of this one may be taken back. @returns {boolean} */
  get isLast() {
    return this.#names.every((name) => (this.#claims.get(name) ?? this) === this);
  }

  end() {
    for (const name of this.#names) if (this.#claims.get(name) === this) this.#claims.delete(name);
  }

  /**
   * Ends it when the server has been told, and all that it is being told: what reaches the server after the next request of the token would end
   * that one. @param {Promise<unknown>} told
   */
  leaveAfter(told) {
    for (const name of this.#names) this.#claims.set(name, this);
    /** @type {Promise<unknown>} */
    const leaving = Promise.allSettled([this.leaving, told]).then(() => {
      if (this.leaving === leaving) this.end();
    });
    this.leaving = leaving;
  }
}

/**
 * Claims locks for a token. If the token is just leaving their lines, or being released, the claim comes after that.
 * @param {import("./clients.js").KnownClient} client
 * @param {import("./request.js").Request} request
 * @param {Promise<unknown>} stopped rejects when the request is broken off
 * @returns {Promise<Claim>}
 */
async function claim(client, { keys, token, waitMs }, stopped) {
  const claims = CLAIMS.get(client) ?? new Map();
  CLAIMS.set(client, claims);
  const names = keys.map((key) => JSON.stringify([key, token]));
  for (;;) {
    const other = names.map((name) => claims.get(name)).find((there) => there);
    if (!other) return new Claim(claims, names);
    if (!other.leaving) {
      throw new AlreadyHeld(`${keys}: the token ${token} holds it already or waits for it, and a lock is not reentrant: use another token`);
    }
    const late = () => Promise.reject(new Unreachable(`${keys}: no answer to the end of what the token ${token} asked for last`));
    await Promise.race([within(other.leaving, waitMs + 1_500, late), stopped]);
  }
}

module.exports = { Claim, claim };
