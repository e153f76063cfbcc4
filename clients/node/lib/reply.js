// Replies as the protocols and the clients' settings have them: numbers may be strings, strings buffers, maps lists.
"use strict";

const { Buffer } = require("node:buffer");

/** @param {any} value */
const text = (value) => (Buffer.isBuffer(value) ? value.toString() : String(value));

/** The fields of a map, which is a flat list with RESP2; null for null. @param {any} reply @returns {Record<string, any> | null} */
function fields(reply) {
  if (reply === null || reply === undefined) return null;
  if (reply instanceof Map) return Object.fromEntries([...reply].map(([field, value]) => [text(field), value]));
  if (!Array.isArray(reply)) return { ...reply };
  return Object.fromEntries(reply.flatMap((field, at) => (at % 2 ? [] : [[text(field), reply[at + 1]]])));
}

module.exports = { text, fields };
