"""A lock whose watchdog renews it, in a program that clears old locks when it starts.

Two bugs: the second process clears the lock of the first, which still works. And the first one's watchdog renews whatever lock is there, so
the lock of a process that has crashed never ends.
"""

import os
import threading

import redis

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"))


class Process:
    def __init__(self, name):
        for key in r.scan_iter("lock:watchdog*"):  # a crash may have left them
            r.delete(key)
        self.name, self.ends, self.renewed = name, threading.Event(), threading.Event()
        self.inside = bool(r.set("lock:watchdog", name, nx=True, ex=10))

    def watchdog(self):
        while not self.ends.wait(0.1):
            r.expire("lock:watchdog", 10)
            self.renewed.set()


first = Process("first")
second = Process("second")
print("both are inside:", first.inside and second.inside)

r.expire("lock:watchdog", 5)  # the second has crashed, and its lock is about to end
threading.Thread(target=first.watchdog).start()
first.renewed.wait()
print("seconds that the lock of the crashed process has left:", r.ttl("lock:watchdog"))
first.ends.set()
r.delete("lock:watchdog")
