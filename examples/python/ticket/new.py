"""A ticket for each person. The server counts what each buyer has, in the same step in which it takes the ticket, so no lock is needed."""

import os

import redis
from lockstock import Stock

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"))
stock = Stock(r)


def buy(person, order):
    return stock.order("tickets", order, buyer=person).status


r.delete("tickets")
stock.create("tickets", 100, limit=1)
print("ann", buy("ann", "order:1"))
print("ann", buy("ann", "order:1"), "(the same request again)")
print("ann", buy("ann", "order:2"), "(a second ticket)")
print("bob", buy("bob", "order:3"))
print("left:", stock.info("tickets").remaining)
r.delete("tickets")
