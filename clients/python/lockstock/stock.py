"""Orders and carts, with the status as data."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Generic, Literal, NamedTuple, Optional, TypeVar

from .locks import ms

Status = Literal[
    "OK", "DUPLICATE", "SOLDOUT", "INSUFFICIENT", "LIMIT", "NOTSTARTED", "ENDED",
    "EXPIRED", "CANCELLED", "QUEUED", "SKIPPED", "NOORDER", "NOSTOCK",
]  # fmt: skip


class Outcome(NamedTuple):
    """What came of a request for one order."""

    status: Status
    units: int
    """What the order has now."""
    remaining: int
    deadline: int
    """When its hold ends, in Unix milliseconds; -1: it has none."""
    ref: str

    @property
    def done(self) -> bool:
        """Whether it is as asked, by this request or by an earlier one."""
        return self.status in ("OK", "DUPLICATE")


class Cart(NamedTuple):
    """What came of a request for one order over several sales."""

    status: Status
    sales: dict[str, Outcome]

    @property
    def done(self) -> bool:
        return self.status in ("OK", "DUPLICATE")


One = TypeVar("One")
Many = TypeVar("Many")
Row = TypeVar("Row")


class _Stock(Generic[One, Many, Row]):
    """Every request may be sent again: the id of the order makes it happen once."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def order(
        self,
        sale: str,
        id: str,
        qty: int = 1,
        *,
        buyer: Optional[str] = None,
        hold: Optional[float] = None,
        ref: Optional[str] = None,
        waitlist: bool = False,
    ) -> One:
        """Takes units, or with `hold` reserves them for that long; with `waitlist` stands in line where they are gone."""
        words = ["STOCK.DECR_ONCE", sale, id, "QTY", str(qty), *_terms(buyer, hold, ref)]
        return self._one(words + ["WAITLIST"] if waitlist else words)

    def confirm(self, sale: str, id: str) -> One:
        """Makes a hold a sale: the payment is there."""
        return self._one(["STOCK.CONFIRM", sale, id])

    def cancel(self, sale: str, id: str) -> One:
        """Gives the units of a hold or a sale back, or leaves the waitlist."""
        return self._one(["STOCK.CANCEL", sale, id])

    def extend(self, sale: str, id: str, hold: float) -> One:
        """Lets a hold end that long from now."""
        return self._one(["STOCK.EXTEND", sale, id, "PX", str(ms(hold))])

    def look(self, sale: str, id: str) -> Row:
        """The order's state, units, buyer, ref, deadline and, while it waits, place; None if there is none."""
        return self._row(["STOCK.ORDER", sale, id])

    def order_all(
        self,
        id: str,
        units: Mapping[str, int],
        *,
        buyer: Optional[str] = None,
        hold: Optional[float] = None,
        ref: Optional[str] = None,
    ) -> Many:
        """Takes units of several sales, all or none."""
        legs = [word for sale, qty in units.items() for word in (sale, str(qty))]
        return self._many(["STOCK.MDECR_ONCE", id, str(len(units)), *legs, *_terms(buyer, hold, ref)], units)

    def confirm_all(self, id: str, sales: Iterable[str]) -> Many:
        """Confirms all or none."""
        sales = list(sales)
        return self._many(["STOCK.MCONFIRM", id, str(len(sales)), *sales], sales)

    def cancel_all(self, id: str, sales: Iterable[str]) -> Many:
        """Cancels each."""
        sales = list(sales)
        return self._many(["STOCK.MCANCEL", id, str(len(sales)), *sales], sales)

    def _one(self, words: list[str]) -> One:
        raise NotImplementedError

    def _many(self, words: list[str], sales: Iterable[str]) -> Many:
        raise NotImplementedError

    def _row(self, words: list[str]) -> Row:
        raise NotImplementedError


class Stock(_Stock[Outcome, Cart, Optional["dict[str, Any]"]]):
    """Orders over a plain client."""

    def _one(self, words: list[str]) -> Outcome:
        return _outcome(self._client.execute_command(*words))

    def _many(self, words: list[str], sales: Iterable[str]) -> Cart:
        return _cart(self._client.execute_command(*words), sales)

    def _row(self, words: list[str]) -> Optional[dict[str, Any]]:
        return _fields(self._client.execute_command(*words))


class AsyncStock(_Stock[Awaitable[Outcome], Awaitable[Cart], Awaitable[Optional["dict[str, Any]"]]]):
    """Orders over an asyncio client."""

    async def _one(self, words: list[str]) -> Outcome:
        return _outcome(await self._client.execute_command(*words))

    async def _many(self, words: list[str], sales: Iterable[str]) -> Cart:
        return _cart(await self._client.execute_command(*words), sales)

    async def _row(self, words: list[str]) -> Optional[dict[str, Any]]:
        return _fields(await self._client.execute_command(*words))


def _terms(buyer: Optional[str], hold: Optional[float], ref: Optional[str]) -> list[str]:
    words = ["BUYER", buyer] if buyer is not None else []
    words += ["HOLD", str(ms(hold))] if hold is not None else []
    return words + (["REF", ref] if ref is not None else [])


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _outcome(reply: Any) -> Outcome:
    return Outcome(*map(_text, reply))


def _cart(reply: Any, sales: Iterable[str]) -> Cart:
    return Cart(_text(reply[0]), dict(zip(sales, map(_outcome, reply[1:]))))


def _fields(reply: Any) -> Optional[dict[str, Any]]:
    if reply is None:
        return None
    # A map with RESP3, a flat list with RESP2.
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {_text(field): _text(value) for field, value in pairs}
