/** @param {any} value */
export function text(value: any): string;
/** The fields of a map, which is a flat list with RESP2; null for null. @param {any} reply @returns {Record<string, any> | null} */
export function fields(reply: any): Record<string, any> | null;
