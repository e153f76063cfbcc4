"""Which tokens hold which locks here, or wait for them. A token is one holder for the server: of two holds of one lock, the end of the one
would end the other."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Optional

from .errors import AlreadyHeld, is_answer
from .terms import Terms, now

# Of so many places it is remembered that an end was not answered, and of so many that a request was not.
DOUBTS = 10_000
# So long the end of a claim is on its way at most: longer than it is tried.
LEAVES = 6.0

# What handles a signal may ask for a lock, too.
_turn = threading.RLock()


class _Table:
    """The claims of a client. A claim of which nobody knows any more is over."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.claims: weakref.WeakValueDictionary[tuple[bytes, str], Claim] = weakref.WeakValueDictionary()
        # Where an end was sent that was not answered, and of the hold with which fence (0: of any): it may come late. The oldest come first.
        self.doubts: dict[tuple[bytes, str], int] = {}
        # Where a request for the lock was sent that was not answered, by which leases, and when last. The oldest come first.
        self.late: dict[tuple[bytes, str], dict[float, float]] = {}


def table(client: Any) -> Any:
    """The client keeps it, or its pool, which several may share. In the child of a fork it is empty: what is held is held by its parent."""
    keeper = getattr(client, "connection_pool", client)
    with _turn:
        known = getattr(keeper, "_lockstock_claims", None)
        if known is None or known.pid != os.getpid():
            known = keeper._lockstock_claims = _Table()
        return known


class Claim:
    """What one acquisition has of a lock: from its request to the end of its hold, or of its withdrawal."""

    hold: Optional[weakref.ref[Any]] = None
    asked = 0
    """How many requests for the lock were sent, or may have been."""
    _leaving = 0.0
    """Until when its end is on its way."""

    def __init__(self, client: Any, terms: Terms, token: str, named: bool) -> None:
        self.token, self._table = token, table(client)
        self._places = [(place, token) for place in terms.places]
        self.named, self._name, self._lease = named, terms.name, terms.lease

    def take(self) -> bool:
        """Whether it has its places now. Not while the end of what the token asked for last is on its way; refused while it has it."""
        with _turn:
            others = self._others()
            for other in others:
                if other._leaving:
                    if now() < other._leaving:
                        return False
                    # Nothing says it any more: its loop was closed, perhaps, or there was no thread for it.
                    continue
                hold = other.hold() if other.hold is not None else None
                if other.hold is None or (hold is not None and hold.held):
                    raise AlreadyHeld(
                        f"{self._name}: another caller has it, or asks for it, with the same token, so both would have it; "
                        "give each a lock with a token of its own, or none"
                    )
                if hold is not None:
                    # It is over by the clock, and must not come to life by a late answer.
                    hold._lose()
            self._hold_places()
            return True

    def leave(self, fence: int) -> bool:
        """Whether the server may be told that this ends, of the hold with this fence (0: of any): not if a later one of its token has its
        place."""
        with _turn:
            if self._others():
                return False
            self._leaving = now() + LEAVES
            self._hold_places()
            if self.named:
                doubts = self._table.doubts
                for place in self._places:
                    doubts[place] = fence if doubts.pop(place, fence) == fence else 0
                _shorten(doubts)
            return True

    def end(self, told: bool = False) -> None:
        """Lets the next one have the places."""
        with _turn:
            self._leaving = 0.0
            for place in self._places:
                if self._table.claims.get(place) is self:
                    del self._table.claims[place]
                if not self.named:
                    # Nothing asks with this token again.
                    self._table.late.pop(place, None)
            if told:
                self.is_clear()

    def may_have(self, error: BaseException) -> bool:
        """Whether the token may wait for the lock or hold it, after this error. The server's no to the only request says that it does not."""
        refused = is_answer(error) and (self.asked == 1 or "the token holds this lock in another mode" in str(error))
        return self.asked > 0 and not refused

    def may_have_some(self) -> bool:
        """Whether some of several keys may be held, though not all were granted: an earlier request was granted unheard, and then one of the
        keys was taken away."""
        return bool(self.late) and len(self._places) > 1

    def is_late(self) -> None:
        """A request for the lock was not answered, and may arrive yet: it renews the hold that its token has then, by its lease."""
        self._are_late({self._lease: now()})

    def hand_over(self, late: dict[float, float]) -> None:
        """Ends it, but not its hold, which another claim takes over. By these leases requests may arrive yet."""
        # Something asks with this token again.
        self.named = True
        if late:
            self._are_late(late)
        self.end()

    def _are_late(self, leases: dict[float, float]) -> None:
        with _turn:
            late = self._table.late
            for place in self._places:
                late[place] = {**late.pop(place, {}), **leases}
            _shorten(late)

    @property
    def late(self) -> dict[float, float]:
        """By which leases such a request may arrive, also one before this, and when it was sent last, at most."""
        with _turn:
            return {lease: sent for place in self._places for lease, sent in self._table.late.get(place, {}).items()}

    @property
    def doubt(self) -> Optional[int]:
        """The fence (0: none) of an end that was sent before, and may come late and end this. None: there is no such end."""
        fences = {self._table.doubts.get(place) for place in self._places} - {None}
        return 0 if len(fences) > 1 else next(iter(fences), None)

    def is_clear(self) -> None:
        for place in self._places:
            self._table.doubts.pop(place, None)

    def _others(self) -> list[Claim]:
        found = [self._table.claims.get(place) for place in self._places]
        return [other for other in found if other is not None and other is not self]

    def _hold_places(self) -> None:
        for place in self._places:
            self._table.claims[place] = self


def _shorten(places: dict[tuple[bytes, str], Any]) -> None:
    while len(places) > DOUBTS:
        del places[next(iter(places))]


def _forget() -> None:
    """In the child of a fork: what another thread had in hand stays there."""
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
