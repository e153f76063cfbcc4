// Where the servers are (`clients/with-servers` starts them), the clients that are tried, and an eye on the locks.

import assert from "node:assert/strict";
import { AsyncResource } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { Cluster, Redis } from "ioredis";
import { createClient, createCluster } from "redis";

const url = process.env.LOCKSTOCK_URL;
const clusterUrl = process.env.LOCKSTOCK_CLUSTER_URL;

/** Each makes a client; all of them are closed by `close`. */
export const CLIENTS = {
  ioredis: (options = {}) => quiet(new Redis(url, options)),
  "ioredis cluster": (options = {}) => quiet(new Cluster([clusterUrl], options)),
  "node-redis": (options = {}) => quiet(createClient({ url, ...options })).connect(),
  "node-redis RESP3": (options = {}) => quiet(createClient({ url, RESP: 3, ...options })).connect(),
  "node-redis cluster": (options = {}) => quiet(createCluster({ rootNodes: [{ url: clusterUrl }], ...options })).connect(),
};

/** Errors of connections come with the answers to requests, too. */
function quiet(client) {
  client.on("error", () => {});
  return client;
}

export const close = (client) => (client.close ?? client.quit).call(client);

/** Closes a client of which the server may be gone. */
export const hangUp = async (client) => client.isOpen !== false && (client.destroy ?? client.disconnect).call(client);

/** Sends a command to the server of its first key. */
export function cmd(client, ...words) {
  if (client.call) return client.call(...words);
  return client.getSlotRandomNode ? client.sendCommand(words[1], false, words) : client.sendCommand(words);
}

export const newKey = () => `{${randomUUID().slice(0, 8)}}`;

/** Waits for a condition; for as long as a busy machine may need, for only failures use that up. */
export async function eventually(what, condition, patience = 60_000) {
  const deadline = performance.now() + patience;
  while (!(await condition())) {
    assert(performance.now() < deadline, what);
    await sleep(5);
  }
}

/**
 * How many milliseconds it takes until a promise is settled, less what this process itself was kept from its work. What the promise gives
 * is the promise's.
 */
export async function takes(promise) {
  const begun = performance.now();
  let [last, late] = [begun, 0];
  const look = () => {
    late += Math.max(performance.now() - last - 20, 0);
    last = performance.now();
  };
  const looks = setInterval(look, 10);
  await promise.then(() => {}, () => {});
  clearInterval(looks);
  look();
  return performance.now() - begun - late;
}

/** The same of a promise that must be rejected with this error. */
export async function rejectsAfter(promise, error) {
  const [time] = await Promise.all([takes(promise), assert.rejects(promise, error)]);
  return time;
}

/** Resolves when a signal is aborted, which it may be already. */
export async function aborted(signal) {
  await eventually("it is aborted", () => signal.aborted);
}

/** Keeps places for so long that a busy machine finds the time to reconnect, until the end of the test. */
export async function keepPlaces(t, client) {
  await cmd(client, "CONFIG", "SET", "lockstock.place-grace-ms", "30000");
  t.after(async () => {
    const eye = await CLIENTS.ioredis();
    await cmd(eye, "CONFIG", "SET", "lockstock.place-grace-ms", "1000");
    await close(eye);
  });
}

const rows = (reply) => (Array.isArray(reply) ? Object.fromEntries(reply.flatMap((f, at) => (at % 2 ? [] : [[f, reply[at + 1]]]))) : reply);

/** The holders and waiters of a lock, each as an object of fields. */
export async function info(client, key) {
  const reply = await cmd(client, "LOCK.INFO", key);
  if (!reply) return { holders: [], waiters: [] };
  const { holders, waiters } = rows(reply);
  return { holders: holders.map(rows), waiters: waiters.map(rows) };
}

export const waiting = async (client, key) => (await info(client, key)).waiters.length;

/** Runs this as a task of its own, which is inside of no lock. @type {(task: () => any) => any} */
export const elsewhere = AsyncResource.bind((task) => task());

export { assert, sleep };
