"""A ticket for each person, under a lock made by hand.

The bug: the token is a str, but GET answers bytes. The two are never equal, so the lock is never released.
"""

import os
import time
import uuid

import redis

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"))


def acquire(lock, patience):
    token = str(uuid.uuid4())
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if r.set(lock, token, nx=True, ex=10):
            return token
        time.sleep(0.001)
    return None


def release(lock, token):
    with r.pipeline() as pipe:
        pipe.watch(lock)
        if pipe.get(lock) == token:  # b"8a1f" == "8a1f" is False
            pipe.multi()
            pipe.delete(lock)
            pipe.execute()


def buy(person):
    token = acquire("lock:ticket", patience=0.5)
    if token is None:
        return "gave up waiting"
    try:
        return "has a ticket" if r.sadd("tickets", person) else "has a ticket already"
    finally:
        release("lock:ticket", token)


r.delete("lock:ticket", "tickets")
print("ann", buy("ann"))
print("bob", buy("bob"))
print("the lock is free:", not r.exists("lock:ticket"))
r.delete("lock:ticket", "tickets")
