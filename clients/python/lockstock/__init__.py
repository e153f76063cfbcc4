"""Locks and stock of the server module lockstock, for redis-py and valkey-py, plain and asyncio.

    with Lock(redis, "job:42", wait=10) as held:
        write(row, fence=held.fence)

A lock here is one request: its keys, its token, and what came of it. The server does the rest; what is left to a client, and easily
forgotten, is in this file:

- Every request carries a token, so it may be sent again when its reply was lost.
- Who waits does so on a connection of its own, whose read time-out fits the wait (or, in asyncio, by `Line`: many over one).
- A wait that is broken off, by whatever exception, is withdrawn: else its token would get the lock and nobody would know.
- While the lock is held, its lease is extended. If that fails, `lost` is set.

Times are seconds. Locks that are taken together, and the sales of one cart, must be in one slot of a cluster: give them a `{tag}`.
"""

from .aio import AsyncLock, Failed, Line
from .locks import Lock, Lost, NotGranted
from .stock import AsyncStock, Cart, Outcome, Status, Stock

__all__ = ["AsyncLock", "AsyncStock", "Cart", "Failed", "Line", "Lock", "Lost", "NotGranted", "Outcome", "Status", "Stock"]
