/** The errors that this package throws, but for wrong arguments: those are a `TypeError` or a `RangeError`. */
export class LockstockError extends Error {
    get name(): string;
}
/** The lock was not granted within the wait. */
export class NotGranted extends LockstockError {
}
/** The lock was granted, but too few replicas have heard of it in time. It was released again. */
export class NotReplicated extends NotGranted {
}
/** The task that asks for the lock has it already, or waits for it already. A lock is not reentrant. */
export class AlreadyHeld extends LockstockError {
}
/** The hold had ended before it was released: another token may have had the lock since. */
export class Lost extends LockstockError {
}
/** The server did not answer in time: it is out of reach, frozen or refuses connections. `cause` is the client's last error. */
export class Unreachable extends LockstockError {
}
/** The server did not answer to the release in time: the hold has ended, or its lease ends it. */
export class NotReleased extends Unreachable {
    /** What the work of `using` had come to: it was done while the lock was held. @type {unknown} */
    result: unknown;
}
/** The `Locks` were closed, or their client. */
export class Closed extends LockstockError {
}
/** The server said no. `code` is the first word of its answer, `cause` the client's own error. */
export class Refused extends LockstockError {
    /** @param {Error} cause */
    constructor(cause: Error);
    /** For example "WRONGTYPE", "NOPERM", "OOM". @type {string} */
    code: string;
}
/** The token waits for a lock, the holder of which waits for it. Release your holds, and begin again. */
export class Deadlock extends Refused {
}
/** The token was released while it waited. */
export class Cancelled extends Refused {
}
/** The guarded command did not run: the hold has ended. */
export class NotHeld extends Refused {
}
/** There is no sale of this name. */
export class NoSale extends Refused {
}
/** There is a sale of this name already, or another key. */
export class SaleExists extends Refused {
}
/** The server does not know these commands: the module lockstock is not loaded, or an older version of it. */
export class ModuleMissing extends Refused {
}
/**
 * Null, as of what is not there, where an answer says that a key has another value: then nothing is held of it. Any other error is thrown.
 * @param {any} error
 */
export function nullIfOther(error: any): null;
/** An error as this package throws it. @param {any} error @returns {Error} */
export function ofServer(error: any): Error;
/**
 * Whether asking again, of the same server or another, may help: no answer, or one of a server that cannot serve just now. `ERR Can't
 * execute` is the answer to ioredis itself, which asks a new connection for INFO after it has begun to listen there.
 * @param {any} error
 */
export function passes(error: any): boolean;
/** The same of a release, which is worth asking for again also where nothing may be written just now. @param {any} error */
export function passesForRelease(error: any): boolean;
