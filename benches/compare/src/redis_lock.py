"""The lock of redis-py, as the real client drives it, and ours from the same client.

redis_lock.py PORT ours|theirs THREADS CYCLES: every thread takes the lock and gives it back so often; one thread has many
locks to itself, several contend for one.
"""

import sys
import threading
import uuid

import redis


def ours(client, name):
    token = str(uuid.uuid4())
    client.execute_command("LOCK.ACQUIRE", name, "TOKEN", token, "PX", 600000, "WAIT", 0)
    assert client.execute_command("LOCK.RELEASE", name, token) == 1


def theirs(client, name):
    lock = client.lock(name, timeout=600)
    assert lock.acquire()
    lock.release()


def main():
    port, way, threads, cycles = sys.argv[1], {"ours": ours, "theirs": theirs}[sys.argv[2]], *map(int, sys.argv[3:])

    def work():
        client = redis.Redis(port=int(port))
        for number in range(cycles):
            way(client, f"lock:{number}" if threads == 1 else "contended")

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


main()
