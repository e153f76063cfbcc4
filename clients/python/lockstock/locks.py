"""Locks over a plain client, and what they share with those over an asyncio client."""

from __future__ import annotations

import math
import os
import threading
import time
import uuid
from typing import Any, Optional

# How much later than asked for the answer to a wait may come before the server is taken for dead.
GRACE = 5.0
# How long to wait before asking a server again that could not answer.
PAUSE = 0.05


class NotGranted(Exception):
    """The lock was not granted within the wait."""


class Lost(Exception):
    """The hold had ended before it was released: somebody else may have had the lock meanwhile."""


class Request:
    """What plain and asyncio locks share: the words that are sent, and what is made of the answers."""

    def __init__(
        self,
        client: Any,
        *keys: str,
        wait: float = 0.0,
        lease: float = 30.0,
        token: Optional[str] = None,
        shared: bool = False,
        limit: Optional[int] = None,
        session: bool = False,
        extend: bool = True,
    ) -> None:
        """Asks for one lock, or for all of several (then neither `shared` nor `limit`).

        wait: how long to stand in line at most; 0: not at all; math.inf: as long as it takes.
        lease: how long the hold outlasts a process that died or froze. While it lives, it is extended, unless `extend` is false.
        token: who asks. Give one task's locks the same, and the server sees when two tasks wait for each other (error DEADLOCK).
        session: the hold also ends, at once, with the connection it was asked over, which is kept for that.
        """
        if not keys:
            raise ValueError("a lock needs a key")
        self.keys = keys
        self.token = token or uuid.uuid4().hex
        self.lease = lease
        self.fence = 0
        """A number larger than that of every grant before: have what you write to refuse smaller ones."""
        self._client = client
        self._wait = wait
        self._extend = extend
        self._session = session
        self._connection: Any = None
        self._until = 0.0
        self._over = threading.Event()
        self._asking: Any = None
        """The thread or task that asks for the lock just now."""
        self._lease_words = ["PX", str(ms(lease))]
        self._mode = ["SHARED"] if shared else ["LIMIT", str(limit)] if limit is not None else []

    @property
    def held(self) -> bool:
        """Whether the hold should last still, by this process's clock: the lease since it was last asked for is not over."""
        return time.monotonic() < self._until

    def _acquire_words(self, left: float) -> list[str]:
        several = len(self.keys) > 1
        words = ["LOCK.MACQUIRE", str(len(self.keys))] if several else ["LOCK.ACQUIRE"]
        words += [*self.keys, "TOKEN", self.token, *self._lease_words, *self._mode]
        if left > 0:
            words += ["WAIT", "0" if math.isinf(left) else str(ms(left))]
        return words + ["SESSION"] if self._session else words

    def _words(self, verb: str) -> list[str]:
        if len(self.keys) > 1:
            return [f"LOCK.M{verb}", self.token, str(len(self.keys)), *self.keys]
        return [f"LOCK.{verb}", self.keys[0], self.token]

    def _granted(self, reply: Any, since: float) -> bool:
        """Reads an answer; a lease that it tells of counts from `since`, if nobody knows better."""
        if reply is None:
            return False
        self.fence = int(reply[1])
        self._until = since + self.lease
        return True

    def _parts(self, read_time_out: Optional[float]) -> tuple[Any, dict[str, Any]]:
        """The class and arguments of a connection like the client's to the server of these keys."""
        if hasattr(self._client, "get_node_from_key"):
            node = self._client.get_node_from_key(self.keys[0])
            # A node of an asyncio cluster is such a pool itself. Those of plain ones have their client by its library's name.
            node = getattr(node, "redis_connection", getattr(node, "valkey_connection", node))
            pool = getattr(node, "connection_pool", node)
        else:
            pool = self._client.connection_pool
        arguments = {**pool.connection_kwargs, "socket_timeout": read_time_out}
        if "host" in arguments:
            # So that a wait without limit notices a server that is gone without a word.
            arguments["socket_keepalive"] = True
        return pool.connection_class, arguments

    def _not_granted(self) -> NotGranted:
        return NotGranted(f"{', '.join(self.keys)}: not granted within {self._wait} s")

    def _was_lost(self) -> Lost:
        return Lost(f"{', '.join(self.keys)}: the hold had ended before it was released")


class Lock(Request):
    """A lock for `with`. What may be asked for stands at `Request.__init__`."""

    lost: threading.Event
    """Is set when the hold has ended before it was released, or may have."""

    def __enter__(self) -> Lock:
        if not self.acquire():
            raise self._not_granted()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if os.getpid() != self._holder:
            # The child of a fork has a copy of this object. The lock is its parent's.
            return
        try:
            whole = self.release()
        except Exception as error:
            # The work is done, and nobody else has the lock before the lease ends.
            if not (self.held and passes(error)):
                raise
        else:
            if not whole and kind is None:
                raise self._was_lost()

    def acquire(self) -> bool:
        """Asks and waits; asks again when a connection broke or the lock is on another server now."""
        self.lost, self._over = threading.Event(), threading.Event()
        self._asking, self._holder = threading.get_ident(), os.getpid()
        try:
            pause = self._stand(time.monotonic() + self._wait)
        except BaseException as error:
            if not is_answer(error):
                self._withdraw()
            raise
        finally:
            self._asking = None
        if pause is None:
            return False
        if self._over.is_set():
            # The release came to the server before the request.
            self._withdraw()
            self._hang_up()
            return False
        threading.Thread(target=self._watch, daemon=True).start()
        if self._extend:
            threading.Thread(target=self._keep, args=[pause], daemon=True).start()
        return True

    def release(self) -> bool:
        """Ends the hold; also a wait, from another thread. Whether there was a whole hold to end."""
        self._over.set()
        try:
            while True:
                whole = bool(self._say_release() == len(set(self.keys)))
                # A request that is still on its way would stand in line after this.
                if whole or self._asking in (None, threading.get_ident()):
                    return whole
                time.sleep(PAUSE)
        finally:
            self._hang_up()

    def _stand(self, end: float) -> Optional[float]:
        """Stands in line; when to extend the hold for the first time, or None: not granted."""
        # Without a wait at first: most locks are free, and this needs no connection of its own.
        left = self._wait if self._session else 0.0
        while not self._over.is_set():
            try:
                if self._ask(left):
                    # After a wait at once: nobody knows how long the answer took.
                    return 0.0 if left else self.lease / 3
                if left or not self._wait:
                    return None
                left = end - time.monotonic()
            except Exception as error:
                left = end - time.monotonic()
                if left <= 0 or not passes(error):
                    raise
                self._over.wait(PAUSE)
                self._find()
        return None

    def _ask(self, left: float) -> bool:
        sent, words = time.monotonic(), self._acquire_words(left)
        if not left and not self._session:
            return self._granted(self._client.execute_command(*words), sent)
        kind, arguments = self._parts(None if math.isinf(left) else left + GRACE)
        connection = kind(**arguments)
        granted = False
        try:
            # Here a connection of Sentinel asks who is the primary; when it only sends, it does not.
            connection.connect()
            connection.send_command(*words)
            granted = self._granted(connection.read_response(), time.monotonic())
        finally:
            if granted and self._session:
                self._connection = connection
            else:
                connection.disconnect()
        return granted

    def _find(self) -> None:
        """Asking anything of the key has the client of a cluster learn where it is now."""
        try:
            self._client.execute_command("LOCK.INFO", self.keys[0])
        except Exception as error:
            if not passes(error):
                raise

    def _say_release(self) -> Any:
        end = time.monotonic() + GRACE
        while True:
            try:
                return self._client.execute_command(*self._words("RELEASE"))
            except Exception as error:
                if not is_crowd(error) or time.monotonic() > end:
                    raise
                time.sleep(PAUSE)

    def _withdraw(self) -> None:
        try:
            self._say_release()
        except Exception as error:
            # Out of reach: the place went with the connection, and what was granted ends with its lease.
            if not passes(error):
                raise

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def _watch(self) -> None:
        """Tells when the hold is over, also while a server that does not answer is asked to extend it."""
        over = self._over
        while not over.wait(max(self._until - time.monotonic(), 0)):
            if not self.held:
                self.lost.set()
                return

    def _keep(self, pause: float) -> None:
        while not self._over.wait(pause):
            sent = time.monotonic()
            try:
                whole = self._client.execute_command(*self._words("EXTEND"), *self._lease_words) == 1
                self._until = sent + self.lease if whole else 0.0
                pause = self.lease / 3
            except Exception:
                # No answer says nothing; the clock does.
                pause = self.lease / 20
            if not self.held and not self._over.is_set():
                self.lost.set()
                return


def ms(seconds: float) -> int:
    return max(math.ceil(seconds * 1000), 1)


def _kinds(error: BaseException) -> set[str]:
    """The names of an error's classes: those of redis-py and valkey-py are the same."""
    return {kind.__name__ for kind in type(error).__mro__}


def is_answer(error: BaseException) -> bool:
    """Whether the server has said no: then the token neither waits nor has got anything by this request."""
    return bool(_kinds(error) & {"ResponseError", "Failed"})


def is_crowd(error: BaseException) -> bool:
    """Whether all connections that the client's pool may have are in use: nothing was sent, and one is free soon."""
    return str(error) == "Too many connections" or "MaxConnectionsError" in _kinds(error)


def passes(error: BaseException) -> bool:
    """Whether asking again, of the same server or another, may help."""
    kinds = _kinds(error)
    if "AuthenticationError" in kinds:
        return False
    moved = {"AskError", "TryAgainError", "ClusterDownError", "MasterDownError", "ReadOnlyError", "BusyLoadingError"}
    if kinds & (moved | {"ConnectionError", "TimeoutError", "OSError"}):
        return True
    # The server was demoted: it tells who is parked, and in other words who waits by NOTIFY. Or the keys are elsewhere.
    demoted = ("UNBLOCKED force", "UNBLOCKED this server")
    return str(error).startswith((*demoted, "MOVED", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING"))
