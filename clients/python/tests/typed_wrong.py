"""A user's mistakes: `mypy --strict` and `pyright` refuse each line that is marked, and no other."""

from __future__ import annotations

import redis
import redis.asyncio
import valkey.asyncio
from lockstock import AsyncLock, AsyncStock, Line, Lock, Stock

plain, tasks = redis.Redis(), redis.asyncio.Redis()

Lock(tasks, "job")  # wrong
Lock("redis://localhost", "job")  # wrong
Lock(plain, None)  # wrong
Lock(plain, "job", 30)  # wrong
Lock(plain, ["a", "b"])  # wrong
Lock(plain, "job", timeout=30)  # wrong
Lock(plain, "job", lease="30")  # wrong
Lock(plain, "job", limit="3")  # wrong
Lock(plain, "job").acquire().fence  # wrong
AsyncLock(plain, "job")  # wrong
AsyncLock(tasks, "job", holds=3)  # wrong
Line(plain)  # wrong
Line(redis.asyncio.RedisCluster(host="localhost"))  # wrong
Line(valkey.asyncio.ValkeyCluster(host="localhost"))  # wrong
Line(tasks).lock("job", session=True)  # wrong
Stock(tasks)  # wrong
Stock(plain).order("sale")  # wrong
Stock(plain).order("sale", "order:1", "2")  # wrong
Stock(plain).order("sale", "order:1", quantity=2)  # wrong
Stock(plain).order_all("order:1", ["a", "b"])  # wrong
Stock(plain).confirm_all("order:1", "sale")  # wrong
Stock(plain).look("sale", "order:1").state  # wrong
AsyncStock(plain)  # wrong

with AsyncLock(tasks, "job"):  # wrong
    pass


async def forgotten() -> None:
    lock, stock = AsyncLock(tasks, "job"), AsyncStock(tasks)
    lock.acquire()  # wrong
    lock.release()  # wrong
    hold = await lock.acquire()
    if hold is not None:
        hold.release()  # wrong
        hold.extend(3)  # wrong
    stock.order("sale", "order:1")  # wrong
    stock.order("sale", "order:1").status  # wrong
    stock.confirm("sale", "order:1")  # wrong
