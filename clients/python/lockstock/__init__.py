"""Locks and stock of the server module lockstock, for redis-py and valkey-py, plain and asyncio.

    with Lock(redis, "job:42", wait=10) as hold:
        write(row, fence=hold.fence)

A lock here is what to ask for; what is got is a `Hold`. What is left to a client, and easily forgotten, is in this package:

- Every acquisition has a token of its own, so it may be asked for again when its reply was lost.
- Whatever the server does and whatever the client's settings are, a wait and a release end in time (`wires`, `aio_wires`).
- A wait that is broken off, by whatever exception, is withdrawn: else its token would get the lock and nobody would know.
- While a lock is held, its lease is extended. If that fails, `lost` is set (`holds`).

Times are seconds. Locks that are taken together, and the sales of one cart, must be in one slot of a cluster: give them a `{tag}`.
"""

from .aio import AsyncHold, AsyncLock
from .dropin import AsyncDropInLock, DropInLock
from .errors import (
    AlreadyHeld,
    Closed,
    Deadlock,
    LockstockError,
    Lost,
    ModuleMissing,
    NoSale,
    NotGranted,
    NotHeld,
    NotReleased,
    NotReplicated,
    Refused,
    SaleExists,
    Unreachable,
)
from .line import Line
from .locks import Hold, Lock
from .rows import Buyer, Cart, Order, Outcome, Sale, State, Status
from .stock import AsyncStock, Stock

__version__ = "0.3.0"

__all__ = [
    "AlreadyHeld", "AsyncDropInLock", "AsyncHold", "AsyncLock", "AsyncStock", "Buyer", "Cart", "Closed", "Deadlock", "DropInLock", "Hold", "Line", "Lock", "LockstockError", "Lost",
    "ModuleMissing", "NoSale", "NotGranted", "NotHeld", "NotReleased", "NotReplicated", "Order", "Outcome", "Refused", "Sale", "SaleExists",
    "State", "Status", "Stock", "Unreachable",
]  # fmt: skip
