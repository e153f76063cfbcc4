"""A user's program as it should be: `mypy --strict` and `pyright` have nothing against it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import Optional

import redis
import redis.asyncio
import valkey
import valkey.asyncio
from lockstock import AsyncHold, AsyncLock, AsyncStock, DropInLock, Hold, Line, Lock, LockstockError, Lost, Outcome, Stock


def plain() -> Iterator[Lock]:
    yield Lock(redis.Redis(), "job")
    yield Lock(redis.Redis(decode_responses=True), b"job", wait=math.inf)
    yield Lock(redis.RedisCluster(), "{job}1", "{job}2", wait=10, lease=5.5, token="me")
    yield Lock(redis.Redis(), "job", shared=True)
    yield Lock(valkey.Valkey(), "job", limit=3, session=True)


def in_a_cluster(client: valkey.ValkeyCluster) -> Lock:
    return Lock(client, "job", extend=False, replicas=1)


def work(lock: Lock) -> Optional[int]:
    try:
        with lock as hold:
            fence: int = hold.fence
            return fence if hold.held and not hold.lost.wait(1) else None
    except (Lost, LockstockError):
        return None


def by_hand(lock: Lock) -> bool:
    hold: Optional[Hold] = lock.acquire(5)
    if hold is None:
        return False
    done: bool = hold.extend(60) and hold.owned()
    return hold.release() and done and not lock.locked()


async def tasks() -> None:
    client = redis.asyncio.Redis()
    locks = [
        AsyncLock(client, "job"),
        AsyncLock(redis.asyncio.RedisCluster(host="localhost"), "job", wait=1),
        AsyncLock(valkey.asyncio.Valkey(), "job"),
    ]
    for lock in locks:
        async with lock as hold:
            await asyncio.wait_for(hold.lost.wait(), hold.fence)
        again: Optional[AsyncHold] = await lock.acquire()
        if again is not None:
            await again.release()
    async with Line(valkey.asyncio.Valkey()):
        pass
    async with Line(client) as line, line.lock("job", wait=3) as hold:
        print(hold.fence)


def as_before(client: redis.Redis) -> bool:
    lock = DropInLock(client, "job", timeout=10, blocking_timeout=3)
    with lock:
        return lock.extend(10) and lock.owned()


def shop(client: redis.Redis) -> str:
    stock = Stock(client)
    outcome: Outcome = stock.order("sale", "order:1", 2, buyer="ann", hold=60, waitlist=True)
    cart = stock.order_all("order:2", {"{a}1": 1, "{a}2": 2})
    return outcome.status if outcome.done else cart.sales["{a}1"].status


async def shop_of_tasks(client: redis.asyncio.Redis) -> bool:
    stock = AsyncStock(client)
    outcome = await stock.order("sale", "order:1")
    return outcome.done and (await stock.confirm_all("order:1", ["sale"])).done
