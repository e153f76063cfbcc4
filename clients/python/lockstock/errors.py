"""The errors of this package, and what an error of a client library or of the server means to it."""

from __future__ import annotations

import re
from typing import Any, Optional


class LockstockError(Exception):
    """The base of every error of this package, but for `TypeError` and `ValueError`, which wrong arguments raise."""


class NotGranted(LockstockError):
    """The lock was not granted within the wait."""


class NotReplicated(NotGranted):
    """The lock was granted, but not on as many replicas as asked for, so it was released."""


class Lost(LockstockError):
    """The hold had ended before it was released: another caller may have had the lock meanwhile."""


class AlreadyHeld(LockstockError):
    """The caller holds this lock already, or waits for it. A lock is not reentrant."""


class NotHeld(LockstockError):
    """What needs the lock was not done, for the caller does not hold it."""


class Unreachable(LockstockError):
    """No server answered in time, or with what is no answer. The request may have been done."""


class NotReleased(Unreachable):
    """No server answered the release in time, or one did that did not know the hold any more, after an answer that was lost. The lock is
    free at the latest when its lease ends."""


class Refused(LockstockError):
    """The server refused the request, in the words of this error."""


class Closed(LockstockError, RuntimeError):
    """The `Line` by which this waits was closed."""


class Deadlock(Refused):
    """Waiting would close a circle of callers that wait for each other."""


class ModuleMissing(Refused):
    """The server has not loaded the module."""


class NoSale(Refused):
    """There is no sale of this name."""


class SaleExists(Refused):
    """There is a sale of this name, or another key."""


_BY_WORD: dict[str, type[LockstockError]] = {
    "DEADLOCK": Deadlock,
    "NOTHELD": NotHeld,
    "NOSTOCK": NoSale,
    "BUSYKEY": SaleExists,
}
# What the client of a cluster raises by itself: an error of no other kind.
_CLUSTER = {"RedisClusterException", "ValkeyClusterException"}
# What reading raises that is no answer: bytes that are none, or an answer of another form.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)
_BOTH: dict[tuple[type, type], type[LockstockError]] = {}


def kinds(error: object) -> set[str]:
    """The names of an error's classes: those of redis-py and valkey-py are the same."""
    return {kind.__name__ for kind in type(error).__mro__}


def is_answer(error: BaseException) -> bool:
    """Whether the server has said no: then the token neither waits nor has got anything by this request. By an earlier one it may."""
    return bool(kinds(error) & {"ResponseError", "Refused"})


def is_crowd(error: BaseException) -> bool:
    """Whether all connections that the client's pool may have are in use: nothing was sent, and one is free soon."""
    return str(error) == "Too many connections" or "MaxConnectionsError" in kinds(error)


def is_unsent(error: BaseException) -> bool:
    """Whether nothing was done: the server has said no, or there was no connection."""
    return is_answer(error) or is_crowd(error) or hasattr(error, "unsent")


def is_undone(error: BaseException) -> bool:
    """Whether nothing was done, and asking again, of the same server or another, may help."""
    return is_crowd(error) or (passes(error) and (is_answer(error) or "BusyLoadingError" in kinds(error)))


def passes(error: BaseException) -> bool:
    """Whether asking again, of the same server or another, may help."""
    names = kinds(error)
    if names & {"AuthenticationError", "NoPermissionError"}:
        return False
    moved = {"AskError", "TryAgainError", "ClusterDownError", "MasterDownError", "ReadOnlyError", "BusyLoadingError"}
    unknown = {"SlotNotCoveredError", "MasterNotFoundError", "ClusterError"}
    if names & _CLUSTER:
        # No node answered; or the program asked for what no node can do.
        return not _is_apart(error)
    if names & (moved | unknown | {"ConnectionError", "TimeoutError", "OSError"}):
        return True
    # The server was demoted: it tells the parked clients, and in other words the requests with NOTIFY. Or the keys are elsewhere.
    demoted = ("UNBLOCKED force", "UNBLOCKED this server")
    return str(error).startswith((*demoted, "MOVED", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING", "BUSY "))


def passes_for_release(error: BaseException) -> bool:
    """The same of a release, which is worth asking for again also where nothing may be written just now, or where a library stumbled: some do
    if their client is closed meanwhile."""
    return passes(error) or isinstance(error, _UNREADABLE) or str(error).startswith(("NOREPLICAS", "MISCONF"))


def is_over(error: object) -> bool:
    """Whether the server has said that the token does not hold the lock, or that the key holds something else, and so no lock."""
    return isinstance(error, Exception) and str(error).startswith(("NOTHELD", "WRONGTYPE"))


def is_told(error: BaseException) -> bool:
    """Whether the server has said no to a release, and would say so again."""
    return is_answer(error) and not passes_for_release(error)


def named(error: BaseException, text: Optional[str] = None, kind: Optional[type[LockstockError]] = None) -> Any:
    """The error of this package that says what `error` means. It is an error of the client's library, too, so that a program may
    catch either. What is no error of a server or a connection stays as it is."""
    if isinstance(error, LockstockError):
        return error
    if not kinds(error) & ({"RedisError", "ValkeyError", "OSError", "TimeoutError"} | _CLUSTER):
        if not isinstance(error, _UNREADABLE):
            return error
        unreadable = Unreachable(f"what came is no answer: {error!r}")
        unreadable.__cause__ = error
        return unreadable
    if kind is None:
        kind = _meant(error)
    if kind is ModuleMissing:
        text = f"the server has not loaded the module lockstock (loadmodule liblockstock.so): {error}"
    new = _of_both(kind, type(error), text or str(error), error.__dict__)
    new.__cause__ = error
    return new


def _of_both(kind: type[LockstockError], other: type, said: str, state: dict[str, Any]) -> Any:
    """An error of two classes. It is made so again where one comes from another process."""
    both = _BOTH.get((kind, other))
    if both is None:
        again = {"__reduce__": lambda self: (_of_both, (kind, other, str(self), self.__dict__))}
        both = _BOTH[kind, other] = type(kind.__name__, (kind, other), {"__module__": kind.__module__, **again})
    # Without __init__: those of the libraries' errors take what they like.
    new = both.__new__(both, said)
    new.__dict__.update(state)
    return new


def _is_apart(error: BaseException) -> bool:
    """Whether the library of the client has seen that the keys belong to several nodes."""
    return "must map to the same" in str(error)


def _meant(error: BaseException) -> type[LockstockError]:
    said = str(error)
    # A guarded command may be unknown, too.
    if re.search(r"unknown command\W+(LOCK|STOCK)\.", said, re.IGNORECASE) or "command doesn't exist" in said:
        return ModuleMissing
    # An answer ASK at the end says that the server was not found.
    refused = (is_answer(error) and "AskError" not in kinds(error)) or "AuthenticationError" in kinds(error) or _is_apart(error)
    return _BY_WORD.get(said.partition(" ")[0], Refused if refused else Unreachable)

