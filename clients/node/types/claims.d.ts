export class Claim {
    /** @param {Map<string, Claim>} claims @param {string[]} names */
    constructor(claims: Map<string, Claim>, names: string[]);
    /** @type {Promise<unknown> | undefined} */
    leaving: Promise<unknown> | undefined;
    /** Whether no later one has taken its place: what comes late of this one may be taken back. @returns {boolean} */
    get isLast(): boolean;
    end(): void;
    /**
     * Ends it when the server has been told, and all that it is being told: what reaches the server after the next request of the token would end
     * that one. @param {Promise<unknown>} told
     */
    leaveAfter(told: Promise<unknown>): void;
    #private;
}
/**
 * Claims locks for a token. If the token is just leaving their lines, or being released, the claim comes after that.
 * @param {import("./clients.js").KnownClient} client
 * @param {import("./request.js").Request} request
 * @param {Promise<unknown>} stopped rejects when the request is broken off
 * @returns {Promise<Claim>}
 */
export function claim(client: import("./clients.js").KnownClient, { keys, token, waitMs }: import("./request.js").Request, stopped: Promise<unknown>): Promise<Claim>;
