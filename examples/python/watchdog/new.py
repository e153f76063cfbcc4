"""A lock that is extended while its holder lives, and is free as soon as its process has crashed. Nothing is cleared at the start."""

import os
import subprocess
import sys

import redis
from lockstock import Lock

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"))

if sys.argv[1:] == ["work"]:
    with Lock(r, "watchdog", session=True, lease=60):
        print("the first process is inside", flush=True)
        sys.stdin.read()  # works until it is killed
    sys.exit()

r.delete("watchdog")
first = subprocess.Popen([sys.executable, __file__, "work"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(first.stdout.readline().strip())
try:
    Lock(r, "watchdog").acquire() or print("the second is refused")
finally:
    first.kill()  # kill -9: nothing of it can release the lock
    first.communicate()

with Lock(r, "watchdog", wait=5, lease=1) as hold:
    print("the first was killed, and the second is inside, with a lease of 1 s")
    print("lost while it works for 2.5 s:", hold.lost.wait(2.5))
    hold.execute("SET", "watchdog:report", "done")  # only while the lock is held
print("written:", r.get("watchdog:report").decode())
r.delete("watchdog:report")
