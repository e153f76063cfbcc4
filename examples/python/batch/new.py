"""Several tickets in one order: all of them or none, and a request that is repeated gets its first answer."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import redis
from lockstock import Stock

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"))
stock = Stock(r)


def buy(user):
    return stock.order("batch", f"order:{user}", 3, buyer=user).status


r.delete("batch")
stock.create("batch", 20)
print("ann buys 3:", buy("ann"))
print("ann tries again:", buy("ann"))
print("ann has:", stock.buyer("batch", "ann").units)
with ThreadPoolExecutor(9) as shops:
    print("nine others buy 3:", dict(sorted(Counter(shops.map(buy, map(str, range(9)))).items())))
print("left:", stock.info("batch").remaining)
r.delete("batch")
