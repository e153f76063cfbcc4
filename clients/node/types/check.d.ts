/** @param {string} name @param {string} expected @param {unknown} value @returns {never} */
export function refuse(name: string, expected: string, value: unknown): never;
/** A key, token, id … @param {string} name @param {unknown} value @returns {string} */
export function word(name: string, value: unknown): string;
/** A token, id, buyer or ref. @param {string} name @param {unknown} value @returns {string} */
export function short(name: string, value: unknown): string;
/** @param {string} name @param {unknown} value @param {number} [least] @returns {number} */
export function integer(name: string, value: unknown, least?: number): number;
/** A length of time; a part of a millisecond is a whole one. @param {string} name @param {unknown} value @returns {number} */
export function ms(name: string, value: unknown): number;
/** How long to wait. @param {string} name @param {unknown} value @returns {number} */
export function wait(name: string, value: unknown): number;
/** A point in time. @param {string} name @param {unknown} value @param {number} [least] @returns {number} Unix milliseconds */
export function time(name: string, value: unknown, least?: number): number;
/** @param {string} name @param {unknown} value @returns {boolean} */
export function flag(name: string, value: unknown): boolean;
/** @param {string} name @param {unknown} value @returns {string[]} each key once */
export function list(name: string, value: unknown): string[];
/** One key or several. @param {unknown} value @returns {string[]} each key once */
export function keys(value: unknown): string[];
/**
 * Options by name, each read by its reader; those that are undefined count as not given.
 * @template {Record<string, (name: string, value: any) => any>} R
 * @param {unknown} given
 * @param {R} readers
 * @returns {{ [K in keyof R]?: ReturnType<R[K]> }}
 */
export function options<R extends Record<string, (name: string, value: any) => any>>(given: unknown, readers: R): { [K in keyof R]?: ReturnType<R[K]>; };
/** What comes after the last argument would be dropped. A number may be there: `map` hands one on. @param {unknown} more */
export function noOptions(more: unknown): void;
/** Has methods refuse options after so many arguments. @param {any} kind @param {Record<string, number>} counts */
export function noOptionsAfter(kind: any, counts: Record<string, number>): void;
