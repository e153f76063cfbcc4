// Time limits: nothing here waits longer for a server than its caller may be kept waiting.
"use strict";

const { now } = require("./clock.js");
const { LockstockError, Unreachable, ofServer } = require("./errors.js");

/** How long an answer may take that is not waited for in line. */
const ANSWER_MS = 5_000;
/** How long a timer can run. */
const LONGEST = 2 ** 31 - 1;

/** Calls `listener` after so long, however long that is, unless the function that comes back is called before. */
function after(/** @type {number} */ ms, /** @type {() => void} */ listener) {
  const at = now() + ms;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const run = () => {
    const left = at - now();
    if (left <= 0) listener();
    else if (left < Infinity) timer = setTimeout(run, Math.min(Math.ceil(left), LONGEST));
  };
  if (ms > 0) run();
  else timer = setTimeout(listener);
  return () => clearTimeout(timer);
}

/**
 * What the promise comes to, or `late` after so long.
 * @template T, L
 * @param {Promise<T>} promise
 * @param {number} ms
 * @param {() => L | PromiseLike<L>} late
 * @returns {Promise<T | L>}
 */
async function within(promise, ms, late) {
  /** @type {() => void} */
  let cancel = () => {};
  const limit = new Promise((resolve) => (cancel = after(ms, () => resolve(undefined)))).then(late);
  try {
    return await Promise.race([promise, limit]);
  } finally {
    cancel();
  }
}

/**
 * Sends one request, and takes what goes wrong for what it is.
 * @param {import("./clients.js").KnownClient} client
 * @param {string} key
 * @param {(string | Buffer)[]} words
 * @param {number} [ms]
 * @returns {Promise<any>}
 */
async function ask(client, key, words, ms = ANSWER_MS) {
  const late = () => Promise.reject(new Unreachable(`${words[0]} ${key}: no answer within ${Math.ceil(ms)} ms`));
  try {
    return await within(client.send(key, words), ms, late);
  } catch (error) {
    throw asOurs(error, `${words[0]} ${key}`);
  }
}

/** An error as this package throws it: what the server has said, or why it said nothing. @param {any} error @param {string} about */
function asOurs(error, about) {
  const ours = ofServer(error);
  if (ours instanceof LockstockError || ours instanceof TypeError) return ours;
  return new Unreachable(`${about}: no answer: ${error?.message || error}`, { cause: error });
}

module.exports = { ANSWER_MS, after, ask, asOurs, within };
