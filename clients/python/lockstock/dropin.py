"""Locks with the methods of those of redis-py and valkey-py: `redis.lock("job", lock_class=lockstock.DropInLock)`."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
import types
from typing import Any, Optional, Union

from .aio import AsyncLock
from .clients import AsyncClient, Client, library
from .errors import AlreadyHeld, LockstockError, Refused, is_over
from .locks import Lock
from .terms import Key, now, seconds

# How long a lock without a time-out outlasts a process that died.
LEASE = 30.0

_log = logging.getLogger("lockstock")


class _DropIn:
    """What both have in common.

    timeout: the lock ends so many seconds after it was granted; None: it is extended until it is released.
    blocking, blocking_timeout: whether to stand in line, and for how many seconds at most; None: as long as it takes.
    sleep: how often to ask for a lock that is held by SET NX, as redis-py does it; for others nothing is asked again and again.
    thread_local: whether a thread sees its own token only. raise_on_release_error: whether the end of a block tells that it was lost.
    """

    def __init__(
        self,
        redis: Any,
        name: Key,
        timeout: Optional[float] = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: Optional[float] = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        self.redis, self.name, self.timeout, self.sleep = redis, name, timeout, sleep
        self.blocking, self.blocking_timeout = blocking, blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = threading.local() if self.thread_local else types.SimpleNamespace()
        self._errors: Any = library(redis)
        self._forget()

    def _forget(self) -> Any:
        """Takes the hold from its place."""
        hold = getattr(self.local, "hold", None)
        self.local.token = self.local.hold = None
        return hold

    def _hold(self) -> Any:
        return getattr(self.local, "hold", None)

    def _terms(self, token: Union[str, bytes, None]) -> dict[str, Any]:
        given = token.decode() if isinstance(token, bytes) else token
        return {"lease": self.timeout or LEASE, "extend": not self.timeout, "token": given}

    def _wait(self, sleep: Optional[float], blocking: Optional[bool], limit: Optional[float]) -> float:
        limit = self.blocking_timeout if limit is None else limit
        if not (self.blocking if blocking is None else blocking):
            return 0.0
        if limit is None:
            return math.inf
        # As in redis-py: a caller whose sleep is longer than its wait does not wait.
        return 0.0 if (self.sleep if sleep is None else sleep) > limit else max(limit, 0.0)

    def _got(self, hold: Any) -> bool:
        if hold is not None:
            self.local.hold, self.local.token = hold, hold.token.encode()
            # One with a time-out may be left to it.
            hold._warns = not self.timeout
        return hold is not None

    def _error(self, said: str, kind: str = "LockError") -> Exception:
        error: Exception = getattr(self._errors, kind)(said)
        error.lock_name = self.name  # type: ignore[attr-defined]
        return error

    def _not_owned(self, what: str) -> Exception:
        return self._error(f"Cannot {what} a lock that's no longer owned", "LockNotOwnedError")

    def _extends(self, what: str) -> Any:
        if self._hold() is None:
            raise self._error(f"Cannot {what} an unlocked lock")
        if self.timeout is None:
            raise self._error(f"Cannot {what} a lock with no timeout")
        return self._hold()

    def _lease(self, hold: Any, additional: float, replaces: bool) -> float:
        return seconds("additional_time", additional) + (0 if replaces else max(hold._ends - now(), 0))

    def _left(self, error: Exception) -> None:
        """What the end of a block makes of an error."""
        if self.raise_on_release_error:
            raise error
        _log.warning("Lock was unlocked or no longer owned when exiting context manager.")


def _if_other(error: LockstockError, answer: bool) -> bool:
    """The answer if another has it: the key holds something else, such as the string of a lock by SET NX, or the token is in use."""
    if not isinstance(error, AlreadyHeld) and not is_over(error):
        raise error
    return answer


class DropInLock(_DropIn):
    """A `lock_class` for the `lock` method of a plain client; its arguments are those of that method."""

    def acquire(
        self,
        sleep: Optional[float] = None,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[float] = None,
        token: Union[str, bytes, None] = None,
    ) -> bool:
        """Whether the lock is ours now."""
        client: Client = self.redis
        end = now() + self._wait(sleep, blocking, blocking_timeout)
        lock = Lock(client, self.name, **self._terms(token))
        while True:
            try:
                return self._got(lock.acquire(max(end - now(), 0)))
            except (AlreadyHeld, Refused) as error:
                pause = self.sleep if sleep is None else sleep
                if _if_other(error, now() + pause > end):
                    return False
                time.sleep(pause)

    def release(self) -> None:
        """Ends the hold. Raises `LockError` if there is none, `LockNotOwnedError` if it was over."""
        hold = self._forget()
        if hold is None:
            raise self._error("Cannot release a lock that's not owned or is already unlocked.")
        if not hold.release():
            raise self._not_owned("release")

    def locked(self) -> bool:
        """Whether anyone has this lock."""
        try:
            return Lock(self.redis, self.name).locked()
        except Refused as error:
            return _if_other(error, True)

    def owned(self) -> bool:
        """Whether this has the lock, by the server's word."""
        return self._hold() is not None and bool(self._hold().owned())

    def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        """Adds so many seconds to what the lock has left, or lets it have so many from now."""
        hold = self._extends("extend")
        return self._extend(hold, self._lease(hold, additional_time, replace_ttl), "extend")

    def reacquire(self) -> bool:
        """Lets the lock have its time-out again, from now."""
        return self._extend(self._extends("reacquire"), self.timeout or LEASE, "reacquire")

    def __enter__(self) -> DropInLock:
        if self.acquire():
            return self
        raise self._error("Unable to acquire lock within the time specified")

    def __exit__(self, *_: Any) -> None:
        try:
            self.release()
        except self._errors.LockError as error:
            self._left(error)

    def _extend(self, hold: Any, lease: float, what: str) -> bool:
        if not hold.extend(lease):
            raise self._not_owned(what)
        return True


class AsyncDropInLock(_DropIn):
    """A `lock_class` for the `lock` method of an asyncio client; its arguments are those of that method."""

    async def acquire(
        self,
        sleep: Optional[float] = None,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[float] = None,
        token: Union[str, bytes, None] = None,
    ) -> bool:
        """Whether the lock is ours now."""
        client: AsyncClient = self.redis
        end = now() + self._wait(sleep, blocking, blocking_timeout)
        lock = AsyncLock(client, self.name, **self._terms(token))
        while True:
            try:
                return self._got(await lock.acquire(max(end - now(), 0)))
            except (AlreadyHeld, Refused) as error:
                pause = self.sleep if sleep is None else sleep
                if _if_other(error, now() + pause > end):
                    return False
                await asyncio.sleep(pause)

    async def release(self) -> None:
        """Ends the hold. Raises `LockError` if there is none, `LockNotOwnedError` if it was over."""
        hold = self._forget()
        if hold is None:
            raise self._error("Cannot release a lock that's not owned or is already unlocked.")
        if not await hold.release():
            raise self._not_owned("release")

    async def locked(self) -> bool:
        """Whether anyone has this lock."""
        try:
            return await AsyncLock(self.redis, self.name).locked()
        except Refused as error:
            return _if_other(error, True)

    async def owned(self) -> bool:
        """Whether this has the lock, by the server's word."""
        return self._hold() is not None and bool(await self._hold().owned())

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        """Adds so many seconds to what the lock has left, or lets it have so many from now."""
        hold = self._extends("extend")
        return await self._extend(hold, self._lease(hold, additional_time, replace_ttl), "extend")

    async def reacquire(self) -> bool:
        """Lets the lock have its time-out again, from now."""
        return await self._extend(self._extends("reacquire"), self.timeout or LEASE, "reacquire")

    async def __aenter__(self) -> AsyncDropInLock:
        if await self.acquire():
            return self
        raise self._error("Unable to acquire lock within the time specified")

    async def __aexit__(self, *_: Any) -> None:
        try:
            await self.release()
        except self._errors.LockError as error:
            self._left(error)

    async def _extend(self, hold: Any, lease: float, what: str) -> bool:
        if not await hold.extend(lease):
            raise self._not_owned(what)
        return True
