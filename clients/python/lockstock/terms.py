"""What is asked of a lock: its arguments, checked, and the words that are sent."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Any, Optional, Union

Key = Union[str, bytes]
Word = Union[str, bytes]

# The largest integer that the server takes.
MOST = 2**53 - 1


def now() -> float:
    """Seconds on a clock that goes on while the machine sleeps, as that of the server does."""
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


# `time.monotonic` stands still meanwhile on Linux and on macOS, where the system's clock of this name does not.
_CLOCK: Optional[int] = getattr(time, "CLOCK_MONOTONIC" if sys.platform == "darwin" else "CLOCK_BOOTTIME", None)


class Terms:
    """One request for a lock, or for several together, but for its token and its time."""

    def __init__(
        self,
        keys: Sequence[Key],
        lease: float,
        shared: bool,
        limit: Optional[int],
        session: bool,
        replicas: int,
    ) -> None:
        if not keys:
            raise TypeError("a lock needs a key")
        self.keys = tuple(key(one) for one in keys)
        self.name = ", ".join(repr(text(one)) for one in self.keys)
        self.places = {one.encode() if isinstance(one, str) else one for one in self.keys}
        self.count = len(self.places)
        self.lease = seconds("lease", lease)
        if flag("shared", shared) and limit is not None:
            raise ValueError("shared and limit do not go together: a lock is for all readers, or for so many")
        if len(self.keys) > 1 and (shared or limit is not None):
            raise ValueError("several keys are locked exclusively: neither shared nor limit goes with them")
        self.mode = ["SHARED"] if shared else [] if limit is None else ["LIMIT", str(whole("limit", limit, 1))]
        self.session = flag("session", session)
        self.replicas = whole("replicas", replicas, 0)

    def acquire(self, token: str, left: float) -> list[Word]:
        """Asks for the lock, and waits for it for so many seconds."""
        words: list[Word] = ["LOCK.ACQUIRE"] if len(self.keys) == 1 else ["LOCK.MACQUIRE", str(len(self.keys))]
        words += [*self.keys, "TOKEN", token, "PX", ms(self.lease), *self.mode]
        if left > 0:
            words += ["WAIT", "0" if math.isinf(left) else ms(left)]
        return words + ["SESSION"] if self.session else words

    def release(self, token: str, fence: int = 0) -> list[Word]:
        """Ends the hold of this token with this fence; without a fence any hold, and the wait."""
        return self._words("RELEASE", token) + _fence(fence)

    def release_one(self, key: Key, token: str, fence: int) -> list[Word]:
        """The same of one of several keys."""
        return ["LOCK.RELEASE", key, token, *_fence(fence)]

    def extend(self, token: str, fence: int, lease: float) -> list[Word]:
        return self._words("EXTEND", token) + ["PX", ms(lease)] + _fence(fence)

    def guard(self, token: str, fence: int, command: Sequence[Any]) -> list[Any]:
        """Has a command run only while the first of the keys is held."""
        # As the clients do it, the first word may be several.
        verb = [*command[0].split(), *command[1:]] if command and isinstance(command[0], (str, bytes)) else [*command]
        if not verb:
            raise TypeError("a command is needed: its name, then its arguments")
        for place, word in enumerate(verb):
            what = f"argument {place} of the command" if place else "a command"
            if isinstance(word, bool) or not isinstance(word, (str, bytes, memoryview, int, float)):
                raise TypeError(f"{what} is a str, bytes or a number, not {word!r}")
        if not isinstance(verb[0], (str, bytes)):
            raise TypeError(f"a command is a str, bytes or a number, not {verb[0]!r}")
        return ["LOCK.GUARD", self.keys[0], token, *_fence(fence), *verb]

    def _words(self, verb: str, token: str) -> list[Word]:
        if len(self.keys) > 1:
            return [f"LOCK.M{verb}", token, str(len(self.keys)), *self.keys]
        return [f"LOCK.{verb}", self.keys[0], token]


def _fence(fence: int) -> list[Word]:
    return ["FENCE", str(fence)] if fence else []


class Verb(str):
    """The first word of a command, which counts how often the command is sent: the libraries encode it anew each time."""

    sent = 0

    def encode(self, *how: str, **hows: str) -> bytes:
        if not how and not hows:
            self.sent += 1
        return super().encode(*how, **hows)


def ms(span: float) -> str:
    return str(max(math.ceil(span * 1000), 1))


def key(value: Any) -> Key:
    """A key: a name that is there."""
    if not isinstance(value, (str, bytes)):
        hint = "several are given one by one" if isinstance(value, (list, tuple, set)) else "times have names, as in lease=30"
        raise TypeError(f"a key is a str or bytes, not {value!r}; {hint}")
    if not value:
        raise ValueError("a key must not be empty")
    return value


def name(what: str, value: Any) -> str:
    """A token, an id, a buyer or a reference."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not {value!r}")
    if not 1 <= len(value.encode()) <= 512:
        raise ValueError(f"{what} has from 1 to 512 bytes, not {len(value.encode())}")
    return value


def seconds(what: str, value: Any, *, least: Optional[float] = None, endless: bool = False) -> float:
    """A span of time: above 0, or from `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is a number of seconds, not {value!r}")
    if value == math.inf and endless:
        return math.inf
    if not (value > 0 or value == least) or value * 1000 > MOST:
        raise ValueError(f"{what} is a number of seconds {'above 0' if least is None else 'from 0'}, not {value!r}")
    return float(value)


def whole(what: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is an int, not {value!r}")
    if not least <= value <= MOST:
        raise ValueError(f"{what} is an int from {least} to {MOST}, not {value}")
    return value


def flag(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{what} is True or False, not {value!r}")
    return value


def text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def fields(reply: Any) -> dict[str, Any]:
    """What INFO and its like answer: a map with RESP3, a flat list with RESP2."""
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {text(field): text(value) for field, value in pairs}
