"""What locks ask and in which order, without saying how: `wires` does it for threads, `aio_wires` for tasks.

Each function is a generator of steps. What a step asks for is sent back, or thrown into it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Optional, TypeVar, Union

from .claims import Claim
from .errors import NotReleased, NotReplicated, Unreachable, is_answer, is_over, is_undone, is_unsent, named, passes, passes_for_release
from .terms import Terms, Verb, Word, fields, now, text

# How much longer than its wait a request is tried, and its answer waited for.
PATIENCE = 1.5
# How long to wait before asking a server again that could not answer.
PAUSE = 0.05
# How long to wait before looking again whether what a token asked for last has ended.
SOON = 0.005
# How long a release is tried, and how long a server has for other requests.
RELEASE = 5.0
# How long one server has for what may be asked again: another one may be there by then.
TRY = 2.0
# How long replicas have to take a grant, in seconds.
REPLICATE = 1.0

T = TypeVar("T")


class Ask(NamedTuple):
    """Commands for one connection, one after the other. An answer that is an error is given back as one."""

    commands: Sequence[Sequence[Word]]
    until: float
    """When the answers must be there."""
    apart: bool = False
    """Whether this needs a connection that nobody else uses meanwhile."""
    moves: bool = True
    """Whether, if the key is moving to another server, this may be asked there, over yet another connection."""


class Rest(NamedTuple):
    """A pause in which the client may learn where its server is now."""

    seconds: float
    until: float
    """When the learning must end."""
    learns: bool = True


Steps = Generator[Union[Ask, Rest], Any, T]


class Grant(NamedTuple):
    fence: int
    ends: float
    """Until when the hold lasts at least, by `now()`."""


def standing(terms: Terms, claim: Claim, wait: float, at_first: bool) -> Steps[Optional[Grant]]:
    """Stands in line; `at_first`: asks once without a wait, over a connection of the client's own, for most locks are free."""
    end = now() + wait
    apart, token = not at_first, claim.token
    yield from claiming(terms, claim, end + PATIENCE)
    doubt = claim.doubt
    if doubt is not None:
        # A server that was frozen takes what it was sent meanwhile in any order, but all of it before what is sent after this answer. A
        # network that was away does not: what it brings late ends the hold with its fence, and this one has another.
        yield from unless_over(persistently(terms.release(token, doubt), end + PATIENCE, not doubt))
        claim.is_clear()
    while True:
        sent = now()
        # What is asked over a connection of the client's own may be asked over again by the client.
        claim.asked += 1 if apart else 2
        try:
            limit = end + PATIENCE if apart else min(end + PATIENCE, sent + TRY)
            words = terms.acquire(token, max(end - sent, 0) if apart else 0)
            reply = yield from _noting(words, limit, apart, claim.is_late, not terms.session)
            if reply is not None:
                grant = yield from _made_sure(terms, claim, Grant(int(reply[1]), sent + terms.lease), end + PATIENCE)
                if grant is not None:
                    if now() >= grant.ends:
                        # This process was kept from its work.
                        raise TimeoutError("the grant came when its lease was over")
                    return grant
            if now() >= end or (apart and reply is None):
                return None
            apart = True
        except Exception as error:
            if now() + PAUSE >= end + PATIENCE or not passes(error):
                raise
            yield Rest(PAUSE, end + PATIENCE)


def claiming(terms: Terms, claim: Claim, limit: float) -> Steps[None]:
    """Waits until the token's last release is answered or given up. A late one would end the hold that is asked for now."""
    while not claim.take():
        if now() >= limit:
            raise Unreachable(f"{terms.name}: no answer to the end of what the token {claim.token} asked for last")
        yield Rest(SOON, limit, learns=False)


def taking_over(terms: Terms, claim: Claim, fence: int, limit: float) -> Steps[bool]:
    """Whether the hold that another has handed over lasts, extended from now on."""
    held = 0
    try:
        yield from claiming(terms, claim, limit)
        words = terms.extend(claim.token, fence, terms.lease)
        held = yield from unless_over(insistently(words, limit, False, claim.is_late))
        if held != 1 and terms.count > 1:
            # One of the keys has been taken away. The others would be held for nobody.
            yield from releasing(terms, claim.token, fence, limit)
        return bool(held == 1)
    finally:
        if held != 1:
            claim.end()


def _made_sure(terms: Terms, claim: Claim, grant: Grant, limit: float) -> Steps[Optional[Grant]]:
    """Nobody knows how long a grant was on its way after a wait. None: it is over already."""
    token = claim.token
    if terms.replicas:
        sent = now()
        patience = str(max(int(min(limit - sent, REPLICATE) * 1000), 1))
        commands: list[list[Word]] = [terms.extend(token, grant.fence, terms.lease), ["WAIT", str(terms.replicas), patience]]
        held, copies = yield Ask(commands, limit, True, False)
        held = 0 if is_over(held) else held
        for error in (held, copies):
            if isinstance(error, Exception):
                yield from releasing(terms, token, 0, limit)
                raise error
        if copies < terms.replicas:
            yield from releasing(terms, token, 0, limit)
            raise NotReplicated(f"{terms.name}: granted, but on {copies} replicas of {terms.replicas} within {patience} ms")
    elif now() < grant.ends - terms.lease * 2 / 3:
        return grant
    else:
        sent = now()
        try:
            held = yield from unless_over(_noting(terms.extend(token, grant.fence, terms.lease), limit, False, claim.is_late))
        except Exception as error:
            if is_answer(error) and not passes(error):
                # Not allowed, perhaps. No caller would know of this grant.
                yield from releasing(terms, token, 0, limit)
            raise
    if held != 1:
        if terms.count > 1:
            # One of the keys has been taken away. The others would be held for nobody.
            yield from releasing(terms, token, 0, limit)
        return None
    return Grant(grant.fence, sent + terms.lease)


def releasing(terms: Terms, token: str, fence: int, limit: float, apart: bool = False) -> Steps[bool]:
    """Ends a hold, and without a fence a wait; whether there was a whole hold to end. `apart`: over a connection that is made for it. One
    of a pool may keep what it was given while no network is there, and bring it when the token has another hold."""
    doubt: Optional[Exception] = None
    while True:
        try:
            released = yield from _released(terms, token, fence, limit, apart)
        except Exception as error:
            if now() + PAUSE >= limit or not passes_for_release(error):
                raise
            if not is_unsent(error):
                doubt = error
            yield Rest(PAUSE, limit)
        else:
            if released == 0 and doubt is not None and fence:
                raise named(doubt, f"{terms.name}: it has ended, but perhaps not by this release, whose first answer was lost", NotReleased)
            return bool(released == terms.count)


def _released(terms: Terms, token: str, fence: int, limit: float, apart: bool) -> Steps[int]:
    try:
        return int((yield from _ask(terms.release(token, fence), min(limit, now() + TRY), apart)))
    except Exception as error:
        if not is_over(error):
            raise
    if terms.count > 1:
        # One of the keys holds something else, so that none was released.
        for key in terms.places:
            yield from unless_over(persistently(terms.release_one(key, token, fence), limit, apart))
    return 0


def owning(terms: Terms, token: str, fence: int, limit: float) -> Steps[bool]:
    """Whether the server knows this hold of every key."""
    for key in terms.keys:
        info = yield from unless_over(persistently(["LOCK.INFO", key], limit))
        rows = [fields(row) for row in fields(info)["holders"]] if info else []
        if not any(text(row["token"]) == token and fence in (0, row["fence"]) for row in rows):
            return False
    return True


def locked(terms: Terms, limit: float) -> Steps[bool]:
    """Whether one of the keys is held by anyone."""
    for key in terms.keys:
        info = yield from persistently(["LOCK.INFO", key], limit)
        if info is not None and fields(info)["holders"]:
            return True
    return False


def persistently(command: Sequence[Word], limit: float, apart: bool = False) -> Steps[Any]:
    """Asks what may be asked again, until there is an answer."""
    return (yield from insistently(command, limit, apart, lambda: None))


def insistently(command: Sequence[Word], limit: float, apart: bool, note: Callable[[], None]) -> Steps[Any]:
    """The same, which is noted if a request that was not answered may arrive yet."""
    while True:
        try:
            return (yield from _noting(command, min(limit, now() + TRY), apart, note))
        except Exception as error:
            if now() + PAUSE >= limit or not passes(error):
                raise
            yield Rest(PAUSE, limit)


def _noting(command: Sequence[Word], until: float, apart: bool, note: Callable[[], None], moves: bool = True) -> Steps[Any]:
    """Asks once, though the client may do so again by itself. It is noted if a request that was not answered may arrive yet."""
    verb, sure = Verb(text(command[0])), False
    try:
        reply = yield from _ask([verb, *command[1:]], until, apart, moves)
        sure = True
        return reply
    except Exception as error:
        sure = is_unsent(error)
        raise
    finally:
        if not sure or verb.sent > 1:
            note()


def unless_over(steps: Steps[Any]) -> Steps[Any]:
    """What an extension or a release is answered: 0, too, where the key holds something else."""
    try:
        return (yield from steps)
    except Exception as error:
        if not is_over(error):
            raise
        return 0


def once(command: Sequence[Word], limit: float) -> Steps[Any]:
    """Asks what must not be done twice, over a connection that no other layer asks over again."""
    while True:
        try:
            return (yield from _ask(command, limit, True))
        except Exception as error:
            if now() + PAUSE >= limit or not is_undone(error):
                raise
            yield Rest(PAUSE, limit)


def _ask(command: Sequence[Word], until: float, apart: bool = False, moves: bool = True) -> Steps[Any]:
    [reply] = yield Ask([command], until, apart, moves)
    if isinstance(reply, Exception):
        raise reply
    return reply
