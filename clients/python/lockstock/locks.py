"""Locks over a plain client, for threads."""

from __future__ import annotations

import os
import threading
import weakref
from functools import partial
from typing import Any, Optional

from .claims import Claim
from .clients import Client, check, made_of, place
from .errors import LockstockError, NotGranted, NotHeld, NotReleased, is_answer, is_told, named
from .holds import Agenda, Held, Shared, _wait, limit_of, rounds
from .steps import RELEASE, Ask, Grant, Steps, T, locked, once, owning, releasing, standing, taking_over
from .terms import Key, Terms, name, now, seconds, whole
from .wires import LONG, Wire, play, spawn

# So long the end of a wait waits for its withdrawal, which then goes on in the background for so long.
WITHDRAW, BEHIND = 0.05, 2.0


class Hold(Held):
    """A lock that was granted: what `with Lock(…)` and `Lock.acquire` give. Any thread may use it."""

    lost: threading.Event
    """Is set when the hold has ended before it was released, or may have."""

    def __init__(
        self, client: Any, terms: Terms, claim: Claim, grant: Grant, extends: bool, lost: threading.Event, session: Optional[Wire]
    ) -> None:
        self._turn = threading.RLock()
        super().__init__(client, terms, claim, grant, extends, lost, session)
        self._keep()

    def release(self) -> bool:
        """Ends the hold. Whether there was a whole one to end: not if it was lost, or released before. Raises `NotReleased` if the
        server does not answer, within 5 s and within the lease."""
        if self._pid != os.getpid():
            return False
        limit = min(now() + RELEASE, self._ends)
        with self._turn:
            # Another may have released it meanwhile.
            return self._whole is None and self._release(limit)

    def _release(self, limit: float) -> bool:
        self._over = True
        try:
            whole = self._claim.leave(self.fence) and self._ask_release(limit)
        except LockstockError as error:
            self._claim.end(told=is_told(error))
            if not (isinstance(error, NotReleased) and self.lost.is_set()):
                raise
            whole = False
        except BaseException:
            # An interrupt, or what a handler of signals or a pool of greenlets raises.
            _behind(self._client, self._terms, self._claim, self.fence)
            raise
        finally:
            session, self._session = self._session, None
            if session is not None:
                session.drop()
        self._whole = whole and not self.lost.is_set()
        return self._whole

    def _ask_release(self, limit: float) -> bool:
        if now() >= self._ends:
            # It is over by the clock, and for the server perhaps not.
            _behind(self._client, self._terms, self._claim, self.fence)
            return False
        whole = _asked(self._client, self._terms, releasing(self._terms, self.token, self.fence, limit), NotReleased)
        self._claim.end(told=True)
        return whole

    def extend(self, lease: Optional[float] = None) -> bool:
        """Lets the lease end that long from now, and be extended by as much from then on; without `lease`: by as much as before.
        False: the hold is over. For a minute after one, or a request, that was not answered and may arrive late, a longer lease counts as that one."""
        span = None if lease is None else seconds("lease", lease)
        return self.held and _asked(self._client, self._terms, self._extension(span))

    def _keep(self) -> None:
        _keeper.add(self)

    def execute(self, *command: Any) -> Any:
        """Has the server run a command only if the lock is held in that moment (LOCK.GUARD), of several keys the first. Its answer is as
        that of the client's `execute_command`. Raises `NotHeld` if nothing ran, `Unreachable` if that is not known: it is asked once."""
        words = self._guard(command)
        try:
            reply = _asked(self._client, self._terms, once(words, now() + RELEASE))
        except NotHeld:
            self._lose()
            raise
        return made_of(self._client, self.keys[0], command[0], reply)

    def owned(self) -> bool:
        """Whether the server knows this hold."""
        return _asked(self._client, self._terms, owning(self._terms, self.token, self.fence, now() + RELEASE))


class Lock(Shared[Hold]):
    """A lock, or several that are taken together. Threads may share it: each acquisition is a `Hold` of its own.

        with Lock(redis, "job:42", wait=10) as hold:
            write(row, fence=hold.fence)

    wait: how many seconds to stand in line at most; 0: not at all; math.inf: as long as it takes.
    lease: how many seconds the hold outlasts a process that died or froze. While it lives, it is extended, unless `extend` is false.
    token: who asks. Give one thread's locks the same, and the server sees when two threads wait for each other (`Deadlock`).
    shared: together with other readers. limit: as one of so many. Neither goes with several keys.
    session: the hold also ends, at once, with the connection it was asked over, which is kept for that. Within about a second `lost` tells.
    replicas: so many replicas must have the grant within a second, else it is released and `NotReplicated` is raised.
    """

    def __init__(
        self,
        client: Client,
        *keys: Key,
        wait: float = 0.0,
        lease: float = 30.0,
        token: Optional[str] = None,
        shared: bool = False,
        limit: Optional[int] = None,
        session: bool = False,
        extend: bool = True,
        replicas: int = 0,
    ) -> None:
        check(client, False, "Lock")
        super().__init__(client, keys, wait, lease, token, shared, limit, session, extend, replicas)

    @property
    def lost(self) -> threading.Event:
        """That of this thread's hold, or of its first one to come."""
        event: threading.Event = self._lost(threading.Event)
        return event

    def acquire(self, wait: Optional[float] = None) -> Optional[Hold]:
        """Asks and waits; None: not granted. Asks again when a connection broke or the lock is on another server now."""
        return self._acquire(self._wait if wait is None else _wait(wait), False)

    def _acquire(self, span: float, enters: bool) -> Optional[Hold]:
        thread, claim, wire, hold = self._caller(), self._claim(), Wire(self._client, self.keys[0]), None
        try:
            try:
                self._enter(thread, wire)
                grant = play(standing(self._terms, claim, span, False), wire)
                if grant is not None:
                    hold = self._got(thread, claim, grant, wire)
                    if hold is None:
                        self._withdraw(claim)
                    elif enters:
                        self._blocks.add(hold)
                elif claim.may_have_some():
                    self._withdraw(claim)
                else:
                    claim.end()
            finally:
                self._leave(thread, wire)
                if hold is None or not self._terms.session:
                    wire.give_back()
            return hold
        except BaseException as error:
            # An interrupt may come at any place, also just after the grant.
            self._leave(thread, wire)
            got = self._holds.get(thread)
            if got is not None and got._claim is claim:
                got._over = True
                self._blocks.discard(got)
                wire.drop()
            if claim.may_have(error):
                self._withdraw(claim)
            else:
                claim.end()
            if wire.is_cut and isinstance(error, Exception):
                return None
            raise named(error)

    def release(self) -> bool:
        """Ends this thread's hold, as `Hold.release` does. Raises `NotHeld` if other threads only have one."""
        hold = self._mine()
        return hold is not None and hold.release()

    def extend(self, lease: Optional[float] = None) -> bool:
        """As `Hold.extend`, of this thread's hold."""
        return self.hold is not None and self.hold.extend(lease)

    def owned(self) -> bool:
        """Whether the server knows this thread's hold."""
        return self.hold is not None and self.hold.owned()

    def guard(self, *command: Any) -> Any:
        """As `Hold.execute`, of this thread's hold."""
        if self.hold is None:
            raise NotHeld(f"{self._terms.name}: this thread has no hold")
        return self.hold.execute(*command)

    def take_over(self, token: str, fence: int) -> Optional[Hold]:
        """The hold that another process or thread has handed over, extended from now on; None: it is over. Let the lease be no longer than that
        of the hold: what another process has asked for last may arrive late."""
        terms, sent = self._terms, now()
        claim = Claim(self._client, terms, name("a token", token), True)
        if not _asked(self._client, terms, taking_over(terms, claim, whole("a fence", fence, 1), sent + RELEASE)):
            return None
        return Hold(self._client, terms, claim, Grant(fence, sent + terms.lease), self._extends, threading.Event(), None)

    def locked(self) -> bool:
        """Whether anyone holds the lock, or one of several."""
        return _asked(self._client, self._terms, locked(self._terms, now() + RELEASE))

    def __enter__(self) -> Hold:
        # An interrupt may come after each line, and here nothing would give the lock back.
        return self._acquire(self._wait, True) or self._refuse()

    def _refuse(self) -> Hold:
        raise NotGranted(f"{self._terms.name}: not granted within {self._wait:g} s")

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self._exit(kind)
        except Exception:
            raise
        except BaseException:
            hold = self.hold
            if hold is not None and hold._whole is None:
                hold._over = True
                self._blocks.discard(hold)
                _behind(self._client, self._terms, hold._claim, hold.fence)
            raise

    def _exit(self, kind: Any) -> None:
        hold = self._left()
        if hold is None:
            return
        try:
            hold.release()
        except LockstockError:
            if kind is None:
                raise
        else:
            if not hold._whole and kind is None:
                raise hold._was_lost()

    def _caller(self) -> threading.Thread:
        return threading.current_thread()

    def _got(self, thread: threading.Thread, claim: Claim, grant: Grant, wire: Wire) -> Optional[Hold]:
        """None: the wait was cancelled before this was known."""
        with self._turn:
            if wire.is_cut:
                return None
            lost = self._losses.pop(thread, None) or threading.Event()
            session = wire if self._terms.session else None
            hold = Hold(self._client, self._terms, claim, grant, self._extends, lost, session)
            self._holds[thread] = hold
            if not hasattr(_local, "end"):
                _local.end = _End(thread)
            _local.end.locks.add(self)
            return hold

    def _withdraw(self, claim: Claim) -> None:
        """Else the token would get the lock, and nobody would know."""
        _behind(self._client, self._terms, claim, 0, WITHDRAW)


class _End:
    """Goes when its thread ends."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread, self._pid = thread, os.getpid()
        self.locks: weakref.WeakSet[Lock] = weakref.WeakSet()

    def __del__(self) -> None:
        # In the child of a fork all threads but one end at once, in the middle of what they do.
        if self._pid == os.getpid():
            for lock in list(self.locks):
                lock._ended(self._thread)


_local = threading.local()


def _asked(client: Any, terms: Terms, steps: Steps[T], kind: Optional[type[LockstockError]] = None) -> T:
    wire = Wire(client, terms.keys[0])
    try:
        return play(steps, wire)
    except Exception as error:
        raise named(error, kind=None if is_answer(error) else kind)
    finally:
        wire.give_back()


def _behind(client: Any, terms: Terms, claim: Claim, fence: int, wait: float = 0.0) -> None:
    """Releases in the background, and is waited for so long."""

    def say() -> None:
        told = False
        try:
            _asked(client, terms, releasing(terms, claim.token, fence, now() + BEHIND, claim.named and not fence))
            told = True
        except Exception as error:
            # Out of reach: the place went with the connection, and what was granted ends with its lease.
            told = is_told(error)
        finally:
            claim.end(told)

    if claim.leave(fence):
        spawn(say, outlives=True).wait(wait)


class _Keeper:
    """The one thread of a process that has leases extended and looks after sessions, and tells when holds are over."""

    def __init__(self) -> None:
        self._agenda = Agenda()
        self._sooner = threading.Event()
        self._starting = threading.Lock()
        self._runs = False

    def add(self, hold: Hold) -> None:
        if self._agenda.add(hold):
            self._sooner.set()
        if not self._runs:
            with self._starting:
                if not self._runs:
                    self._runs = not spawn(self._run).is_set()

    def _run(self) -> None:
        while True:
            pause = self._turn()
            self._sooner.wait(LONG if pause is None else pause)
            self._sooner.clear()

    def _turn(self) -> Optional[float]:
        holds, pause = self._agenda.turn()
        for some in rounds(holds, _place):
            # In a thread of its own: one server that does not answer must not cost what others hold.
            if spawn(partial(_extend, some)).is_set():
                for hold in some:
                    if hold._asked:
                        # There was no thread for it: as if no server had answered.
                        hold._heard(None, now())
        return pause


def _place(hold: Held) -> str:
    try:
        return place(hold._client, hold.keys[0])
    except Exception:
        return ""


def _extend(holds: list[Any]) -> None:
    wire, sent = Wire(holds[0]._client, holds[0].keys[0]), now()
    replies: list[Any] = [None] * len(holds)
    try:
        replies = wire.do(Ask([hold._question() for hold in holds], limit_of(holds)))
    except Exception:
        pass
    if not all([hold._heard(reply, sent) for hold, reply in zip(holds, replies)]):
        wire.learn()
    wire.give_back()


_keeper = _Keeper()


def _forget() -> None:
    """In the child of a fork: threads are not copied, and what is held is its parent's."""
    global _keeper
    _keeper = _Keeper()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
