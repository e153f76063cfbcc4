// Hears how waits end: one connection for all of them, opened by the first.
"use strict";

const { randomUUID } = require("node:crypto");

const { ignore } = require("./clients.js");

/** What tells one wait from all others: the keys in any order, and for tokens that are used again a channel of its own. */
const nameOf = (/** @type {string} */ channel, /** @type {string} */ token, /** @type {string[]} */ keys) =>
  JSON.stringify([channel, token, [...keys].sort()]);

/**
 * What a message says. Anybody may have published it, so what is not as the server has it is passed over.
 * @param {string} text
 * @returns {import("./acquisition.js").Said | undefined}
 */
function read(text) {
  try {
    const { event, token, key, keys = [key], fence = 1, error = "" } = JSON.parse(text);
    const isText = [event, token, error, ...keys].every((part) => typeof part === "string");
    return isText && Number.isSafeInteger(fence) && fence > 0 ? { event, token, keys, fence, error } : undefined;
  } catch {
    return undefined;
  }
}

class Listener {
  #client;
  #channel = `lockstock:${randomUUID()}`;
  #channels = 0;
  /** @type {Map<string, import("./acquisition.js").Acquisition>} */
  #waiting = new Map();
  /** @type {import("./clients.js").Ear | undefined} */
  #ear;
  #unhook = ignore;

  /** @param {import("./clients.js").KnownClient} client */
  constructor(client) {
    this.#client = client;
  }

  get waiting() {
    return [...this.#waiting.values()];
  }

  /**
   * The channel for a wait. A token of the caller's may have waited for the same lock a moment ago: what is said of that wait
   * must not be taken for this one's, so it has a channel of its own.
   * @param {boolean} ownToken
   */
  channel(ownToken) {
    return ownToken ? `${this.#channel}:${++this.#channels}` : this.#channel;
  }

  /**
   * Passes on what is heard on this channel, from the end of the promise on.
   * @param {import("./acquisition.js").Acquisition} wait
   */
  async hear(wait) {
    const { channel, request } = wait;
    this.#waiting.set(nameOf(channel, request.token, request.keys), wait);
    const ear = this.#open();
    await ear.ready;
    if (channel !== this.#channel && this.#waits(wait)) await ear.add(channel);
  }

  /** @param {import("./acquisition.js").Acquisition} wait */
  forget(wait) {
    if (!this.#waits(wait)) return;
    const { channel, request } = wait;
    this.#waiting.delete(nameOf(channel, request.token, request.keys));
    if (channel !== this.#channel) this.#ear?.remove(channel);
  }

  /** @param {import("./acquisition.js").Acquisition} wait */
  #waits({ channel, request }) {
    return this.#waiting.has(nameOf(channel, request.token, request.keys));
  }

  /** Ends the connection. */
  close() {
    this.#unhook();
    this.#unhook = ignore;
    this.#ear?.end();
    this.#ear = undefined;
  }

  /** The connection, or a new one where the last has ended for good. */
  #open() {
    if (this.#ear?.isOpen()) return this.#ear;
    this.close();
    // A request is gone with the connection that brought it, and the server keeps its place for a second. A message that came
    // meanwhile is gone with the other connection.
    const again = (/** @type {boolean | undefined} */ lost) => {
      // While there is no connection, each asks once: that is sent when there is one.
      this.waiting.forEach((wait) => (lost ? wait.askOnce() : wait.ask()));
      // It keeps the process alive, and the client does no longer.
      if (this.#client.closed()) this.close();
    };
    const ear = this.#client.listen(this.#channel, (channel, text) => this.#tell(channel, text), again);
    this.#ear = ear;
    this.#unhook = this.#client.onNew(again);
    ear.ready.catch(() => {
      if (this.#ear === ear) this.close();
    });
    return ear;
  }

  /** @param {string} channel @param {string} text */
  #tell(channel, text) {
    const said = read(text);
    if (said) this.#waiting.get(nameOf(channel, said.token, said.keys))?.hear(said);
  }
}

module.exports = { Listener };
