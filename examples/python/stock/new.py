"""Stock that is checked and taken in one step: there is no moment in between, and no lock that could end too early."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import redis
from lockstock import NoSale, Stock

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"))
stock = Stock(r)
r.delete("stock", "nothing")


def sell(number):
    return stock.order("stock", f"order:{number}").status


stock.create("stock", 8)
with ThreadPoolExecutor(10) as workers:
    print("ten workers, eight units:", dict(sorted(Counter(workers.map(sell, range(10))).items())))
print("left:", stock.info("stock").remaining)
try:
    stock.order("nothing", "order:1")
except NoSale:
    print("no such stock is an error of its own: NoSale")
r.delete("stock")
