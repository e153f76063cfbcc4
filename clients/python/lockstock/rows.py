"""What sales and orders answer, with types."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Optional

from .terms import fields, text

Status = Literal[
    "OK", "DUPLICATE", "SOLDOUT", "INSUFFICIENT", "LIMIT", "NOTSTARTED", "ENDED",
    "EXPIRED", "CANCELLED", "QUEUED", "SKIPPED", "NOORDER", "NOSTOCK",
]  # fmt: skip
State = Literal["held", "sold", "cancelled", "expired", "waiting"]
STATES = ("held", "sold", "cancelled", "expired", "waiting")


class Outcome(NamedTuple):
    """What came of a request for one order."""

    status: Status
    units: int
    """What the order has now."""
    remaining: int
    """What the sale has left."""
    deadline: Optional[float]
    """When its hold ends, or, of NOTSTARTED, when the sale starts, in Unix seconds; None: it has none."""
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


class Order(NamedTuple):
    """What a sale knows of an order."""

    id: str
    state: State
    units: int
    buyer: str
    ref: str
    deadline: Optional[float]
    """When its hold ends, in Unix seconds; None: it has none."""
    place: Optional[int] = None
    """Where it stands in the waitlist, 1: next; None: it does not, or `orders` says it."""


class Buyer(NamedTuple):
    """What a buyer has, and may have; None: there is no limit."""

    units: int
    limit: Optional[int]


class Sale(NamedTuple):
    """What STOCK.INFO says; times are Unix seconds, and None is none. The counters are of this server since it loaded the sale."""

    total: int
    remaining: int
    held: int
    sold: int
    waiting: int
    orders: int
    buyers: int
    limit: Optional[int]
    start: Optional[float]
    end: Optional[float]
    rebuy: bool
    stream: Optional[str]
    deadlines: bool
    seq: int
    counters: dict[str, int]


def nothing(reply: Any) -> None:
    return None


def time(value: int) -> Optional[float]:
    return value / 1000 if value > 0 else None


def outcome(reply: Any) -> Outcome:
    status, units, remaining, deadline, ref = map(text, reply)
    return Outcome(status, units, remaining, time(deadline), ref)


def cart(reply: Any, sales: list[str]) -> Cart:
    return Cart(text(reply[0]), dict(zip(sales, map(outcome, reply[1:]))))


def order_row(id: str, reply: Any) -> Optional[Order]:
    if reply is None:
        return None
    row = fields(reply)
    return Order(id, row["state"], row["units"], row["buyer"], row["ref"], time(row["deadline"]), row.get("place"))


def page_row(id: str, state: State, units: int, buyer: str, ref: str, deadline: int) -> Order:
    return Order(id, state, units, buyer, ref, time(deadline))


def buyer_row(reply: Any) -> Optional[Buyer]:
    return None if reply is None else Buyer(reply[0], reply[1] or None)


def sale_row(reply: Any) -> Optional[Sale]:
    if reply is None:
        return None
    row = fields(reply)
    known = {field: row.pop(field) for field in Sale._fields if field in row}
    known.update(limit=known["limit"] or None, start=time(known["start"]), end=time(known["end"]))
    known.update(rebuy=known["rebuy"] == "yes", stream=known["stream"] or None, deadlines=known.get("deadlines") == "yes")
    return Sale(**known, counters=row)
