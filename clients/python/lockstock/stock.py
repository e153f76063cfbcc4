"""Sales, orders and carts, with the status as data."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Optional, TypeVar, Union, overload

from .aio_wires import Wire as AsyncWire
from .clients import AsyncClient, Client, check
from .errors import named
from .rows import STATES, Buyer, Cart, Order, Outcome, Sale, State, buyer_row, cart, nothing, order_row, outcome, page_row, sale_row
from .steps import RELEASE, Steps, once, persistently
from .terms import Key, Word, flag, key, ms, name, now, seconds, text, whole
from .wires import Wire, play

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec

    P = ParamSpec("P")
else:
    P = TypeVar("P")

T = TypeVar("T")
Time = Union[float, datetime.datetime]
# A time in seconds that is later than this was meant in milliseconds: it is in the year 5138.
LATEST = 1e11
# Not any iterable: a str is one, of letters.
Sales = Union[list[str], tuple[str, ...], set[str], Mapping[str, object]]


@dataclasses.dataclass(frozen=True)
class Request(Generic[T]):
    """The words that are sent, and what is made of the answer."""

    words: Sequence[Word]
    read: Callable[[Any], T]
    again: bool = True
    """Whether it may be sent again if nobody knows whether it was done."""
    leg: int = 1
    """Which of the words is the key of the first sale."""

    def steps(self) -> Steps[Any]:
        return (persistently if self.again else once)(self.words, now() + RELEASE)

    @property
    def sale(self) -> Key:
        return self.words[self.leg]


class asked(Generic[P, T]):
    """A method that makes a request: of a `Stock` it answers, of an `AsyncStock` it is awaited. Wrong arguments are refused at once."""

    def __init__(self, make: Callable[Concatenate[Any, P], Request[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__
        self.__wrapped__ = make

    @overload
    def __get__(self, stock: None, kind: Any) -> asked[P, T]: ...

    @overload
    def __get__(self, stock: Stock, kind: Any) -> Callable[P, T]: ...

    @overload
    def __get__(self, stock: AsyncStock, kind: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, stock: Any, kind: Any) -> Any:
        if stock is None:
            return self

        def method(*args: Any, **options: Any) -> Any:
            return stock._ask(self._make(stock, *args, **options))

        method.__doc__, method.__wrapped__ = self.__doc__, self._make.__get__(stock)  # type: ignore[attr-defined]
        return method


class _Stock:
    """What `Stock` and `AsyncStock` may be asked. Every answer is there within five seconds, or `Unreachable` is raised. A request of an
    order is sent again until then, for its id makes it happen once; what makes or changes a sale is not, but `adjust` with an id."""

    @asked
    def create(
        self,
        sale: Key,
        total: int,
        *,
        limit: Optional[int] = None,
        start: Optional[Time] = None,
        end: Optional[Time] = None,
        rebuy: bool = False,
        stream: Optional[Key] = None,
        deadlines: bool = False,
    ) -> Request[None]:
        """Offers so many units, with a limit for each buyer, between two times. Raises `SaleExists` if the key is there.

        rebuy: an order that lapsed or was cancelled may be asked for again. stream: where every change of an order is appended;
        deadlines: with the deadline of its hold.
        """
        words = ["STOCK.CREATE", key(sale), str(whole("total", total, 0)), *_window(limit, start, end, 1)]
        words += ["REBUY"] if flag("rebuy", rebuy) else []
        words += ["STREAM", key(stream)] if stream is not None else []
        if flag("deadlines", deadlines) and stream is None:
            raise ValueError("deadlines are told in a stream: name it")
        return Request(words + ["DEADLINES"] if deadlines else words, nothing, again=False)

    @asked
    def alter(
        self,
        sale: Key,
        *,
        limit: Optional[int] = None,
        start: Optional[Time] = None,
        end: Optional[Time] = None,
        rebuy: Optional[bool] = None,
    ) -> Request[None]:
        """Changes what is named; a limit or time of 0 is none. Raises `NoSale`."""
        words = ["STOCK.ALTER", key(sale), *_window(limit, start, end, 0)]
        words += ["REBUY", "yes" if flag("rebuy", rebuy) else "no"] if rebuy is not None else []
        if len(words) == 2:
            raise TypeError("name what is to change: limit, start, end or rebuy")
        return Request(words, nothing, again=False)

    @asked
    def adjust(self, sale: Key, delta: int, *, id: Optional[str] = None) -> Request[int]:
        """Adds units, or withdraws unsold ones, and answers what remains. With an id it may be sent again. Raises `NoSale`."""
        words = ["STOCK.ADJUST", key(sale), str(whole("delta", delta, -(2**53) + 1))]
        return Request(words + (["ID", name("an id", id)] if id is not None else []), int, again=id is not None)

    @asked
    def order(
        self,
        sale: Key,
        id: str,
        qty: int = 1,
        *,
        buyer: Optional[str] = None,
        hold: Optional[float] = None,
        ref: Optional[str] = None,
        waitlist: bool = False,
    ) -> Request[Outcome]:
        """Takes units, or with `hold` reserves them for so many seconds; with `waitlist` stands in line where they are gone."""
        words = ["STOCK.DECR_ONCE", key(sale), name("an id", id), "QTY", str(whole("qty", qty, 1)), *_terms(buyer, hold, ref)]
        return Request(words + ["WAITLIST"] if flag("waitlist", waitlist) else words, outcome)

    @asked
    def confirm(self, sale: Key, id: str, *, keep: Optional[int] = None) -> Request[Outcome]:
        """Makes a hold a sale: the payment is there; with `keep` of so many of its units, and gives the others back."""
        return Request(["STOCK.CONFIRM", key(sale), name("an id", id), *_keep(keep)], outcome)

    @asked
    def cancel(self, sale: Key, id: str, *, keep: Optional[int] = None) -> Request[Outcome]:
        """Gives the units of a hold or a sale back, or leaves the waitlist; with `keep` the order keeps so many."""
        return Request(["STOCK.CANCEL", key(sale), name("an id", id), *_keep(keep)], outcome)

    @asked
    def extend(self, sale: Key, id: str, hold: float) -> Request[Outcome]:
        """Lets a hold end so many seconds from now."""
        return Request(["STOCK.EXTEND", key(sale), name("an id", id), "PX", ms(seconds("hold", hold))], outcome)

    @asked
    def look(self, sale: Key, id: str) -> Request[Optional[Order]]:
        """The order; None: there is none."""
        return Request(["STOCK.ORDER", key(sale), name("an id", id)], lambda reply: order_row(id, reply))

    @asked
    def info(self, sale: Key) -> Request[Optional[Sale]]:
        """The sale; None: there is none."""
        return Request(["STOCK.INFO", key(sale)], sale_row)

    @asked
    def buyer(self, sale: Key, buyer: str) -> Request[Optional[Buyer]]:
        """What the buyer has; None: there is no such sale."""
        return Request(["STOCK.BUYER", key(sale), name("a buyer", buyer)], buyer_row)

    @asked
    def order_all(
        self,
        id: str,
        units: Mapping[str, int],
        *,
        buyer: Optional[str] = None,
        hold: Optional[float] = None,
        ref: Optional[str] = None,
    ) -> Request[Cart]:
        """Takes units of several sales, all or none."""
        if not isinstance(units, Mapping):
            raise TypeError(f"units are a mapping of sales to numbers, not {units!r}")
        sales = _sales(list(units))
        legs = [word for sale in sales for word in (sale, str(whole("qty", units[sale], 1)))]
        words = ["STOCK.MDECR_ONCE", name("an id", id), str(len(sales)), *legs, *_terms(buyer, hold, ref)]
        return Request(words, lambda reply: cart(reply, sales), leg=3)

    @asked
    def confirm_all(self, id: str, sales: Sales) -> Request[Cart]:
        """Confirms an order over several sales, all or none."""
        return _legs("STOCK.MCONFIRM", id, sales)

    @asked
    def cancel_all(self, id: str, sales: Sales) -> Request[Cart]:
        """Cancels an order over several sales."""
        return _legs("STOCK.MCANCEL", id, sales)


class Stock(_Stock):
    """Sales and orders over a plain client."""

    def __init__(self, client: Client) -> None:
        check(client, False, "Stock")
        self._client = client

    def orders(self, sale: Key, *, state: Optional[State] = None, count: int = 100) -> Iterator[Order]:
        """Every order, in no order; one that changes meanwhile may come twice, as with SCAN."""
        return self._pages(_page(sale, state, count))

    def _pages(self, page: Page) -> Iterator[Order]:
        cursor = "0"
        while True:
            cursor, rows = self._ask(page(cursor))
            yield from rows
            if cursor == "0":
                return

    def _ask(self, request: Request[T]) -> T:
        wire = Wire(self._client, request.sale)
        try:
            return request.read(play(request.steps(), wire))
        except Exception as error:
            raise named(error)
        finally:
            wire.give_back()


class AsyncStock(_Stock):
    """Sales and orders over an asyncio client."""

    def __init__(self, client: AsyncClient) -> None:
        check(client, True, "AsyncStock")
        self._client = client

    def orders(self, sale: Key, *, state: Optional[State] = None, count: int = 100) -> AsyncIterator[Order]:
        """As `Stock.orders`."""
        return self._pages(_page(sale, state, count))

    async def _pages(self, page: Page) -> AsyncIterator[Order]:
        cursor = "0"
        while True:
            cursor, rows = await self._ask(page(cursor))
            for row in rows:
                yield row
            if cursor == "0":
                return

    async def _ask(self, request: Request[T]) -> T:
        wire = AsyncWire(self._client, request.sale)
        try:
            return request.read(await wire.play(request.steps()))
        except Exception as error:
            raise named(error)
        finally:
            await wire.hang_up()


# The request for the page of orders that a cursor begins.
Page = Callable[[str], Request[tuple[str, list[Order]]]]


def _page(sale: Key, state: Optional[State], count: int) -> Page:
    words = ["STOCK.ORDERS", key(sale)]
    options = ["COUNT", str(whole("count", count, 1))]
    if state is not None:
        if state not in STATES:
            raise ValueError(f"state is one of {', '.join(STATES)}, not {state!r}")
        options += ["STATE", state]

    def read(reply: Any) -> tuple[str, list[Order]]:
        return text(reply[0]), [page_row(*map(text, row)) for row in reply[1]]

    return lambda cursor: Request([*words, cursor, *options], read)


def _legs(command: str, id: str, sales: Sales) -> Request[Cart]:
    names = _sales(sales)
    return Request([command, name("an id", id), str(len(names)), *names], lambda reply: cart(reply, names), leg=3)


def _sales(sales: Any) -> list[str]:
    if isinstance(sales, (str, bytes)):
        raise TypeError(f"sales are a list of names, not {sales!r}")
    names = [name("a sale", sale) for sale in sales]
    if not names or len(set(names)) < len(names):
        raise ValueError("sales are named once each, and at least one of them")
    return names


def _terms(buyer: Optional[str], hold: Optional[float], ref: Optional[str]) -> list[Word]:
    words: list[Word] = ["BUYER", name("a buyer", buyer)] if buyer is not None else []
    words += ["HOLD", ms(seconds("hold", hold))] if hold is not None else []
    return words + (["REF", name("a ref", ref)] if ref is not None else [])


def _keep(keep: Optional[int]) -> list[Word]:
    return ["KEEP", str(whole("keep", keep, 1))] if keep is not None else []


def _window(limit: Optional[int], start: Optional[Time], end: Optional[Time], least: int) -> list[Word]:
    words: list[Word] = ["LIMIT", str(whole("limit", limit, least))] if limit is not None else []
    for option, time in ("START", start), ("END", end):
        if isinstance(time, datetime.datetime):
            if time.tzinfo is None:
                raise ValueError(f"{option.lower()} needs a time zone: {time!r}")
            time = time.timestamp()
        if isinstance(time, (int, float)) and time > LATEST:
            raise ValueError(f"{option.lower()} is in Unix seconds, not milliseconds: {time!r}")
        if time is not None:
            words += [option, str(round(seconds(option.lower(), time, least=0 if least == 0 else None) * 1000))]
    return words
