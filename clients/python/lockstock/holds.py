"""What the locks of threads and of tasks have in common: who holds what, and when it is to be extended."""

from __future__ import annotations

import heapq
import math
import os
import threading
import uuid
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Optional, TypeVar

from .claims import Claim
from .errors import AlreadyHeld, Lost, NotHeld, Unreachable, is_answer, is_over
from .steps import PAUSE, RELEASE, SOON, TRY, Grant, Rest, Steps, insistently, unless_over
from .terms import Key, Terms, Verb, flag, name, now, seconds

# A lease is extended when a third of it is over, and this part of it later again if nobody answered.
AGAIN = 20
# This part of the lease is the time that the server has to answer.
ANSWER = 6
# How often to look at the clock, at least: a timer does not know that the machine has slept. So often a session is looked after, too.
LOOK = 1.0
# An extension that was not answered may arrive so much later, at most: a network that was away brings what it was given.
LATE = 60.0


class Held:
    """A hold: from its grant to its release, or until it is lost."""

    lost: Any

    def __init__(self, client: Any, terms: Terms, claim: Claim, grant: Grant, extends: bool, lost: Any, session: Any) -> None:
        self.token, self._claim = claim.token, claim
        self.fence = grant.fence
        """A number larger than that of every grant before: have what you write to refuse smaller ones."""
        self._client, self._terms, self._extends = client, terms, extends
        sent, self._lease = grant.ends - terms.lease, terms.lease
        self._late = {lease: last for lease, last in claim.late.items() if sent <= last + LATE}
        """By which leases requests that were not answered may arrive yet, and when they were sent last."""
        self._ends = sent + self._counts
        self._due = sent + self._counts / 3 if extends else math.inf
        """When the server is to be asked."""
        self._glance = now() + min(LOOK, terms.lease / 3) if session is not None else math.inf
        """When the session is to be looked after."""
        self._extending: dict[str, object] = {}
        """The one whose turn it is. Extensions go one after the other: of two at a time nobody knows which one the server has heard last."""
        self._asked: Optional[object] = None
        """The turn of the one that keeps it."""
        self._verb = Verb()
        """What that one has asked."""
        self._row: Any = None
        """Its row in the agenda."""
        self._over = False
        """Whether a release has begun."""
        self._whole: Optional[bool] = None
        """What came of the release."""
        self._warns = True
        self._pid = os.getpid()
        self.lost, self._session = lost, session
        # From now on others of its token look at it.
        claim.hold = weakref.ref(self)

    @property
    def keys(self) -> tuple[Key, ...]:
        return self._terms.keys

    @property
    def held(self) -> bool:
        """Whether it lasts, by this process's clock: not released, not lost, and the lease since it was last asked for is not over. In the
        child of a fork it does not: it is its parent's."""
        return not self._over and now() < self._ends and not self.lost.is_set() and self._pid == os.getpid()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._terms.name}, fence {self.fence}, {'held' if self.held else 'over'}>"

    def __del__(self) -> None:
        if hasattr(self, "lost") and self.held and self._warns:
            said = f"unreleased {self!r}"
            # The warning may keep it.
            self._over = True
            warnings.warn(said, ResourceWarning, source=self, stacklevel=2)

    def _next(self) -> float:
        """When there is something to do for it."""
        return min(self._due, self._glance, self._ends)

    def _extension(self, lease: Optional[float]) -> Steps[bool]:
        """Extends it, in its turn."""
        limit, turn = now() + RELEASE, object()
        try:
            while not self._begins(turn):
                if now() >= limit:
                    raise Unreachable(f"{self._terms.name}: no answer to the extension before this one")
                yield Rest(SOON, limit, learns=False)
            if not self.held:
                return False
            sent, span = now(), lease or self._lease
            shortens = span < self._lease
            # A shorter lease counts from now on: its answer may be lost.
            self._lease, self._ends = min(self._lease, span), min(self._ends, sent + span)
            self._due = min(self._due, sent + span / 3) if self._extends else math.inf
            self._keep()
            words, doubt = self._terms.extend(self.token, self.fence, span), partial(self._doubt, span)
            if (yield from unless_over(insistently(words, min(limit, self._ends), shortens, doubt))) != 1:
                self._lose()
                return False
            self._extended(sent, span)
        finally:
            self._finishes(turn)
        self._keep()
        # The answer may have been long on its way.
        return self.held

    def _begins(self, turn: object) -> bool:
        """Whether it is this turn now. At no place does an interrupt leave it unknown whose it is."""
        return self._extending.setdefault("turn", turn) is turn

    def _finishes(self, turn: object) -> None:
        if self._extending.get("turn") is turn:
            del self._extending["turn"]

    def _keep(self) -> None:
        """Has it looked at in time."""
        raise NotImplementedError

    def _doubt(self, lease: float) -> None:
        """An extension by so much was not answered, and may arrive yet."""
        self._late = {**self._late, lease: now()}

    def _extended(self, sent: float, lease: float) -> None:
        self._lease = lease
        self._ends, self._due = sent + self._counts, sent + self._counts / 3 if self._extends else math.inf
        self._late = {lease: last for lease, last in self._late.items() if sent <= last + LATE}

    @property
    def _counts(self) -> float:
        """For how long an extension counts: a longer lease does not while an extension by a shorter one may arrive after it."""
        return min([self._lease, *self._late])

    def _lose(self) -> None:
        if not self._over:
            self.lost.set()

    def _question(self) -> list[Any]:
        """What keeps it: extends it, or asks only whether it lasts."""
        if not self._extends:
            return self._terms.guard(self.token, self.fence, ["PING"])
        verb, *words = self._terms.extend(self.token, self.fence, self._lease)
        self._verb = Verb(verb)
        return [self._verb, *words]

    def _heard(self, reply: Any, sent: float) -> bool:
        """What came of that. No answer says nothing; the clock does. Whether the server has said something of it."""
        said = reply is not None and not isinstance(reply, Exception)
        if reply == 0 or is_over(reply):
            self._lose()
            said = True
        elif not self._extends:
            self._due = math.inf
        else:
            if self._verb.sent > 1 or reply is None or not (said or is_answer(reply)):
                self._doubt(self._lease)
            if said:
                self._extended(sent, self._lease)
            else:
                self._due = now() + self._counts / AGAIN
        turn, self._asked = self._asked, None
        self._finishes(turn)
        return said

    def hand_over(self) -> tuple[str, int]:
        """Leaves the lock to the process that takes it over within the lease, with this token and fence: see `Lock.take_over`."""
        self._check()
        if self._session is not None:
            raise ValueError(f"{self._terms.name}: a session ends with its connection, and so cannot be handed over")
        self._over = self._whole = True
        if self._extending:
            # It may arrive after what is asked by the one that takes over.
            self._doubt(self._lease)
        self._claim.hand_over(self._late)
        return self.token, self.fence

    def _guard(self, command: tuple[Any, ...]) -> list[Any]:
        self._check()
        return self._terms.guard(self.token, self.fence, command)

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise NotHeld(f"{self._terms.name}: held by the parent of this process")

    def _was_lost(self) -> Lost:
        return Lost(f"{self._terms.name}: the hold had ended before it was released")


H = TypeVar("H", bound=Held)


class Shared(Generic[H]):
    """A lock that callers share, threads or tasks: what each of them got."""

    def __init__(
        self,
        client: Any,
        keys: tuple[Key, ...],
        wait: float,
        lease: float,
        token: Optional[str],
        shared: bool,
        limit: Optional[int],
        session: bool,
        extend: bool,
        replicas: int,
    ) -> None:
        self._client = client
        self._terms = Terms(keys, lease, shared, limit, session, replicas)
        self._wait = _wait(wait)
        self._given = None if token is None else name("a token", token)
        self._extends = flag("extend", extend)
        self._begin()
        self._forked = False

    def _begin(self) -> None:
        self._pid = os.getpid()
        # What handles a signal may ask for what the thread that it interrupts has just now.
        self._turn = threading.RLock()
        self._waits: dict[Any, Any] = {}
        self._blocks: set[H] = set()
        self._holds: weakref.WeakKeyDictionary[Any, H] = weakref.WeakKeyDictionary()
        # Those of callers that have ended, where anyone keeps them.
        self._orphans: weakref.WeakSet[H] = weakref.WeakSet()
        # What will tell that the first hold of a caller is lost, where it was asked for before.
        self._losses: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    @property
    def keys(self) -> tuple[Key, ...]:
        return self._terms.keys

    @property
    def hold(self) -> Optional[H]:
        """What the caller, this thread or task, got last."""
        caller = self._caller()
        return None if caller is None else self._holds.get(caller)

    @property
    def held(self) -> bool:
        """Whether the caller holds the lock, by this process's clock."""
        return self.hold is not None and self.hold.held

    @property
    def fence(self) -> int:
        """That of the caller's hold; 0: there was none yet."""
        return self.hold.fence if self.hold is not None else 0

    @property
    def token(self) -> Optional[str]:
        """That of the caller's hold, else the one that this was made with."""
        return self.hold.token if self.hold is not None else self._given

    def _caller(self) -> Any:
        raise NotImplementedError

    def _lost(self, make: Callable[[], Any]) -> Any:
        if self.hold is not None:
            return self.hold.lost
        if self._caller() is None:
            # Outside of a task nothing can be acquired.
            return make()
        return self._losses.setdefault(self._caller(), make())

    def _claim(self) -> Claim:
        return Claim(self._client, self._terms, self._given or uuid.uuid4().hex, self._given is not None)

    def _enter(self, caller: Any, wire: Any) -> None:
        """Notes that the caller asks now. Refuses one that would wait for itself."""
        if self._pid != os.getpid():
            # In the child of a fork: what is held is held by its parent.
            self._begin()
            self._forked = True
        with self._turn:
            hold = self._holds.get(caller)
            if caller in self._waits or (hold is not None and (hold.held or hold in self._blocks)):
                raise AlreadyHeld(
                    f"{self._terms.name}: this caller has it, or asks for it, already, and a lock is not reentrant; "
                    "pass the hold on to what needs it instead of asking again"
                )
            self._waits[caller] = wire

    def _ended(self, caller: Any) -> None:
        """What a caller left without a release is dropped with it, though its thread or task may be remembered."""
        with self._turn:
            left = self._holds.pop(caller, None)
            if left is not None:
                self._orphans.add(left)
        del left

    def _any_held(self) -> bool:
        return any(hold.held for hold in [*self._holds.values(), *self._orphans])

    def _leave(self, caller: Any, wire: Any) -> None:
        with self._turn:
            if self._waits.get(caller) is wire:
                del self._waits[caller]

    def _mine(self) -> Optional[H]:
        """What a release of this object ends: the caller's hold."""
        if self._pid != os.getpid():
            # In the child of a fork: what is held is held by its parent.
            return None
        hold = self.hold
        if hold is None:
            with self._turn:
                held = self._any_held()
            if held:
                raise NotHeld(f"{self._terms.name}: held by another caller; release the hold that its acquire() gave")
        return hold

    def cancel(self) -> None:
        """Ends every wait that was begun with this object, in whatever thread or task: it is not granted."""
        if self._pid != os.getpid():
            # In the child of a fork: they are its parent's.
            return
        with self._turn:
            for wire in self._waits.values():
                wire.cut()

    def _left(self) -> Optional[H]:
        """The hold whose block is left. A block may be left by another caller than entered it, but where several are open."""
        hold = self.hold
        if hold not in self._blocks:
            if self._forked or self._pid != os.getpid():
                return None
            if len(self._blocks) != 1:
                raise RuntimeError(f"{self._terms.name}: a block is left by a caller that did not enter it")
            [hold] = self._blocks
        assert hold is not None
        if hold._pid != os.getpid():
            return None
        self._blocks.discard(hold)
        return hold


def _wait(value: Any) -> float:
    return seconds("wait", value, least=0, endless=True)


class Agenda:
    """When each hold is to be extended or looked at. It does not keep them: one that is dropped without a release is not extended."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, int, weakref.ref[Held]]] = []
        self._count = 0
        self._turn = threading.RLock()

    def add(self, hold: Held) -> bool:
        """Whether it comes before all others."""
        with self._turn:
            return self._add(hold, hold._next())

    def _add(self, hold: Held, when: float) -> bool:
        if hold._row is not None and hold._row[0] <= when:
            # It is looked at before.
            return False
        self._count += 1
        hold._row = row = (when, self._count, weakref.ref(hold))
        heapq.heappush(self._rows, row)
        return self._rows[0] is row

    def turn(self) -> tuple[list[Held], Optional[float]]:
        """Tells the holds whose lease is over; gives those to ask for, and in how many seconds to come again at the latest."""
        ask = []
        with self._turn:
            while self._rows and self._rows[0][0] <= now():
                row = heapq.heappop(self._rows)
                hold = row[2]()
                if hold is None or hold._row is not row:
                    continue
                hold._row = None
                if hold._over or hold.lost.is_set():
                    continue
                if hold._ends <= now():
                    hold._lose()
                    continue
                if hold._glance <= now():
                    hold._glance = now() + min(LOOK, hold._counts / 3)
                    session = hold._session
                    if session is not None and not session.lasts():
                        # The server knows whether the hold has ended with it.
                        hold._due = min(hold._due, now())
                if hold._due <= now() and hold._begins(turn := object()):
                    hold._asked = turn
                    ask.append(hold)
                again = hold._due if hold._due > now() else now() + max(hold._counts / AGAIN, 0.005)
                self._add(hold, min(again, hold._glance, hold._ends))
            return ask, min(max(self._rows[0][0] - now(), 0), LOOK) if self._rows else None


def rounds(holds: list[Held], place: Callable[[Held], Any]) -> list[list[Held]]:
    """Those together that one connection can extend."""
    by_place: dict[Any, list[Held]] = {}
    for hold in holds:
        by_place.setdefault((id(hold._client), place(hold)), []).append(hold)
    return list(by_place.values())


def limit_of(holds: list[Held]) -> float:
    """When a round that is not answered is given up."""
    return now() + min(max(min(hold._counts for hold in holds) / ANSWER, PAUSE), TRY)
