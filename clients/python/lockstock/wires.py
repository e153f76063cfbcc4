"""Connections for threads, apart from those of the client: what is asked over them ends in time, whatever the client's settings are."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Optional

from .clients import CONNECT, is_cluster, is_moving, is_news, is_there, library, others, parts, place, tell
from .errors import is_answer, kinds
from .steps import Ask, Rest, Steps, T
from .terms import Key, now

# So many idle connections to one server are kept.
SPARE = 64
# An idle connection that was used so many seconds ago is taken for a live one.
FRESH = 1.0
# The longest time that the system is asked to wait at once.
LONG = 86_400.0

# A server that says nothing to one that waits is asked each so many seconds whether it is there, and the primary still.
LOOK = 5.0

PING = b"*1\r\n$4\r\nPING\r\n"

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
    finally:
        # What it keeps ends now, and not with the last that knows of its error.
        steps.close()


def spawn(work: Callable[[], Any], *, outlives: bool = False) -> threading.Event:
    """Work in the background, and what tells that it is done; with `outlives` the process does not end before it."""
    done = threading.Event()

    def body() -> None:
        try:
            work()
        finally:
            done.set()

    try:
        # While the interpreter ends, a thread that is started never runs, and its start waits for that.
        if sys.is_finalizing():
            raise RuntimeError
        threading.Thread(target=body, name="lockstock", daemon=not outlives).start()
    except RuntimeError:
        # There may be too many threads, too.
        done.set()
    return done


def _idle(client: Any) -> dict[str, list[Any]]:
    """The idle connections of a client, by the server's name. The client keeps them, for they may know it. In the child of a fork: none,
    for they are its parent's."""
    pid, idle = getattr(client, "_lockstock_idle", (0, {}))
    if pid != os.getpid():
        pid, idle = client._lockstock_idle = os.getpid(), {}
    return idle


class Wire:
    """One connection for one caller at a time, made anew where it must be."""

    def __init__(self, client: Any, key: Key) -> None:
        self._client, self._key = client, key
        self._place = ""
        self._connection: Any = None
        # One to the server to which the key is moving.
        self._moved: Any = None
        # What asks whether a server is there.
        self._looks: Optional[Wire] = None
        self.is_cut = False
        # Whether a session was asked, and has not answered.
        self._asked = False

    def do(self, step: Any) -> Any:
        if isinstance(step, Ask):
            return self.ask(step)
        assert isinstance(step, Rest)
        # The next one may go to another server.
        if step.learns:
            self.give_back()
            self.learn()
        time.sleep(step.seconds)
        self._check()
        return None

    def ask(self, step: Ask) -> list[Any]:
        """Sends commands, and gives their answers back."""
        try:
            self._check()
            try:
                connection = self._connection or self._connect(step.until)
            except Exception as error:
                setattr(error, "unsent", True)
                raise
            self._check()
            answers = self._exchange(connection, step.commands, step.until)
            for place, said in enumerate(answers):
                if step.moves and is_moving(self._client, said):
                    answers[place] = self._follow(step.commands[place], said, step.until)
            return answers
        except BaseException:
            # Others to the same server may have gone the same way.
            _idle(self._client).pop(self._place, None)
            self.drop()
            raise

    def cut(self) -> None:
        """Ends what another thread asks over this."""
        self.is_cut = True
        if self._looks is not None:
            self._looks.cut()
        for connection in self._connection, self._moved:
            socket = getattr(connection, "_sock", None)
            if socket is not None:
                try:
                    # The thread that reads closes it.
                    socket.shutdown(2)
                except OSError:
                    pass

    def lasts(self) -> bool:
        """Whether the connection of a session has answered since this was asked last. It is asked again, also so that nothing on the way takes
        it for idle. Nobody else uses it."""
        socket = getattr(self._connection, "_sock", None)
        if socket is None:
            return False
        try:
            # Nothing is waited for here.
            socket.settimeout(0)
            while socket.recv(4096):
                self._asked = False
            return False
        except (OSError, ValueError) as error:
            if not kinds(error) & {"BlockingIOError", "SSLWantReadError"}:
                return False
        if self._asked:
            return False
        try:
            socket.sendall(PING)
        except (OSError, ValueError):
            return False
        self._asked = True
        return True

    def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def give_back(self) -> None:
        """Leaves the connection to those who ask next."""
        connection, self._connection = self._connection, None
        if connection is not None:
            spare = _idle(self._client).setdefault(self._place, [])
            if len(spare) < SPARE and not self.is_cut:
                spare.append((connection, now()))
            else:
                connection.disconnect()

    def _check(self) -> None:
        if self.is_cut:
            raise ConnectionAbortedError("the wait was cancelled")

    def _connect(self, until: float) -> Any:
        self._place = place(self._client, self._key)
        spare = _idle(self._client).get(self._place, [])
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

    def _follow(self, command: Sequence[Any], moving: Any, until: float) -> Any:
        kind, arguments = parts(self._client, self._key, moving)
        self._moved = connection = _Connecting(kind(**arguments), self).result(until)
        try:
            self._check()
            return self._exchange(connection, [["ASKING"], command], until)[1]
        finally:
            self._moved = None
            connection.disconnect()

    def _exchange(self, connection: Any, commands: Sequence[Any], until: float) -> list[Any]:
        _limit(connection, until)
        connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        return [self._read(connection, until) for _ in commands]

    def _read(self, connection: Any, until: float) -> Any:
        while not connection.can_read(min(max(until - now(), 0), LOOK)):
            if now() >= until or not self._is_there(connection, until):
                raise library(connection).TimeoutError("no answer in time")  # type: ignore[union-attr]
        # What has begun may stop in its middle.
        _limit(connection, until)
        try:
            return connection.read_response()
        except Exception as error:
            if not is_answer(error):
                raise
            return error

    def _is_there(self, connection: Any, until: float) -> bool:
        """Whether the server of a connection answers, and is the one that would be asked now."""
        self._looks = other = Wire(self._client, self._key)
        try:
            self._check()
            other.ask(Ask([["PING"]], min(until, now() + LOOK)))
            return is_there(connection, other._connection)
        except Exception as error:
            # One that refuses this is there.
            return "TimeoutError" not in kinds(error)
        finally:
            self._looks = None
            other.give_back()

    def learn(self) -> None:
        """Has the client of a cluster learn where the key is now. The other nodes know it, also when the key's does not answer."""
        if not is_cluster(self._client) or self._client in _learning:
            return
        _learning.add(self._client)

        def learn() -> None:
            try:
                if not any(self._tells(node) for node in others(self._client, self._key)):
                    # That takes as long as the client likes.
                    self._client.execute_command("LOCK.INFO", self._key)
            except Exception:
                pass
            finally:
                _learning.discard(self._client)

        spawn(learn)

    def _tells(self, node: Any) -> bool:
        """Whether a node says where the key is."""
        kind, arguments = parts(self._client, self._key, node=node)
        connection = kind(**arguments)
        try:
            connection.connect()
            [answer] = self._exchange(connection, [["LOCK.INFO", self._key]], now() + 1)
            moved = "MovedError" in kinds(answer)
            if moved and is_news(self._client, self._key, answer):
                tell(self._client, answer)
            return moved
        except Exception:
            return False
        finally:
            connection.disconnect()


class _Connecting:
    """A connection that is being made in a thread, for names, Sentinels and credentials are asked for as long as it takes."""

    def __init__(self, connection: Any, wire: Wire) -> None:
        self._connection, self._wire = connection, wire
        self._done = threading.Event()
        self._turn = threading.Lock()
        self._abandoned = False
        self._error: Optional[BaseException] = None

    def result(self, until: float) -> Any:
        if spawn(self._make).is_set() and not self._done.is_set():
            self._make()
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


def _limit(connection: Any, until: float) -> None:
    """Bounds each of a connection's next steps."""
    socket = getattr(connection, "_sock", None)
    if socket is not None:
        socket.settimeout(min(max(until - now(), 0.01), CONNECT))


def _forget() -> None:
    """In the child of a fork."""
    global _learning
    _learning = weakref.WeakSet()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
