/** A lock that is held, or several together. */
export class Hold {
    /**
     * @param {import("./upkeep.js").Lease} lease
     * @param {import("./request.js").Pending} pending
     * @param {number} since when the request was sent that was granted
     */
    constructor(lease: import("./upkeep.js").Lease, pending: import("./request.js").Pending, since: number);
    /** The locks, each once. @returns {string[]} */
    get keys(): string[];
    /** @returns {string} */
    get token(): string;
    /** A number larger than that of every grant before: let the resource that you write refuse smaller fences. @returns {number} */
    get fence(): number;
    /**
     * Is aborted when the hold has ended before its release, or may have, and some milliseconds before another may have the lock because the
     * lease could not be extended; then the `cause` of the reason says why it could not. An event, and something to hand on to `fetch`.
     * @returns {AbortSignal}
     */
    get lost(): AbortSignal;
    /** Whether the hold lasts still, by this process's clock: it was not released, and the lease since it was last asked for is not over. */
    get held(): boolean;
    /**
     * Whether the hold lasts still, by the server's word.
     * @returns {Promise<boolean>}
     */
    owned(): Promise<boolean>;
    /**
     * Lets the lease end so long from now, and has it extended by as much from here on; without a time, by as much as before.
     * @param {number} [leaseMs]
     * @returns {Promise<boolean>} false: the hold has ended
     */
    extend(leaseMs?: number): Promise<boolean>;
    /**
     * Runs a command in the step in which the server has seen that the hold lasts (LOCK.GUARD). Of several locks it looks at the first.
     * @param {string} command
     * @param {...(string | number | Buffer)} args
     * @returns {Promise<any>} the reply of the command
     * @throws {NotHeld} the hold has ended, and the command did not run
     */
    execute(command: string, ...args: (string | number | Buffer)[]): Promise<any>;
    /**
     * Ends the hold, once: later calls get the same answer.
     * @returns {Promise<boolean>} false: it had ended before
     * @throws {NotReleased} the server did not answer: the lease ends it
     */
    release(): Promise<boolean>;
    /** For `await using`. @throws {Lost} it had ended before */
    [Symbol.asyncDispose](): Promise<void>;
    /** @param {Lost} reason */
    [LOST](reason: Lost): void;
    #private;
}
/**
 * @param {import("./clients.js").KnownClient} client
 * @param {string} key
 * @param {string} token
 * @param {number | undefined} fence
 * @param {string} command
 * @param {(string | number | Buffer)[]} args
 * @returns {Promise<any>}
 */
export function guard(client: import("./clients.js").KnownClient, key: string, token: string, fence: number | undefined, command: string, args: (string | number | Buffer)[]): Promise<any>;
import { LOST } from "./upkeep.js";
import { Lost } from "./errors.js";
