"""Locks over an asyncio client, for tasks."""

from __future__ import annotations

import asyncio
import os
import weakref
from functools import partial
from typing import Any, Optional

from .aio_wires import Wire, behind, within
from .claims import Claim
from .clients import AsyncClient, check, is_cluster, made_of
from .errors import LockstockError, NotGranted, NotHeld, NotReleased, is_answer, is_told, named
from .holds import LOOK, Agenda, Held, Shared, _wait, limit_of, rounds
from .locks import BEHIND, WITHDRAW, _place
from .steps import RELEASE, Grant, Steps, T, locked, once, owning, releasing, standing, taking_over
from .terms import Key, Terms, name, now, seconds, whole


class AsyncHold(Held):
    """A lock that was granted: what `async with AsyncLock(…)` and `AsyncLock.acquire` give. Any task may use it."""

    lost: asyncio.Event
    """Is set when the hold has ended before it was released, or may have."""

    def __init__(
        self, client: Any, terms: Terms, claim: Claim, grant: Grant, extends: bool, lost: asyncio.Event, session: Optional[Wire]
    ) -> None:
        self._turn = asyncio.Lock()
        super().__init__(client, terms, claim, grant, extends, lost, session)
        self._keep()

    async def release(self) -> bool:
        """As `Hold.release`. A task that is cancelled meanwhile has released all the same."""
        if self._pid != os.getpid():
            return False
        limit = min(now() + RELEASE, self._ends)
        async with self._turn:
            # Another may have released it meanwhile.
            return self._whole is None and await self._release(limit)

    async def _release(self, limit: float) -> bool:
        self._over = True
        try:
            whole = self._claim.leave(self.fence) and await self._ask_release(limit)
        except LockstockError as error:
            self._claim.end(told=is_told(error))
            if not (isinstance(error, NotReleased) and self.lost.is_set()):
                raise
            whole = False
        except (Exception, asyncio.CancelledError):
            # What the client raises, for example, that served a loop which is closed.
            behind(lambda: _end(self._client, self._terms, self._claim, self.fence, limit))
            raise
        finally:
            session, self._session = self._session, None
            if session is not None:
                await session.hang_up()
        self._whole = whole and not self.lost.is_set()
        return self._whole

    async def _ask_release(self, limit: float) -> bool:
        if now() >= self._ends:
            # It is over by the clock, and for the server perhaps not.
            behind(lambda: _end(self._client, self._terms, self._claim, self.fence, now() + BEHIND))
            return False
        whole = await _asked(self._client, self._terms, releasing(self._terms, self.token, self.fence, limit), NotReleased)
        self._claim.end(told=True)
        return whole

    async def extend(self, lease: Optional[float] = None) -> bool:
        """As `Hold.extend`."""
        span = None if lease is None else seconds("lease", lease)
        return self.held and await _asked(self._client, self._terms, self._extension(span))

    def _keep(self) -> None:
        _keeper().add(self)

    async def execute(self, *command: Any) -> Any:
        """As `Hold.execute`."""
        words = self._guard(command)
        try:
            reply = await _asked(self._client, self._terms, once(words, now() + RELEASE))
        except NotHeld:
            self._lose()
            raise
        return made_of(self._client, self.keys[0], command[0], reply)

    async def owned(self) -> bool:
        """Whether the server knows this hold."""
        return await _asked(self._client, self._terms, owning(self._terms, self.token, self.fence, now() + RELEASE))


class AsyncLock(Shared[AsyncHold]):
    """A lock, or several that are taken together. Tasks may share it: each acquisition is an `AsyncHold` of its own.

        async with AsyncLock(redis, "job:42", wait=10) as hold:
            await write(row, fence=hold.fence)

    What may be asked for: see `Lock`.
    """

    def __init__(
        self,
        client: AsyncClient,
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
        check(client, True, "AsyncLock")
        super().__init__(client, keys, wait, lease, token, shared, limit, session, extend, replicas)

    @property
    def lost(self) -> asyncio.Event:
        """That of this task's hold, or of its first one to come."""
        event: asyncio.Event = self._lost(asyncio.Event)
        return event

    async def acquire(self, wait: Optional[float] = None) -> Optional[AsyncHold]:
        """As `Lock.acquire`; a task that is cancelled meanwhile leaves the line."""
        span = self._wait if wait is None else _wait(wait)
        task, claim, hold = self._caller(), self._claim(), None
        wire = self._wire(claim.token)
        try:
            self._enter(task, wire)
            at_first = not (self._terms.session or self._terms.replicas or self._stands)
            grant = await wire.play(standing(self._terms, claim, span, at_first))
            if grant is not None and not wire.is_cut:
                lost = self._losses.pop(task, None) or asyncio.Event()
                session = wire if self._terms.session else None
                hold = self._holds[task] = AsyncHold(self._client, self._terms, claim, grant, self._extends, lost, session)
                if task not in _used:
                    _used[task] = weakref.WeakSet()
                    task.add_done_callback(_ended)
                _used[task].add(self)
            elif grant is not None or claim.may_have_some():
                await self._withdraw(claim)
            else:
                claim.end()
        except BaseException as error:
            if claim.may_have(error):
                await self._withdraw(claim)
            else:
                claim.end()
            if wire.is_cut and isinstance(error, Exception):
                return None
            raise named(error)
        finally:
            self._leave(task, wire)
            if hold is None or not self._terms.session:
                await wire.hang_up()
        return hold

    async def release(self) -> bool:
        """As `Lock.release`."""
        hold = self._mine()
        return hold is not None and await hold.release()

    async def extend(self, lease: Optional[float] = None) -> bool:
        """As `AsyncHold.extend`, of this task's hold."""
        return self.hold is not None and await self.hold.extend(lease)

    async def owned(self) -> bool:
        """Whether the server knows this task's hold."""
        return self.hold is not None and await self.hold.owned()

    async def guard(self, *command: Any) -> Any:
        """As `AsyncHold.execute`, of this task's hold."""
        if self.hold is None:
            raise NotHeld(f"{self._terms.name}: this task has no hold")
        return await self.hold.execute(*command)

    async def take_over(self, token: str, fence: int) -> Optional[AsyncHold]:
        """As `Lock.take_over`."""
        terms, sent = self._terms, now()
        claim = Claim(self._client, terms, name("a token", token), True)
        if not await _asked(self._client, terms, taking_over(terms, claim, whole("a fence", fence, 1), sent + RELEASE)):
            return None
        return AsyncHold(self._client, terms, claim, Grant(fence, sent + terms.lease), self._extends, asyncio.Event(), None)

    async def locked(self) -> bool:
        """Whether anyone holds the lock, or one of several."""
        return await _asked(self._client, self._terms, locked(self._terms, now() + RELEASE))

    async def __aenter__(self) -> AsyncHold:
        hold = await self.acquire()
        if hold is None:
            raise NotGranted(f"{self._terms.name}: not granted within {self._wait:g} s")
        self._blocks.add(hold)
        return hold

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        hold = self._left()
        if hold is None:
            return
        try:
            await hold.release()
        except LockstockError:
            if kind is None:
                raise
        else:
            if not hold._whole and kind is None:
                raise hold._was_lost()

    # Whether the first request stands in line already. If it needs no connection of its own, nothing is saved by one that does not.
    _stands = False

    def _wire(self, token: str) -> Wire:
        return Wire(self._client, self.keys[0])

    def _caller(self) -> Any:
        try:
            return asyncio.current_task()
        except RuntimeError:
            return None

    async def _withdraw(self, claim: Claim) -> None:
        """Else the token would get the lock, and nobody would know."""
        if claim.leave(0):
            limit = now() + BEHIND
            said = behind(lambda: _end(self._client, self._terms, claim, 0, limit))
            await asyncio.wait([said], timeout=WITHDRAW)


# The locks that each task has got.
_used: weakref.WeakKeyDictionary[Any, weakref.WeakSet[AsyncLock]] = weakref.WeakKeyDictionary()


def _ended(task: asyncio.Task[Any]) -> None:
    for lock in list(_used.pop(task, ())):
        lock._ended(task)


async def _asked(client: Any, terms: Terms, steps: Steps[T], kind: Optional[type[LockstockError]] = None) -> T:
    wire = Wire(client, terms.keys[0])
    try:
        return await wire.play(steps)
    except Exception as error:
        raise named(error, kind=None if is_answer(error) else kind)
    finally:
        await wire.hang_up()


async def _end(client: Any, terms: Terms, claim: Claim, fence: int, limit: float) -> None:
    """Releases in the background."""
    if not claim.leave(fence):
        # This is the second try, and the token has asked again.
        return
    told = False
    try:
        await _asked(client, terms, releasing(terms, claim.token, fence, limit, claim.named and not fence))
        told = True
    except Exception as error:
        # As if out of reach: what was granted ends with its lease.
        told = is_told(error)
    finally:
        claim.end(told)


class _Keeper:
    """What has the leases of one loop extended and looks after its sessions, and tells when holds are over: one timer."""

    def __init__(self) -> None:
        self._agenda = Agenda()
        # The last timer that was set counts. It is not kept, for it would keep its loop.
        self._timers = 0

    def add(self, hold: AsyncHold) -> None:
        if self._agenda.add(hold):
            self._set(min(max(hold._next() - now(), 0), LOOK))

    def _set(self, pause: float) -> None:
        self._timers += 1
        asyncio.get_running_loop().call_later(pause, self._turn, self._timers)

    def _turn(self, timer: int) -> None:
        if timer != self._timers:
            return
        holds, pause = self._agenda.turn()
        for some in rounds(holds, _place):
            behind(partial(_extend, some))
        if pause is not None:
            self._set(pause)


async def _extend(holds: list[Any]) -> None:
    if not any(hold._asked for hold in holds):
        # A loop that ends has this done twice, perhaps.
        return
    client, sent, limit = holds[0]._client, now(), limit_of(holds)
    replies: list[Any] = [None] * len(holds)
    try:
        # All are sent before the first answer is waited for.
        asks, questions = client.pipeline(transaction=False), [hold._question() for hold in holds]
        for question in questions:
            asks.execute_command(*question)
        options = {"allow_redirections": False} if is_cluster(client) else {}
        replies = await within(asks.execute(raise_on_error=False, **options), limit - sent)
        for place, said in enumerate(replies):
            if isinstance(said, Exception):
                wire = Wire(client, holds[place].keys[0])
                replies[place] = await within(wire.led(questions[place], said), limit - now())
    finally:
        if not all([hold._heard(reply, sent) for hold, reply in zip(holds, replies)]):
            await Wire(client, holds[0].keys[0]).learn()


_keepers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Keeper] = weakref.WeakKeyDictionary()


def _keeper() -> _Keeper:
    return _keepers.setdefault(asyncio.get_running_loop(), _Keeper())
