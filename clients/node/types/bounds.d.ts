/** How long an answer may take that is not waited for in line. */
export const ANSWER_MS: 5000;
/** Calls `listener` after so long, however long that is, unless the function that comes back is called before. */
export function after(ms: number, listener: () => void): () => void;
/**
 * Sends one request, and takes what goes wrong for what it is.
 * @param {import("./clients.js").KnownClient} client
 * @param {string} key
 * @param {(string | Buffer)[]} words
 * @param {number} [ms]
 * @returns {Promise<any>}
 */
export function ask(client: import("./clients.js").KnownClient, key: string, words: (string | Buffer)[], ms?: number): Promise<any>;
/** An error as this package throws it: what the server has said, or why it said nothing. @param {any} error @param {string} about */
export function asOurs(error: any, about: string): LockstockError;
/**
 * What the promise comes to, or `late` after so long.
 * @template T, L
 * @param {Promise<T>} promise
 * @param {number} ms
 * @param {() => L | PromiseLike<L>} late
 * @returns {Promise<T | L>}
 */
export function within<T, L>(promise: Promise<T>, ms: number, late: () => L | PromiseLike<L>): Promise<T | L>;
import { LockstockError } from "./errors.js";
