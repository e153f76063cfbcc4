/**
 * What sets the lease of these locks, by how much, and when it has arrived at the latest.
 */
export type Setting = {
    keys: string[];
    length: number;
    until: number;
};
/** The requests of a token that set its lease and may arrive yet, after those that were sent later: then the lease is theirs. */
export class Late {
    /**
     * Those of earlier holds of the token count, too.
     * @param {object} client
     * @param {import("./request.js").Request} request
     */
    constructor(client: object, { keys, token, ownToken }: import("./request.js").Request);
    /**
     * Sends one. It may arrive yet if it was not answered, and if it was sent again: then the answer may be to the second.
     * @template T
     * @param {{ onCut: (tell: () => void) => () => void }} over
     * @param {number} length
     * @param {() => Promise<T>} send
     */
    send<T>(over: {
        onCut: (tell: () => void) => () => void;
    }, length: number, send: () => Promise<T>): Promise<T>;
    /** How much of a lease counts that was asked for at that time. @param {number} length @param {number} sent */
    counts(length: number, sent: number): number;
    #private;
}
/** The lease of a hold, as far as it is known here, and what extends it. */
export class Lease {
    /**
     * @param {import("./clients.js").KnownClient} client
     * @param {string[]} keys
     * @param {string} token
     * @param {number} fence
     * @param {{ leaseMs: number, extend: boolean, session: boolean }} how
     * @param {import("./claims.js").Claim} claim ends with it
     * @param {Late} late
     */
    constructor(client: import("./clients.js").KnownClient, keys: string[], token: string, fence: number, how: {
        leaseMs: number;
        extend: boolean;
        session: boolean;
    }, claim: import("./claims.js").Claim, late: Late);
    /** When the hold ends, by this process's clock, if it is not extended: the lease counts from before it was last asked for. */
    until: number;
    /** Why it could not be extended, since it was for the last time. @type {Error | undefined} */
    trouble: Error | undefined;
    client: import("./clients.js").KnownClient;
    keys: string[];
    token: string;
    fence: number;
    length: number;
    extended: boolean;
    /** Whether the hold should last still, by this process's clock. */
    get holds(): boolean;
    /** Whether no later hold of its token has its place: that one may have its fence. */
    get isLast(): boolean;
    /** Begins to keep the lease that was granted to a request sent at `since`. @param {import("./hold.js").Hold} hold @param {number} since */
    begin(hold: import("./hold.js").Hold, since: number): void;
    /**
     * Ends all that is done for it here. Its token may ask anew when the server has been told: sooner, it would renew this hold.
     * @param {Promise<unknown>} [told]
     */
    end(told?: Promise<unknown>): void;
    /** The words of a request about this hold, and no other one of its token. @param {string} verb @param {...string} more */
    words(verb: string, ...more: string[]): string[];
    /** Asks for the lease anew. @returns {Promise<boolean>} whether it is held still */
    extend(): Promise<boolean>;
    /** The hold has ended before its release. @param {Promise<unknown>} [told] */
    lose(told?: Promise<unknown>): void;
    /** Does the due work. @param {number} time @returns {number} when to come again */
    tick(time: number): number;
    /** Its owner has forgotten the hold. */
    forget(): void;
    #private;
}
/** What a lease calls of its hold. */
export const LOST: unique symbol;
/**
 * The words of a request about a hold; with a fence, about this one and no other.
 * @param {string} verb
 * @param {string[]} keys
 * @param {string} token
 * @param {number | undefined} fence
 * @param {...string} more
 */
export function aboutHold(verb: string, keys: string[], token: string, fence: number | undefined, ...more: string[]): string[];
/** How much of a lease counts here. @param {number} length */
export function lasting(length: number): number;
/**
 * Releases a hold, or what there is of its token. If one of its locks has another value, none is released together: then each is by itself.
 * @param {import("./clients.js").KnownClient} client
 * @param {string[]} keys
 * @param {string} token
 * @param {number} [fence]
 * @returns {Promise<number>} how many were released together
 */
export function release(client: import("./clients.js").KnownClient, keys: string[], token: string, fence?: number): Promise<number>;
