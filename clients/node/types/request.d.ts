export type LockOptions = {
    /**
     * How long to stand in line at most. 0, the default: not at all. Infinity: as long as it takes.
     */
    waitMs?: number | undefined;
    /**
     * How long the hold outlasts a process that died or froze (30,000). While it lives, it is extended.
     */
    leaseMs?: number | undefined;
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
     * The hold also ends when the client's connection does.
     */
    session?: boolean | undefined;
    /**
     * Whether to extend the lease until the release (true).
     */
    extend?: boolean | undefined;
    /**
     * The grant counts when so many replicas have it; else it is released again, and `NotReplicated` thrown.
     */
    replicas?: number | undefined;
    /**
     * Breaks the wait off.
     */
    signal?: AbortSignal | undefined;
};
/**
 * The requests that are not answered yet. A request may lie in the queue of a client that has no connection, and come to the server
 * when nobody thinks of it any more.
 */
export class Pending {
    /** @param {() => unknown} withdraw takes back what a request has got that came too late */
    constructor(withdraw: () => unknown);
    /** @template T @param {Promise<T>} asked @returns {Promise<T>} */
    add<T>(asked: Promise<T>): Promise<T>;
    get some(): boolean;
    /** Waits for what is under way, for so long; what comes after that is withdrawn. @param {number} ms */
    end(ms: number): Promise<void>;
    /** Withdraws what comes of the requests that are under way. */
    abandon(): Promise<void>;
    #private;
}
export class Request {
    /** @param {unknown} keys @param {unknown} options */
    constructor(keys: unknown, options: unknown);
    keys: string[];
    waitMs: number;
    leaseMs: number;
    ownToken: boolean;
    token: string;
    shared: boolean;
    limit: number | undefined;
    session: boolean;
    extend: boolean;
    replicas: number | undefined;
    signal: AbortSignal | undefined;
    /** What to send. */
    get words(): string[];
}
