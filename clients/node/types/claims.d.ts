export class Claim {
    /** @param {Map<string, Claim>} claims @param {string[]} names */
    constructor(claims: Map<string, Claim>, names: string[]);
    /** @type {Promise<unknown> | undefined} */
    leaving: Promise<unknown> | undefined;
    /** Whether no later one has taken its place: what comes late of this one may be taken back. @returns {boolean} */
    get isLast(): boolean;
    end(): void;
    /** Ends it when the server has been told. @param {Promise<unknown>} told */
    leaveAfter(told: Promise<unknown>): void;
    #private;
}
/**
 * Claims locks for a token. If it is just leaving their lines, this comes after that.
 * @param {import("./clients.js").KnownClient} client
 * @param {import("./request.js").Request} request
 * @returns {Promise<Claim>}
 */
export function claim(client: import("./clients.js").KnownClient, { keys, token, waitMs }: import("./request.js").Request): Promise<Claim>;
