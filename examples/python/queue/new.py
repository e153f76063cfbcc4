"""The order and its event are one step in the server; the row and the worker's position are one transaction in the database.

`lockstock-outbox` does what this worker does, for PostgreSQL, MySQL and SQLite.
"""

import os
import sqlite3

import redis
from lockstock import Stock

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"), decode_responses=True)
stock = Stock(r)
database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE orders (buyer TEXT PRIMARY KEY)")
database.execute("CREATE TABLE position AS SELECT '0-0' AS id")


class Crash(Exception):
    """The process ends here."""


def shop(buyer, crashes=False):
    stock.order("queue", f"order:{buyer}", buyer=buyer)
    if crashes:
        raise Crash


def worker(crashes=False):
    (position,) = database.execute("SELECT id FROM position").fetchone()
    while events := r.xrange("queue:events", min=f"({position}", count=1):
        [(position, event)] = events
        if crashes:
            raise Crash
        with database:
            database.execute("INSERT INTO orders VALUES (?)", [event["buyer"]])
            database.execute("UPDATE position SET id = ?", [position])


def run(part, *words):
    try:
        part(*words)
    except Crash:
        print("crashed:", part.__name__)


r.delete("queue", "queue:events")
stock.create("queue", 3, stream="queue:events")
run(shop, "ann")
run(shop, "bob", True)
run(shop, "carl")
run(worker, True)
run(worker)
print("units taken:", stock.info("queue").sold)
print("orders in the database:", [row[0] for row in database.execute("SELECT buyer FROM orders")])
r.delete("queue", "queue:events")
