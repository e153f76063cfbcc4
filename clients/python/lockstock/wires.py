"""Connections for threads, apart from those of the client: what is asked over them ends in time, whatever the client's settings are."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Optional

from .clients import is_cluster, is_moving, library, parts, place
from .errors import is_answer
from .steps import Ask, Rest, Steps, T
from .terms import Key, now

# So many idle connections to one server are kept.
SPARE = 64
# An idle connection that was used so many seconds ago is taken for a live one.
FRESH = 1.0
# The longest time that the system is asked to wait at once.
LONG = 86_400.0

# The idle connections of each client, by the server's name.
_idle: weakref.WeakKeyDictionary[Any, dict[str, list[Any]]] = weakref.WeakKeyDictionary()
# Clients of clusters that are learning where everything is now.
_learning: weakref.WeakSet[Any] = weakref.WeakSet()


def play(steps: Steps[T], wire: Wire) -> T:
    """Does one step after the other, until it is known what came of them."""
    try:
        step = next(steps)
        while True:
            try:
                answer = wire.do(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def spawn(work: Callable[[], Any], *, outlives: bool = False) -> threading.Event:
    """Work in the background, and what tells that it is done; with `outlives` the process does not end before it."""
    done = threading.Event()

    def body() -> None:
        try:
            work()
        finally:
            done.set()

    try:
        threading.Thread(target=body, name="lockstock", daemon=not outlives).start()
    except RuntimeError:
        # The interpreter is about to end, or there are too many threads: as if no server had answered.
        done.set()
    return done


class Wire:
    """One connection for one caller at a time, made anew where it must be."""

    def __init__(self, client: Any, key: Key) -> None:
        self._client, self._key = client, key
        self._place = ""
        self._connection: Any = None
        self.is_cut = False

    def do(self, step: Any) -> Any:
        if isinstance(step, Ask):
            return self.ask(step)
        assert isinstance(step, Rest)
        self.learn()
        time.sleep(step.seconds)
        self._check()
        return None

    def ask(self, step: Ask) -> list[Any]:
        """Sends commands, and gives their answers back."""
        try:
            self._check()
            connection = self._connection or self._connect(step.until)
            self._check()
            answers = self._exchange(connection, step.commands, step.until)
            moving = is_moving(self._client, answers) if step.moves else None
            return answers if moving is None else self._follow(step, moving)
        except BaseException:
            # Others to the same server may have gone the same way.
            _idle.get(self._client, {}).pop(self._place, None)
            self.drop()
            raise

    def cut(self) -> None:
        """Ends what another thread asks over this."""
        self.is_cut = True
        socket = getattr(self._connection, "_sock", None)
        if socket is not None:
            try:
                # The thread that reads closes it.
                socket.shutdown(2)
            except OSError:
                pass

    def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def give_back(self) -> None:
        """Leaves the connection to those who ask next."""
        connection, self._connection = self._connection, None
        if connection is not None:
            spare = _idle.setdefault(self._client, {}).setdefault(self._place, [])
            if len(spare) < SPARE:
                spare.append((connection, now()))
            else:
                connection.disconnect()

    def _check(self) -> None:
        if self.is_cut:
            raise ConnectionAbortedError("the wait was cancelled")

    def _connect(self, until: float) -> Any:
        self._place = place(self._client, self._key)
        spare = _idle.get(self._client, {}).get(self._place, [])
        while spare:
            try:
                connection, used = spare.pop()
                # Nothing is to be read from one that is idle, unless it was closed.
                if now() - used < FRESH or not connection.can_read(0):
                    self._connection = connection
                    return connection
                connection.disconnect()
            except Exception:
                continue
        kind, arguments = parts(self._client, self._key)
        self._connection = _Connecting(kind(**arguments), self).result(until)
        return self._connection

    def _follow(self, step: Ask, moving: Any) -> list[Any]:
        kind, arguments = parts(self._client, self._key, moving)
        connection = _Connecting(kind(**arguments), self).result(step.until)
        try:
            return self._exchange(connection, [["ASKING"], *step.commands], step.until)[1:]
        finally:
            connection.disconnect()

    def _exchange(self, connection: Any, commands: Sequence[Any], until: float) -> list[Any]:
        connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        return [self._read(connection, until) for _ in commands]

    def _read(self, connection: Any, until: float) -> Any:
        while not connection.can_read(min(max(until - now(), 0), LONG)):
            if now() >= until:
                raise library(connection).TimeoutError("no answer in time")  # type: ignore[union-attr]
        try:
            return connection.read_response()
        except Exception as error:
            if not is_answer(error):
                raise
            return error

    def learn(self) -> None:
        """Asking anything of the key has the client of a cluster learn where it is now. That takes as long as the client likes."""
        if not is_cluster(self._client) or self._client in _learning:
            return
        _learning.add(self._client)

        def learn() -> None:
            try:
                self._client.execute_command("LOCK.INFO", self._key)
            except Exception:
                pass
            finally:
                _learning.discard(self._client)

        spawn(learn)


class _Connecting:
    """A connection that is being made in a thread, for names, Sentinels and credentials are asked for as long as it takes."""

    def __init__(self, connection: Any, wire: Wire) -> None:
        self._connection, self._wire = connection, wire
        self._done = threading.Event()
        self._turn = threading.Lock()
        self._abandoned = False
        self._error: Optional[BaseException] = None

    def result(self, until: float) -> Any:
        spawn(self._make)
        try:
            while not self._done.wait(min(max(until - now(), 0), 0.05)):
                if self._wire.is_cut or now() >= until:
                    raise library(self._connection).TimeoutError("no connection in time")  # type: ignore[union-attr]
        except BaseException:
            with self._turn:
                self._abandoned = True
                if self._done.is_set():
                    self._connection.disconnect()
            raise
        if self._error is not None:
            raise self._error
        return self._connection

    def _make(self) -> None:
        try:
            self._connection.connect()
        except BaseException as error:
            self._error = error
        with self._turn:
            self._done.set()
            if self._abandoned:
                self._connection.disconnect()


def _forget() -> None:
    """In the child of a fork: the connections are its parent's."""
    global _idle, _learning
    _idle, _learning = weakref.WeakKeyDictionary(), weakref.WeakSet()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
