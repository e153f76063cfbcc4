// Locks and stock of the server module lockstock, for ioredis and node-redis, on one server, in a cluster and behind Sentinel.
//
//     const locks = new Locks(redis);
//     await locks.using("job:42", { waitMs: 10_000 }, async (hold) => write(row, hold.fence));
//
// Times are milliseconds, as their names say. Locks that are taken together, and the sales of one cart, must be in one slot of a
// cluster: give them a `{tag}`.
"use strict";

const {
  AlreadyHeld,
  Cancelled,
  Closed,
  Deadlock,
  LockstockError,
  Lost,
  ModuleMissing,
  NoSale,
  NotGranted,
  NotHeld,
  NotReleased,
  NotReplicated,
  Refused,
  SaleExists,
  Unreachable,
} = require("./errors.js");
const { Hold } = require("./hold.js");
const { Locks } = require("./locks.js");
const { Stock } = require("./stock.js");

/** @typedef {import("./clients.js").RedisClient} RedisClient */
/** @typedef {import("./request.js").LockOptions} LockOptions */
/** @typedef {import("./locks.js").LockInfo} LockInfo */
/** @typedef {import("./locks.js").Which} Which */
/** @typedef {import("./stock.js").Status} Status */
/** @typedef {import("./stock.js").Outcome} Outcome */
/** @typedef {import("./stock.js").Cart} Cart */
/** @typedef {import("./stock.js").Order} Order */
/** @typedef {import("./stock.js").OrderOptions} OrderOptions */
/** @typedef {import("./stock.js").SaleOptions} SaleOptions */
/** @typedef {import("./stock.js").SaleInfo} SaleInfo */

module.exports = {
  AlreadyHeld,
  Cancelled,
  Closed,
  Deadlock,
  Hold,
  Locks,
  LockstockError,
  Lost,
  ModuleMissing,
  NoSale,
  NotGranted,
  NotHeld,
  NotReleased,
  NotReplicated,
  Refused,
  SaleExists,
  Stock,
  Unreachable,
};
