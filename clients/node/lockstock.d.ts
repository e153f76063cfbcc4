/** The lock was not granted within the wait. */
export class NotGranted extends Error {
}
/** The hold had ended before it was released: somebody else may have had the lock meanwhile. */
export class Lost extends Error {
}
/** Asks for locks. One for each client is enough. */
export class Locks {
    /** @param {any} client of ioredis or node-redis, connected; of one server or a cluster */
    constructor(client: any);
    /**
     * Runs `work` while the lock is held, or all of several locks.
     * @template T
     * @param {string | string[]} keys
     * @param {LockOptions} options
     * @param {(hold: Hold) => Promise<T> | T} work
     * @returns {Promise<T>}
     * @throws {NotGranted} before the work, and {Lost} after it
     */
    using<T>(keys: string | string[], options: LockOptions, work: (hold: Hold) => Promise<T> | T): Promise<T>;
    /**
     * @param {string | string[]} keys
     * @param {LockOptions} [options]
     * @returns {Promise<Hold | null>} null: not granted within the wait
     */
    acquire(keys: string | string[], options?: LockOptions): Promise<Hold | null>;
    /** Ends the second connection. */
    close(): Promise<void>;
    #private;
}
/** A lock that is held, or several together. */
export class Hold {
    /**
     * @param {any} client
     * @param {string[]} keys
     * @param {string} token
     * @param {number} lease
     * @param {boolean} extend
     */
    constructor(client: any, keys: string[], token: string, lease: number, extend: boolean);
    /** A number larger than that of every grant before: have what you write to refuse smaller ones. */
    fence: number;
    keys: string[];
    token: string;
    /**
     * Is aborted when the hold has ended before it was released, or may have: an event, and something to hand on to `fetch`.
     * @returns {AbortSignal}
     */
    get lost(): AbortSignal;
    /** Whether the hold should last still, by this process's clock: the lease since it was last asked for is not over. */
    get held(): boolean;
    /** Ends the hold. @returns {Promise<boolean>} whether there was a whole hold to end */
    release(): Promise<boolean>;
    /**
     * Sends the request for the lock, or sends it again.
     * @internal
     * @param {string[]} words
     */
    ask(words: string[]): Promise<any>;
    /**
     * Reads the answer to the request: its lease counts from `since`.
     * @internal
     * @param {any} reply
     * @param {number} since
     * @param {boolean} waited
     */
    begin(reply: any, since: number, waited: boolean): this | null;
    /** For `await using`. The lease ends a hold of which the server cannot be told. @throws {Lost} */
    [Symbol.asyncDispose](): Promise<void>;
    #private;
}
/** Takes orders. Every request may be sent again: the id of the order makes it happen once. */
export class Stock {
    /** @param {any} client of ioredis or node-redis, connected; of one server or a cluster */
    constructor(client: any);
    /**
     * Takes units, or with `hold` reserves them for that long; with `waitlist` stands in line where they are gone.
     * @param {string} sale
     * @param {string} id
     * @param {OrderOptions} [options]
     */
    order(sale: string, id: string, options?: OrderOptions): Promise<Outcome>;
    /** Makes a hold a sale: the payment is there. @param {string} sale @param {string} id */
    confirm(sale: string, id: string): Promise<Outcome>;
    /** Gives the units of a hold or a sale back, or leaves the waitlist. @param {string} sale @param {string} id */
    cancel(sale: string, id: string): Promise<Outcome>;
    /** Lets a hold end that long from now. @param {string} sale @param {string} id @param {number} hold */
    extend(sale: string, id: string, hold: number): Promise<Outcome>;
    /**
     * The order's state, units, buyer, ref, deadline and, while it waits, place; null if there is none.
     * @param {string} sale @param {string} id
     * @returns {Promise<Record<string, string | number> | null>}
     */
    look(sale: string, id: string): Promise<Record<string, string | number> | null>;
    /**
     * Takes units of several sales, all or none.
     * @param {string} id
     * @param {Record<string, number>} units by sale
     * @param {Omit<OrderOptions, "qty" | "waitlist">} [options]
     */
    orderAll(id: string, units: Record<string, number>, options?: Omit<OrderOptions, "qty" | "waitlist">): Promise<Cart>;
    /** Confirms all or none. @param {string} id @param {string[]} sales */
    confirmAll(id: string, sales: string[]): Promise<Cart>;
    /** Cancels each. @param {string} id @param {string[]} sales */
    cancelAll(id: string, sales: string[]): Promise<Cart>;
    #private;
}
export type LockOptions = {
    /**
     * How long to stand in line at most. 0, the default: not at all. Infinity: as long as it takes.
     */
    wait?: number | undefined;
    /**
     * How long the hold outlasts a process that died or froze (30,000). While it lives, it is extended.
     */
    lease?: number | undefined;
    /**
     * Who asks. Give one task's locks the same, and the server sees when two tasks wait for each other (DEADLOCK).
     */
    token?: string | undefined;
    /**
     * Together with other shared holds.
     */
    shared?: boolean | undefined;
    /**
     * As one of so many.
     */
    limit?: number | undefined;
    /**
     * Whether to extend the lease until the release (true).
     */
    extend?: boolean | undefined;
    /**
     * Breaks the wait off.
     */
    signal?: AbortSignal | undefined;
};
export type Status = "OK" | "DUPLICATE" | "SOLDOUT" | "INSUFFICIENT" | "LIMIT" | "NOTSTARTED" | "ENDED" | "EXPIRED" | "CANCELLED" | "QUEUED" | "SKIPPED" | "NOORDER" | "NOSTOCK";
/**
 * What came of a request for one order. `done`: it is as asked, by this request or by an earlier one. `deadline`: when its hold ends,
 * in Unix milliseconds; -1: it has none.
 */
export type Outcome = {
    status: Status;
    done: boolean;
    units: number;
    remaining: number;
    deadline: number;
    ref: string;
};
export type Cart = {
    status: Status;
    done: boolean;
    sales: Record<string, Outcome>;
};
export type OrderOptions = {
    qty?: number;
    buyer?: string;
    hold?: number;
    ref?: string;
    waitlist?: boolean;
};
