export type LockOptions = import("./request.js").LockOptions;
export type Hold = import("./hold.js").Hold;
export type RedisClient = import("./clients.js").RedisClient;
/**
 * Which hold is meant: that of a token, and with a fence this one and no other.
 */
export type Which = {
    token: string;
    fence?: number;
};
export type LockInfo = {
    /**
     * free: there are only waiters
     */
    mode: "exclusive" | "shared" | "limit" | "free";
    /**
     * the largest that is held, else 0
     */
    limit: number;
    holders: {
        token: string;
        fence: number;
        leaseMs: number;
        session: boolean;
    }[];
    /**
     * the first hundred
     */
    waiters: {
        token: string;
        mode: string;
        waitedMs: number;
        waitLeftMs: number;
        client: number;
    }[];
    /**
     * how many there are
     */
    waiting: number;
};
export type Task = {
    client: import("./clients.js").KnownClient;
    hold: Hold;
    outer: Task | undefined;
};
/** Asks for locks. One for each client is enough; any number of tasks may use it. */
export class Locks {
    /**
     * @param {RedisClient} client of ioredis or node-redis, connected; of one server, a cluster or Sentinel
     * @param {never[]} more
     */
    constructor(client: RedisClient, ...more: never[]);
    /**
     * Runs `work` while the lock is held, or all of several locks.
     * @template T
     * @overload
     * @param {string | readonly string[]} keys
     * @param {(hold: Hold) => Promise<T> | T} work
     * @returns {Promise<T>}
     */
    using<T>(keys: string | readonly string[], work: (hold: Hold) => Promise<T> | T): Promise<T>;
    /**
     * Runs `work` while the lock is held, or all of several locks.
     * @template T
     * @overload
     * @param {string | readonly string[]} keys
     * @param {LockOptions} options
     * @param {(hold: Hold) => Promise<T> | T} work
     * @returns {Promise<T>} what the work returns
     * @throws {NotGranted} before the work, and {Lost} or {NotReleased} after it
     */
    using<T>(keys: string | readonly string[], options: LockOptions, work: (hold: Hold) => Promise<T> | T): Promise<T>;
    /**
     * Takes the lock, or all of several locks. The hold belongs to no task: one that has a lock by this, and asks for it again, waits for itself.
     * @param {string | readonly string[]} keys
     * @param {LockOptions} [options]
     * @returns {Promise<Hold | null>} null: not granted within the wait
     * @throws {import("./errors.js").Unreachable} the server did not answer within the wait
     */
    acquire(keys: string | readonly string[], options?: LockOptions): Promise<Hold | null>;
    /** Whether a token holds the lock. @param {string} key @returns {Promise<boolean>} */
    locked(key: string): Promise<boolean>;
    /** The holders of the lock, and its waiters; null if there are none. @param {string} key @returns {Promise<LockInfo | null>} */
    info(key: string): Promise<LockInfo | null>;
    /**
     * Ends a hold that was taken elsewhere. Without its fence also the wait of its token.
     * @param {string | readonly string[]} keys
     * @param {Which} which
     * @returns {Promise<number>} of how many of the locks
     */
    release(keys: string | readonly string[], which: Which): Promise<number>;
    /**
     * Lets the lease of a hold that was taken elsewhere end so long from now.
     * @param {string | readonly string[]} keys
     * @param {Which} which
     * @param {number} leaseMs
     * @returns {Promise<boolean>} false: there is no such hold
     */
    extend(keys: string | readonly string[], which: Which, leaseMs: number): Promise<boolean>;
    /**
     * Runs a command in the step in which the server has seen that there is such a hold (LOCK.GUARD).
     * @param {string} key
     * @param {Which} which
     * @param {string} command
     * @param {...(string | number | Buffer)} args
     * @returns {Promise<any>} the reply of the command
     * @throws {import("./errors.js").NotHeld} there is no such hold, and the command did not run
     */
    guard(key: string, which: Which, command: string, ...args: (string | number | Buffer)[]): Promise<any>;
    /** Breaks the waits off, which throw `Closed`, and ends the second connection. Holds stay, and are extended until their release. */
    close(): Promise<void>;
    /** For `await using`. */
    [Symbol.asyncDispose](): Promise<void>;
    #private;
}
