"""A queue behind the sale: the shop takes a unit and queues the order, and a worker writes it into the database.

Two bugs: a shop that crashes between its two steps has taken a unit for nobody. A worker that crashes after BRPOP has taken an order from
the queue that is in no database.
"""

import os
import sqlite3

import redis

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"))
database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE orders (buyer TEXT PRIMARY KEY)")


class Crash(Exception):
    """The process ends here."""


def shop(buyer, crashes=False):
    if r.decr("queue:stock") < 0:
        return
    if crashes:
        raise Crash
    r.lpush("queue:orders", buyer)


def worker(crashes=False):
    while order := r.brpop(["queue:orders"], timeout=1):
        if crashes:
            raise Crash
        database.execute("INSERT INTO orders VALUES (?)", [order[1].decode()])
        database.commit()


def run(part, *words):
    try:
        part(*words)
    except Crash:
        print("crashed:", part.__name__)


r.set("queue:stock", 3)
r.delete("queue:orders")
run(shop, "ann")
run(shop, "bob", True)
run(shop, "carl")
run(worker, True)
run(worker)
print("units taken:", 3 - int(r.get("queue:stock")))
print("orders in the database:", [row[0] for row in database.execute("SELECT buyer FROM orders")])
r.delete("queue:stock", "queue:orders")
