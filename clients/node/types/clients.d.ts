/**
 * Is called when there is a new connection, or never will be; with true when the last one has ended.
 */
export type Again = (lost?: boolean) => void;
/**
 * The functions of a client that this package needs. The types of the libraries are not imported, for neither need be there.
 */
export type IoredisLike = {
    call: (command: string, ...args: any[]) => Promise<unknown>;
    duplicate: (...args: any[]) => any;
    subscribe: (...args: any[]) => any;
    disconnect: () => void;
    status: string;
};
export type NodeRedisLike = {
    sendCommand: (...args: any[]) => Promise<unknown>;
    subscribe: (...args: any[]) => any;
    on: (...args: any[]) => any;
    destroy: () => any;
    isOpen: boolean;
};
/**
 * a client of ioredis or node-redis, of one server, a cluster or Sentinel
 */
export type RedisClient = IoredisLike | NodeRedisLike;
/**
 * Is called with each message.
 */
export type Tell = (channel: string, text: string) => void;
/**
 * A connection that hears a channel from the end of `ready` on, and others that are added.
 */
export type Ear = {
    ready: Promise<unknown>;
    add: (channel: string) => Promise<unknown>;
    remove: (channel: string) => void;
    isOpen: () => boolean;
    end: () => void;
};
export type Apart = {
    send: (words: string[]) => Promise<any>;
    onCut: (tell: () => void) => () => void;
    end: () => unknown;
};
export type KnownClient = Ioredis | NodeRedis;
/**
 * The known state of a client.
 * @param {any} client
 * @returns {Ioredis | NodeRedis}
 */
export function known(client: any): Ioredis | NodeRedis;
/** The slot of a key in a cluster. @param {string} key */
export function slotOf(key: string): number;
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
export function ignore(): void;
declare class Ioredis extends Known {
    /** Whether it is closed for good, and why. */
    closed(): "the client is closed" | undefined;
    /** @param {string} _key @param {(string | Buffer)[]} words @returns {Promise<any>} */
    send(_key: string, words: (string | Buffer)[]): Promise<any>;
    /** @param {any} client @param {object} [more] options @returns {any} a copy, which is patient whatever the client is */
    copy(client?: any, more?: object): any;
    /** @param {string} channel @param {Tell} tell @param {Again} again @returns {Ear} */
    listen(channel: string, tell: Tell, again: Again): Ear;
}
declare class NodeRedis extends Known {
    closed(): "the client is not connected: await client.connect()" | undefined;
    /** @param {string} _key @param {(string | Buffer)[]} words @returns {Promise<any>} */
    send(_key: string, words: (string | Buffer)[]): Promise<any>;
    /** @param {any} client @param {object} [more] options @returns {any} a copy, which may be silent for long */
    copy(client?: any, more?: object): any;
    /** @param {string} channel @param {Tell} tell @param {Again} again @returns {Ear} */
    listen(channel: string, tell: Tell, again: Again): Ear;
    /**
     * Connects a copy. `destroy` while a connection is being made would leave it open, so `end` waits for that. A cluster's copy makes many,
     * one perhaps to a frozen node, and does not tell of each.
     * @param {any} copy @returns {{ connected: Promise<unknown>, end: () => void }}
     */
    connect(copy: any): {
        connected: Promise<unknown>;
        end: () => void;
    };
    /** @param {any} ear @param {Promise<unknown>} ready @param {() => void} end @param {string} channel @param {Tell} tell @returns {Ear} */
    hearBy(ear: any, ready: Promise<unknown>, end: () => void, channel: string, tell: Tell): Ear;
}
/** The known state of a client. @abstract */
declare class Known {
    /** @param {any} client */
    constructor(client: any);
    client: any;
    /** Calls `again` whenever the client has a new connection, or will never have one. @param {Again} again */
    onNew(again: Again): () => void;
    /**
     * Calls `tell` when a connection has ended, and what was under way on it is sent again by the library: the first may arrive yet. What is
     * under way of a library that does not do so is rejected.
     * @param {() => void} tell
     */
    onCut(tell: () => void): () => void;
    /** Calls `tell` when the connection to the server of a key ends, by which a session ends. @param {string} key @param {() => void} tell */
    onLoss(key: string, tell: () => void): () => void;
    /** @abstract @param {Again} _again @param {any} [_client] @returns {() => void} */
    hook(_again: Again, _client?: any): () => void;
    /** @param {() => void} _tell @param {any} [_client] @returns {() => void} */
    hookCut(_tell: () => void, _client?: any): () => void;
    /** @abstract @param {any} _node @param {() => void} _tell @returns {() => void} */
    hookLoss(_node: any, _tell: () => void): () => void;
    /** The client of the server of a key. @param {string} _key @returns {any} */
    nodeOf(_key: string): any;
    /** A connection of its own to the server of a key. @param {string} key @returns {Promise<Apart>} */
    apart(key: string): Promise<Apart>;
    /** @abstract @param {any} _node @returns {Promise<Apart>} */
    apartFrom(_node: any): Promise<Apart>;
    #private;
}
export {};
