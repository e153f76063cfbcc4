export type RedisClient = import("./clients.js").RedisClient;
export type Status = "OK" | "DUPLICATE" | "SOLDOUT" | "INSUFFICIENT" | "LIMIT" | "NOTSTARTED" | "ENDED" | "EXPIRED" | "CANCELLED" | "QUEUED" | "SKIPPED" | "NOORDER" | "NOSTOCK";
/**
 * The outcome of a request for one order. `done`: it is as asked, by this request or by an earlier one. `deadline`: when its hold ends,
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
    /**
     * How many units (1).
     */
    qty?: number | undefined;
    /**
     * For whom, where the sale has a limit for each buyer; the order's id, if it is not given.
     */
    buyer?: string | undefined;
    /**
     * Reserves them for so long, instead of selling them.
     */
    holdMs?: number | undefined;
    /**
     * Is kept with the order.
     */
    ref?: string | undefined;
    /**
     * Stands in line where the units are gone.
     */
    waitlist?: boolean | undefined;
};
/**
 * An order as the sale has it. `place`: its place in line, while it waits.
 */
export type Order = {
    state: "held" | "sold" | "cancelled" | "expired" | "waiting";
    units: number;
    buyer: string;
    ref: string;
    deadline: number;
    place?: number;
};
export type Terms = {
    /**
     * How many units a buyer may have; for `alter`, 0: any number.
     */
    limit?: number | undefined;
    /**
     * When the sale begins; a number is Unix milliseconds; for `alter`, 0: it has begun.
     */
    start?: number | Date | undefined;
    /**
     * When the sale ends; for `alter`, 0: never.
     */
    end?: number | Date | undefined;
    /**
     * Whether an id that lapsed or was cancelled may buy again.
     */
    rebuy?: boolean | undefined;
};
/**
 * `stream` is the key to which every change is appended, with `deadlines` in full.
 */
export type SaleOptions = Terms & {
    stream?: string;
    deadlines?: boolean;
};
export type SaleInfo = {
    /**
     * always remaining + held + sold
     */
    total: number;
    remaining: number;
    held: number;
    sold: number;
    orders: number;
    /**
     * buyers that hold or own units
     */
    buyers: number;
    /**
     * 0: none
     */
    limit: number;
    /**
     * Unix milliseconds; 0: none
     */
    start: number;
    /**
     * Unix milliseconds; 0: none
     */
    end: number;
    rebuy: boolean;
    /**
     * its key; "": none
     */
    stream: string;
    deadlines: boolean;
    /**
     * changes so far
     */
    seq: number;
    /**
     * orders in line
     */
    waiting: number;
    /**
     * of this server, since it loaded the sale: ok, duplicate, soldout …
     */
    counters: Record<string, number>;
};
/** Takes orders. Every request may be sent again: the id of the order makes it happen once. */
export class Stock {
    /**
     * @param {RedisClient} client of ioredis or node-redis, connected; of one server, a cluster or Sentinel
     * @param {never[]} more
     */
    constructor(client: RedisClient, ...more: never[]);
    /**
     * Opens a sale of so many units.
     * @param {string} sale
     * @param {number} total
     * @param {SaleOptions} [options]
     * @returns {Promise<void>}
     * @throws {import("./errors.js").SaleExists}
     */
    create(sale: string, total: number, options?: SaleOptions): Promise<void>;
    /**
     * Changes the terms that are named.
     * @param {string} sale
     * @param {Terms} terms
     * @returns {Promise<void>}
     * @throws {import("./errors.js").NoSale}
     */
    alter(sale: string, terms: Terms): Promise<void>;
    /**
     * Adds units, or withdraws some that are not sold. With an `id` it happens once, however often it is asked for. Without one it gets an id
     * of its own, for ioredis sends again what was not answered.
     * @param {string} sale
     * @param {number} delta
     * @param {{ id?: string }} [options]
     * @returns {Promise<number>} the units that remain now
     */
    adjust(sale: string, delta: number, options?: {
        id?: string;
    }): Promise<number>;
    /** The sale's sums and terms; null if there is none. @param {string} sale @returns {Promise<SaleInfo | null>} */
    info(sale: string): Promise<SaleInfo | null>;
    /**
     * How many units a buyer has or waits for, and may have (0: any number); null if there is no such sale.
     * @param {string} sale
     * @param {string} buyer
     * @returns {Promise<{ units: number, limit: number } | null>}
     */
    buyer(sale: string, buyer: string): Promise<{
        units: number;
        limit: number;
    } | null>;
    /**
     * All orders, or those in one state, page by page: each that was there all the while comes at least once.
     * @param {string} sale
     * @param {{ state?: Order["state"], count?: number }} [options] `count`: about how many for each request
     * @returns {AsyncGenerator<Order & { id: string }, void, undefined>}
     */
    orders(sale: string, options?: {
        state?: Order["state"];
        count?: number;
    }): AsyncGenerator<Order & {
        id: string;
    }, void, undefined>;
    /**
     * Takes units, or with `holdMs` reserves them for that long; with `waitlist` stands in line where they are gone.
     * @param {string} sale
     * @param {string} id
     * @param {OrderOptions} [options]
     * @returns {Promise<Outcome>}
     */
    order(sale: string, id: string, options?: OrderOptions): Promise<Outcome>;
    /**
     * Makes a hold a sale: the payment is there. With `keep` of so many of its units, and gives the others back.
     * @param {string} sale
     * @param {string} id
     * @param {{ keep?: number }} [options]
     */
    confirm(sale: string, id: string, options?: {
        keep?: number;
    }): Promise<Outcome>;
    /**
     * Gives the units of a hold or a sale back, with `keep` all but so many of them; or leaves the waitlist.
     * @param {string} sale
     * @param {string} id
     * @param {{ keep?: number }} [options]
     */
    cancel(sale: string, id: string, options?: {
        keep?: number;
    }): Promise<Outcome>;
    /** Lets a hold end that long from now. @param {string} sale @param {string} id @param {number} holdMs */
    extend(sale: string, id: string, holdMs: number): Promise<Outcome>;
    /** The order; null if there is none. @param {string} sale @param {string} id @returns {Promise<Order | null>} */
    look(sale: string, id: string): Promise<Order | null>;
    /**
     * Takes units of several sales, all or none.
     * @param {string} id
     * @param {Readonly<Record<string, number>>} units by sale
     * @param {Pick<OrderOptions, "buyer" | "holdMs" | "ref">} [options]
     */
    orderAll(id: string, units: Readonly<Record<string, number>>, options?: Pick<OrderOptions, "buyer" | "holdMs" | "ref">): Promise<Cart>;
    /** Confirms all or none. @param {string} id @param {readonly string[]} sales */
    confirmAll(id: string, sales: readonly string[]): Promise<Cart>;
    /** Cancels each. @param {string} id @param {readonly string[]} sales */
    cancelAll(id: string, sales: readonly string[]): Promise<Cart>;
    #private;
}
