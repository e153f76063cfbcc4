export type Said = {
    event: "granted" | "timeout" | "failed";
    token: string;
    keys: string[];
    fence: number;
    error: string;
};
/** @typedef {{ event: "granted" | "timeout" | "failed", token: string, keys: string[], fence: number, error: string }} Said */
export class Acquisition {
    /**
     * @param {import("./clients.js").KnownClient} client
     * @param {import("./listener.js").Listener} listener
     * @param {import("./request.js").Request} request
     * @param {number} begun
     */
    constructor(client: import("./clients.js").KnownClient, listener: import("./listener.js").Listener, request: import("./request.js").Request, begun: number);
    /** What came of it: null if it was not granted. @type {Promise<Hold | null>} */
    outcome: Promise<Hold | null>;
    request: import("./request.js").Request;
    waits: boolean;
    channel: string;
    /** @returns {Promise<Hold | null>} */
    run(): Promise<Hold | null>;
    /** Asks, unless it has asked and was not answered. */
    askOnce(): void;
    /** Asks, or asks again: the token finds its place, or its grant. */
    ask(): Promise<void>;
    /** @param {Said} said */
    hear(said: Said): Promise<true | void>;
    /** Breaks it off. @param {any} reason */
    stop(reason: any): void;
    #private;
}
import { Hold } from "./hold.js";
