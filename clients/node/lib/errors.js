// The errors of this package, and what an error of a client or a server means.
"use strict";

/** The errors that this package throws, but for wrong arguments: those are a `TypeError` or a `RangeError`. */
class LockstockError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/** The lock was not granted within the wait. */
class NotGranted extends LockstockError {}

/** The lock was granted, but too few replicas have heard of it in time. It was released again. */
class NotReplicated extends NotGranted {}

/** The task that asks for the lock has it already, or waits for it already. A lock is not reentrant. */
class AlreadyHeld extends LockstockError {}

/** The hold had ended before it was released: another token may have had the lock since. */
class Lost extends LockstockError {}

/** The server did not answer in time: it is out of reach, frozen or refuses connections. `cause` is the client's last error. */
class Unreachable extends LockstockError {}

/** The server did not answer to the release in time: the hold has ended, or its lease ends it. */
class NotReleased extends Unreachable {
  /** What the work of `using` had come to: it was done while the lock was held. @type {unknown} */
  result;
}

/** The `Locks` were closed, or their client. */
class Closed extends LockstockError {}

/** The server said no. `code` is the first word of its answer, `cause` the client's own error. */
class Refused extends LockstockError {
  /** @param {Error} cause */
  constructor(cause) {
    super(cause.message, { cause });
    /** For example "WRONGTYPE", "NOPERM", "OOM". @type {string} */
    this.code = codeOf(cause);
  }
}

/** The token waits for a lock, the holder of which waits for it. Release your holds, and begin again. */
class Deadlock extends Refused {}

/** The token was released while it waited. */
class Cancelled extends Refused {}

/** The guarded command did not run: the hold has ended. */
class NotHeld extends Refused {}

/** There is no sale of this name. */
class NoSale extends Refused {}

/** There is a sale of this name already, or another key. */
class SaleExists extends Refused {}

/** The server does not know these commands: the module lockstock is not loaded, or an older version of it. */
class ModuleMissing extends Refused {
  /** @param {Error} cause */
  constructor(cause) {
    super(cause);
    this.message = `${cause.message}: load the module lockstock into the server (redis-server --loadmodule liblockstock.so)`;
  }
}

/** @type {Record<string, typeof Refused>} */
const BY_CODE = { BUSYKEY: SaleExists, CANCELLED: Cancelled, DEADLOCK: Deadlock, NOSTOCK: NoSale, NOTHELD: NotHeld };

/** Servers' errors begin with a code. @param {any} error */
const codeOf = (error) => /^([A-Z]{3,}) /.exec(error?.message)?.[1] ?? "";

/** An error as this package throws it. @param {any} error @returns {Error} */
function ofServer(error) {
  if (error instanceof LockstockError || !codeOf(error)) return error;
  if (/^ERR unknown command\W+(LOCK|STOCK)\./i.test(error.message)) return new ModuleMissing(error);
  return new (BY_CODE[codeOf(error)] ?? Refused)(error);
}

/**
 * Whether asking again, of the same server or another, may help: no answer, or one of a server that cannot serve just now. `ERR Can't
 * execute` is the answer to ioredis itself, which asks a new connection for INFO after it has begun to listen there.
 * @param {any} error
 */
function passes(error) {
  const cause = error instanceof Refused ? error.cause : error;
  if (!codeOf(cause)) return !(error instanceof LockstockError) && !(error instanceof TypeError);
  return /^(UNBLOCKED (force|this server)|MOVED|ASK|TRYAGAIN|CLUSTERDOWN|READONLY|LOADING|MASTERDOWN|BUSY|ERR Can't execute) /.test(/** @type {Error} */ (cause).message);
}

/** The same of a release, which is worth asking for again also where nothing may be written just now. @param {any} error */
function passesForRelease(error) {
  return passes(error) || (error instanceof Refused && ["NOREPLICAS", "MISCONF"].includes(error.code));
}

/**
 * Null, as of what is not there, where an answer says that a key has another value: then nothing is held of it. Any other error is thrown.
 * @param {any} error
 */
function nullIfOther(error) {
  const ours = ofServer(error);
  if (ours instanceof Refused && ours.code === "WRONGTYPE") return null;
  throw error;
}

module.exports = {
  LockstockError,
  NotGranted,
  NotReplicated,
  AlreadyHeld,
  Lost,
  Unreachable,
  NotReleased,
  Closed,
  Refused,
  Deadlock,
  Cancelled,
  NotHeld,
  NoSale,
  SaleExists,
  ModuleMissing,
  nullIfOther,
  ofServer,
  passes,
  passesForRelease,
};
