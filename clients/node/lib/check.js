// Arguments are refused where they are made, with what was expected.
"use strict";

const { inspect } = require("node:util");

/** The largest integer that the server takes. */
const MOST = Number.MAX_SAFE_INTEGER;
/** How much of a value an error shows. */
const LONG = 100;

/** @param {string} name @param {string} expected @param {unknown} value @returns {never} */
function refuse(name, expected, value) {
  const seen = inspect(value, { depth: 0, breakLength: Infinity });
  const text = `${name}: expected ${expected}, not ${seen.length > LONG ? `${seen.slice(0, LONG)}…` : seen}`;
  throw typeof value === "number" ? new RangeError(text) : new TypeError(text);
}

/** A key, token, id … @param {string} name @param {unknown} value @returns {string} */
function word(name, value) {
  if (typeof value !== "string" || value === "") refuse(name, "a string that is not empty", value);
  return whole(name, value);
}

/** Halves of characters are all sent as the same, so that two names would be one. @param {string} name @param {string} value */
function whole(name, value) {
  if (/\p{Surrogate}/u.test(value)) refuse(name, "a string of whole characters", value);
  return value;
}

/** A token, id, buyer or ref. @param {string} name @param {unknown} value @returns {string} */
function short(name, value) {
  if (typeof value !== "string" || value === "" || Buffer.byteLength(value) > 512) refuse(name, "a string of 1 to 512 bytes", value);
  return whole(name, value);
}

/** @param {string} name @param {unknown} value @param {number} [least] @returns {number} */
function integer(name, value, least = 1) {
  if (!Number.isSafeInteger(value) || Number(value) < least) refuse(name, `an integer from ${least} to ${MOST}`, value);
  return Number(value);
}

/** A length of time; a part of a millisecond is a whole one. @param {string} name @param {unknown} value @returns {number} */
function ms(name, value) {
  if (typeof value !== "number" || !(value > 0) || value > MOST) refuse(name, "milliseconds, more than 0", value);
  return Math.ceil(value);
}

/** How long to wait. @param {string} name @param {unknown} value @returns {number} */
function wait(name, value) {
  if (typeof value !== "number" || !(value >= 0) || (value > MOST && value !== Infinity)) {
    refuse(name, "milliseconds, 0 or more, or Infinity", value);
  }
  return value;
}

/** A point in time. @param {string} name @param {unknown} value @param {number} [least] @returns {number} Unix milliseconds */
function time(name, value, least = 0) {
  const number = value instanceof Date ? value.getTime() : value;
  if (!Number.isSafeInteger(number) || Number(number) < least) refuse(name, `a Date, or Unix milliseconds from ${least} on`, value);
  return Number(number);
}

/** @param {string} name @param {unknown} value @returns {boolean} */
function flag(name, value) {
  if (typeof value !== "boolean") refuse(name, "true or false", value);
  return value;
}

/** @param {string} name @param {unknown} value @returns {string[]} each key once */
function list(name, value) {
  if (!Array.isArray(value) || value.length === 0) refuse(name, "an array of strings that is not empty", value);
  // Spread, for a hole of an array is undefined, and `map` passes over it.
  return [...new Set([...value].map((key, at) => word(`${name}[${at}]`, key)))];
}

/** One key or several. @param {unknown} value @returns {string[]} each key once */
const keys = (value) => (typeof value === "string" ? [word("key", value)] : list("keys", value));

/**
 * Options by name, each read by its reader; those that are undefined count as not given.
 * @template {Record<string, (name: string, value: any) => any>} R
 * @param {unknown} given
 * @param {R} readers
 * @returns {{ [K in keyof R]?: ReturnType<R[K]> }}
 */
function options(given, readers) {
  const known = Object.keys(readers);
  // Of a Map or a Date nothing would be found. Tests may run in a world of their own, so no class is asked after.
  if (Object.prototype.toString.call(given) !== "[object Object]") refuse("options", `an object of ${known.join(", ")}`, given);
  /** @type {any} */
  const read = {};
  for (const name in /** @type {any} */ (given)) {
    const value = /** @type {any} */ (given)[name];
    if (!Object.hasOwn(readers, name)) throw new TypeError(`option ${name} is unknown: expected ${known.join(", ")}`);
    if (value !== undefined) read[name] = readers[name](name, value);
  }
  return read;
}

/** What comes after the last argument would be dropped. A number may be there: `map` hands one on. @param {unknown} more */
function noOptions(more) {
  if (typeof more === "object" && more !== null) throw new TypeError(`this takes no options, not ${inspect(more, { depth: 0 })}`);
}

/** Has methods refuse options after so many arguments. @param {any} kind @param {Record<string, number>} counts */
function noOptionsAfter(kind, counts) {
  for (const [name, count] of Object.entries(counts)) {
    const method = kind.prototype[name];
    /** @this {any} @param {any[]} given */
    const value = async function (...given) {
      noOptions(given[count]);
      return method.apply(this, given);
    };
    Object.defineProperty(kind.prototype, name, { value, writable: true, configurable: true });
  }
}

module.exports = { refuse, word, short, integer, ms, wait, time, flag, list, keys, options, noOptions, noOptionsAfter };
