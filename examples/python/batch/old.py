"""Several tickets in one order.

The bug: `return False` in `finally` runs whatever happened before. The buyer hears that it failed, tries again, and pays twice.
"""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import redis

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"), decode_responses=True)


def buy(user, count):
    while not r.set("lock:batch", user, nx=True, ex=10):
        pass
    try:
        if int(r.get("batch")) < count:
            return False
        r.decrby("batch", count)
        r.hincrby("batch:bought", user, count)
        return True
    finally:
        r.delete("lock:batch")
        return False  # a habit; Python 3.14 warns of it


r.delete("lock:batch", "batch:bought")
r.set("batch", 20)
print("ann buys 2:", buy("ann", 2))
print("ann tries again:", buy("ann", 2))
print("ann has:", r.hget("batch:bought", "ann"))
with ThreadPoolExecutor(9) as shops:
    print("nine others buy 2:", dict(Counter(shops.map(lambda user: buy(user, 2), range(9)))))
print("left:", r.get("batch"))
r.delete("batch", "batch:bought")
