// The libraries: how each sends to the server of a key, hears a channel, tells of new connections, and opens a connection apart.
//
// Neither knows these commands, so in a cluster each is told which slot or key a request is about. A key prefix of a client is put before
// the keys of the commands that it knows, so not before these.
"use strict";

const { errorMonitor } = require("node:events");

const { ANSWER_MS, within } = require("./bounds.js");
const { refuse } = require("./check.js");

/**
 * The functions of a client that this package needs. The types of the libraries are not imported, for neither need be there.
 * @typedef {object} IoredisLike
 * @property {(command: string, ...args: any[]) => Promise<unknown>} call
 * @property {(...args: any[]) => any} duplicate
 * @property {(...args: any[]) => any} subscribe
 * @property {() => void} disconnect
 * @property {string} status
 */
/**
 * @typedef {object} NodeRedisLike
 * @property {(...args: any[]) => Promise<unknown>} sendCommand
 * @property {(...args: any[]) => any} subscribe
 * @property {(...args: any[]) => any} on
 * @property {() => any} destroy
 * @property {boolean} isOpen
 */
/** @typedef {IoredisLike | NodeRedisLike} RedisClient a client of ioredis or node-redis, of one server, a cluster or Sentinel */

/** Is called with each message. @typedef {(channel: string, text: string) => void} Tell */
/**
 * A connection that hears a channel from the end of `ready` on, and others that are added.
 * @typedef {object} Ear
 * @property {Promise<unknown>} ready
 * @property {(channel: string) => Promise<unknown>} add
 * @property {(channel: string) => void} remove
 * @property {() => boolean} isOpen
 * @property {() => void} end
 */
/** @typedef {{ send: (words: string[]) => Promise<any>, onCut: (tell: () => void) => () => void, end: () => unknown }} Apart */

const ignore = () => {};

/** Is called when there is a new connection, or never will be; with true when the last one has ended. @typedef {(lost?: boolean) => void} Again */

/** Calls `listener` on each event, until the function that comes back is called. */
function on(/** @type {any} */ emitter, /** @type {(string | symbol)[]} */ events, /** @type {(_: any) => void} */ listener) {
  for (const event of events) emitter.on(event, listener);
  return () => events.forEach((event) => emitter.off(event, listener));
}

/** Tells any number of listeners by one hook: more than ten listeners of an emitter look like a leak. @template T */
class Shared {
  /** @type {Set<(said?: T) => void>} */
  #all = new Set();
  #hook;
  #unhook = ignore;

  /** @param {(tell: (said?: T) => void) => () => void} hook gives what ends it */
  constructor(hook) {
    this.#hook = hook;
  }

  /** @param {(said?: T) => void} tell @returns {() => void} what ends it */
  add(tell) {
    const mine = (/** @type {T | undefined} */ said) => tell(said);
    if (this.#all.size === 0) this.#unhook = this.#hook((said) => this.#all.forEach((tell) => tell(said)));
    this.#all.add(mine);
    return () => {
      if (this.#all.delete(mine) && this.#all.size === 0) this.#unhook();
    };
  }
}

/** The known state of a client. @abstract */
class Known {
  /** @type {Shared<boolean>} */
  #news = new Shared((again) => this.hook(again));
  /** @type {Shared<void>} */
  #cuts = new Shared((tell) => this.hookCut(tell));
  /** By node. @type {WeakMap<object, Shared<void>>} */
  #losses = new WeakMap();

  /** @param {any} client */
  constructor(client) {
    this.client = client;
  }

  /** Calls `again` whenever the client has a new connection, or will never have one. @param {Again} again */
  onNew(again) {
    return this.#news.add(again);
  }

  /**
   * Calls `tell` when a connection has ended, and what was under way on it is sent again by the library: the first may arrive yet. What is
   * under way of a library that does not do so is rejected.
   * @param {() => void} tell
   */
  onCut(tell) {
    return this.#cuts.add(tell);
  }

  /** Calls `tell` when the connection to the server of a key ends, by which a session ends. @param {string} key @param {() => void} tell */
  onLoss(key, tell) {
    const node = this.nodeOf(key);
    const losses = this.#losses.get(node) ?? new Shared((tell) => this.hookLoss(node, tell));
    this.#losses.set(node, losses);
    return losses.add(tell);
  }

  /** @abstract @param {Again} _again @param {any} [_client] @returns {() => void} */
  hook(_again, _client) {
    return ignore;
  }

  /** @param {() => void} _tell @param {any} [_client] @returns {() => void} */
  hookCut(_tell, _client) {
    return ignore;
  }

  /** @abstract @param {any} _node @param {() => void} _tell @returns {() => void} */
  hookLoss(_node, _tell) {
    return ignore;
  }

  /** The client of the server of a key. @param {string} _key @returns {any} */
  nodeOf(_key) {
    return this.client;
  }

  /** A connection of its own to the server of a key. @param {string} key @returns {Promise<Apart>} */
  async apart(key) {
    return this.apartFrom(this.nodeOf(key));
  }

  /** @abstract @param {any} _node @returns {Promise<Apart>} */
  async apartFrom(_node) {
    throw new Error("abstract");
  }
}

class Ioredis extends Known {
  /** Whether it is closed for good, and why. */
  closed() {
    return this.client.status === "end" ? "the client is closed" : undefined;
  }

  /** @param {string} _key @param {(string | Buffer)[]} words @returns {Promise<any>} */
  async send(_key, words) {
    return this.client.call(...words);
  }

  /** @param {any} client @param {object} [more] options @returns {any} a copy, which is patient whatever the client is */
  copy(client = this.client, more = {}) {
    const patient = { enableOfflineQueue: true, maxRetriesPerRequest: null, commandTimeout: undefined };
    const copy = client.duplicate({ ...patient, ...more });
    copy.on("error", ignore);
    return copy;
  }

  /** @param {string} channel @param {Tell} tell @param {Again} again @returns {Ear} */
  listen(channel, tell, again) {
    const ear = this.copy();
    ear.on("message", tell);
    const add = async (/** @type {string} */ more) => ear.subscribe(more);
    let unhook = ignore;
    const ready = add(channel).then(() => {
      // When it has subscribed again, and not only connected.
      const added = () => again();
      unhook = this.hook(() => add(channel).then(added, added), ear);
    });
    const end = () => {
      unhook();
      ear.disconnect();
    };
    const remove = (/** @type {string} */ channel) => void ear.unsubscribe(channel)?.catch(ignore);
    return { ready, add, remove, isOpen: () => ear.status !== "end", end };
  }

  /** @override @param {Again} again */
  hook(again, client = this.client) {
    return on(client, ["ready", "end"], () => again());
  }

  /** @override @param {() => void} tell */
  hookCut(tell, client = this.client) {
    return on(client, ["close"], () => tell());
  }

  /** @override @param {any} node @param {() => void} tell */
  hookLoss(node, tell) {
    return on(node, ["close", "end"], () => tell());
  }

  /** @override @param {any} client @returns {Promise<Apart>} */
  async apartFrom(client) {
    const db = databaseOf(await client.call("CLIENT", "INFO").catch(ignore));
    const copy = this.copy(client, db === undefined ? {} : { db });
    return { send: (words) => copy.call(...words), onCut: (tell) => this.hookCut(tell, copy), end: () => copy.disconnect() };
  }
}

class IoredisCluster extends Ioredis {
  /**
   * Without the slot, a request would go to any node, and wait there if this node is frozen. `call` would put it, with
   * `enableAutoPipelining`, among others of any slot.
   * @override @param {string} key @param {(string | Buffer)[]} words
   */
  async send(key, [name, ...args]) {
    const sendCommand = (/** @type {any} */ command) => this.client.sendCommand(Object.assign(command, { slot: slotOf(key) }));
    return this.client.createBuiltinCommand(name).string.call({ options: this.client.options, sendCommand }, ...args);
  }

  /** @override */
  copy(client = this.client, more = {}) {
    if (client !== this.client) return super.copy(client, more);
    const copy = client.duplicate([], { enableOfflineQueue: true });
    copy.on("error", ignore);
    return copy;
  }

  /** Each node connects by itself. One that is gone is connected to when it is asked again. @override @param {Again} again */
  hook(again, client = this.client) {
    const hooks = [super.hook(again, client)];
    const watch = (/** @type {any} */ node) => hooks.push(on(node, ["ready"], () => again()));
    client.nodes().forEach(watch);
    hooks.push(on(client, ["+node"], watch), on(client, ["-node"], () => again(true)));
    return () => hooks.forEach((unhook) => unhook());
  }

  /** @override @param {() => void} tell */
  hookCut(tell, client = this.client) {
    return client === this.client ? on(client, ["-node"], () => tell()) : super.hookCut(tell, client);
  }

  /** @override @param {string} key */
  nodeOf(key) {
    const address = this.client.slots[slotOf(key)]?.[0];
    const node = this.client.nodes("master").find((/** @type {any} */ { options }) => `${options.host}:${options.port}` === address);
    if (!node) throw new Error(`no node of the cluster is known for ${key}`);
    return node;
  }
}

class NodeRedis extends Known {
  closed() {
    return this.client.isOpen ? undefined : "the client is not connected: await client.connect()";
  }

  /** @param {string} _key @param {(string | Buffer)[]} words @returns {Promise<any>} */
  async send(_key, words) {
    return this.client.sendCommand(words);
  }

  /** @param {any} client @param {object} [more] options @returns {any} a copy, which may be silent for long */
  copy(client = this.client, more = {}) {
    const copy = client.duplicate({ disableOfflineQueue: false, socket: { ...client.options?.socket, socketTimeout: undefined }, ...more });
    copy.on("error", ignore);
    return copy;
  }

  /** @param {string} channel @param {Tell} tell @param {Again} again @returns {Ear} */
  listen(channel, tell, again) {
    const ear = this.copy();
    const { connected, end } = this.connect(ear);
    let unhook = ignore;
    const ready = connected.then(() => {
      unhook = this.hook(again, ear);
    });
    const leave = () => {
      unhook();
      end();
    };
    return this.hearBy(ear, ready, leave, channel, tell);
  }

  /**
   * Connects a copy. `destroy` while a connection is being made would leave it open, so `end` waits for that. A cluster's copy makes many,
   * one perhaps to a frozen node, and does not tell of each.
   * @param {any} copy @returns {{ connected: Promise<unknown>, end: () => void }}
   */
  connect(copy) {
    let [making, ended] = [!copy.slots, false];
    const settle = () => {
      if (ended && !making && copy.isOpen) copy.destroy();
    };
    const is = (/** @type {boolean} */ state) => () => {
      making = state;
      settle();
    };
    on(copy, ["connect", errorMonitor], is(false));
    on(copy, ["reconnecting"], is(true));
    const connected = copy.connect();
    connected.then(is(false), is(false));
    const end = () => {
      ended = true;
      settle();
    };
    return { connected, end };
  }

  /** @param {any} ear @param {Promise<unknown>} ready @param {() => void} end @param {string} channel @param {Tell} tell @returns {Ear} */
  hearBy(ear, ready, end, channel, tell) {
    const listener = (/** @type {string} */ text, /** @type {string} */ channel) => tell(channel, text);
    const add = async (/** @type {string} */ more) => ear.subscribe(more, listener);
    const remove = (/** @type {string} */ channel) => void ear.unsubscribe(channel, listener)?.catch(ignore);
    return { ready: ready.then(() => add(channel)), add, remove, isOpen: () => ear.isOpen, end };
  }

  /** Version 5 tells of its last error only, when it does not try again. @override @param {Again} again */
  hook(again, client = this.client) {
    const hooks = [on(client, ["ready", "end"], () => again()), on(client, [errorMonitor], () => client.isOpen || again())];
    return () => hooks.forEach((unhook) => unhook());
  }

  /** @override @param {any} node @param {() => void} tell */
  hookLoss(node, tell) {
    return on(node, [errorMonitor, "end"], () => node.isReady || tell());
  }

  /** @override @param {any} client @returns {Promise<Apart>} */
  async apartFrom(client) {
    const database = databaseOf(await client.sendCommand(["CLIENT", "INFO"]).catch(ignore));
    // Else the URL would say which; what else it says stands in the other options, too.
    const copy = this.copy(client, database === undefined ? {} : { database, url: undefined });
    const { end } = this.connect(copy);
    return { send: (words) => copy.sendCommand(words), onCut: () => ignore, end };
  }
}

class NodeRedisCluster extends NodeRedis {
  /** @override @param {string} key @param {(string | Buffer)[]} words */
  async send(key, words) {
    return this.client.sendCommand(key, false, words);
  }

  /**
   * Its copy makes many connections, and would leave open those that are being made when it ends. So it ends when it hears; or after a while,
   * for one of them may lead to a frozen node.
   * @override @param {string} channel @param {Tell} tell @param {Again} again
   */
  listen(channel, tell, again) {
    const ear = super.listen(channel, tell, again);
    return { ...ear, end: () => void within(ear.ready, ANSWER_MS, ignore).then(ear.end, ear.end) };
  }

  /** Version 5 tells of a node's first connection only, 5.0 not even of that. What is asked when one is lost is sent over the next. @override @param {Again} again */
  hook(again, client = this.client) {
    const hooks = [on(client, ["node-ready", "end", "disconnect"], () => again()), on(client, ["node-reconnecting"], () => again(true))];
    for (const { client: node } of client.masters) if (node) hooks.push(on(node, ["ready"], () => again(true)));
    return () => hooks.forEach((unhook) => unhook());
  }

  /** @override @param {string} key */
  nodeOf(key) {
    const { client } = this.client.slots[slotOf(key)]?.master ?? {};
    if (!client) throw new Error(`no node of the cluster is known for ${key}`);
    return client;
  }

  /** @override */
  copy(client = this.client, more = {}) {
    if (client !== this.client) return super.copy(client, more);
    const copy = client.duplicate();
    copy.on("error", ignore);
    return copy;
  }
}

class NodeRedisSentinel extends NodeRedis {
  /** @override @param {string} _key @param {(string | Buffer)[]} words */
  async send(_key, words) {
    return this.client.sendCommand(false, words);
  }

  /** It has a connection for this already, which goes to the new primary by itself. @override @param {string} channel @param {Tell} tell */
  listen(channel, tell) {
    const ear = this.hearBy(this.client, Promise.resolve(), ignore, channel, tell);
    return { ...ear, end: () => ear.remove(channel) };
  }

  /** @override @param {Again} again */
  hook(again) {
    return on(this.client, ["topology-change", "client-error", "end"], () => again());
  }

  /** @override @param {() => void} tell */
  hookCut(tell) {
    return this.hook(tell);
  }

  /** @override @param {any} client @param {() => void} tell */
  hookLoss(client, tell) {
    return on(client, ["topology-change", "client-error", "end"], (event) => /^MASTER/.test(event?.type ?? "MASTER") && tell());
  }

  /** One of its connections to the primary. @override @param {any} client */
  async apartFrom(client) {
    const lease = await client.acquire();
    return { send: (/** @type {string[]} */ words) => lease.sendCommand(false, words), onCut: () => ignore, end: () => lease.release() };
  }
}

/** Which database a client has selected, as CLIENT INFO says; undefined where it may not be asked. @param {any} info */
const databaseOf = (info) => (info ? Number(/ db=(\d+)/.exec(`${info}`)?.[1] ?? 0) : undefined);

/** The slot of a key in a cluster. @param {string} key */
function slotOf(key) {
  const tag = /\{([^}]+)\}/.exec(key.slice(key.indexOf("{")));
  const hashed = tag && tag.index === 0 ? tag[1] : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc % 16_384;
}

/** @type {WeakMap<object, Ioredis | NodeRedis>} */
const KNOWN = new WeakMap();

/**
 * The known state of a client.
 * @param {any} client
 * @returns {Ioredis | NodeRedis}
 */
function known(client) {
  const there = typeof client === "object" && client !== null ? KNOWN.get(client) : undefined;
  if (there) return there;
  const made = new (kindOf(client))(client);
  KNOWN.set(client, made);
  return made;
}

/** @param {any} client */
function kindOf(client) {
  const has = (/** @type {string} */ name) => typeof client?.[name] === "function";
  if (has("call") && has("duplicate") && has("subscribe")) return has("nodes") ? IoredisCluster : Ioredis;
  if (has("sendCommand") && has("subscribe")) {
    if (has("getSlotRandomNode")) return NodeRedisCluster;
    if (has("getSentinelNode")) return NodeRedisSentinel;
    if (has("duplicate")) return NodeRedis;
  }
  const pool = has("sendCommand") && has("execute") ? " (a pool has no connection to stay with)" : "";
  return refuse(`client${pool}`, "a client of ioredis or node-redis, of one server, a cluster or Sentinel", client);
}

/** @typedef {Ioredis | NodeRedis} KnownClient */

module.exports = { known, slotOf, ignore };
