"""Stock under a lock that ends too early.

The bug: the work outlives the lease, and the release deletes a lock that is another worker's by now. One unit is sold twice.
"""

import os
import threading
import time

import redis

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"))
r.delete("lock:stock")
r.set("stock", 1)
sold, slow, late, over = [], threading.Event(), threading.Event(), threading.Event()


def acquire(name, lease):
    while not r.set("lock:stock", name, nx=True, px=lease):
        time.sleep(0.001)


def sell(name, lease, before_writing):
    acquire(name, lease)
    try:
        left = int(r.get("stock"))
        before_writing()
        if left > 0:
            r.set("stock", left - 1)
            sold.append(name)
    finally:
        r.delete("lock:stock")


def pause():  # a slow database, a garbage collection, a laptop that was shut
    slow.set()
    late.wait()


def work():
    late.set()  # now the first worker goes on, writes, and releases
    over.wait()
    print("a third worker gets the lock now:", bool(r.set("lock:stock", "third", nx=True)))


first = threading.Thread(target=lambda: (sell("first", 100, pause), over.set()))
first.start()
slow.wait()
sell("second", 60_000, work)
first.join()
print("units: 1, sold to:", " and ".join(sold))
r.delete("lock:stock", "stock")
