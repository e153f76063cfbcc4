export class Listener {
    /** @param {import("./clients.js").KnownClient} client */
    constructor(client: import("./clients.js").KnownClient);
    get waiting(): import("./acquisition.js").Acquisition[];
    /**
     * The channel for a wait. A token of the caller's may have waited for the same lock a moment ago: what is said of that wait
     * must not be taken for this one's, so it has a channel of its own.
     * @param {boolean} ownToken
     */
    channel(ownToken: boolean): string;
    /**
     * Passes on what is heard on this channel, from the end of the promise on.
     * @param {import("./acquisition.js").Acquisition} wait
     */
    hear(wait: import("./acquisition.js").Acquisition): Promise<void>;
    /** @param {import("./acquisition.js").Acquisition} wait */
    forget(wait: import("./acquisition.js").Acquisition): void;
    /** Ends the connection. */
    close(): void;
    #private;
}
