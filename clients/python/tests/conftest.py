"""Where the servers are, and an eye on them. `clients/with-servers` starts them."""

import os
import random
import socket
import time
import uuid

import pytest
import redis

URL = os.environ["LOCKSTOCK_URL"]
CLUSTER_URL = os.environ["LOCKSTOCK_CLUSTER_URL"]


def free_port():
    """A port that was free a moment ago, from below those that the system gives to clients' ends of connections."""
    while True:
        with socket.socket() as one:
            port = random.randrange(12_000, 32_000)
            try:
                one.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def eventually(what, condition, patience=60.0):
    """Waits for a condition; for as long as a busy machine may need, for only failures use that up."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


class Eye:
    """Sees who holds a lock and who waits, on one server or a cluster."""

    def __init__(self, client):
        self.client = client

    def tokens(self, key, side):
        info = self.client.execute_command("LOCK.INFO", key)
        if info is None:
            return []
        info = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2]))
        return [(row if isinstance(row, dict) else dict(zip(row[::2], row[1::2])))["token"] for row in info[side]]

    def holders(self, key):
        return self.tokens(key, "holders")

    def waiters(self, key):
        return self.tokens(key, "waiters")

    def until_waiting(self, key, count):
        eventually(f"{count} wait for {key}", lambda: len(self.waiters(key)) == count)

    def until_free(self, key):
        eventually(f"{key} is free", lambda: self.client.execute_command("LOCK.INFO", key) is None)


@pytest.fixture
def server():
    with redis.Redis.from_url(URL, decode_responses=True) as client:
        yield Eye(client)


@pytest.fixture
def grace(server):
    """A second is time enough to reconnect, but perhaps not on a machine that is busy with something else."""
    server.client.config_set("lockstock.place-grace-ms", 30_000)
    yield
    server.client.config_set("lockstock.place-grace-ms", 1_000)


@pytest.fixture(params=["alone", "cluster"])
def place(request):
    """Both kinds of servers, one after the other."""
    if request.param == "alone":
        client = redis.Redis.from_url(URL, decode_responses=True)
    else:
        client = redis.RedisCluster.from_url(CLUSTER_URL, decode_responses=True)
    yield Eye(client)
    client.close()


@pytest.fixture
def key():
    """A name of its own for each test, with a tag, so that names that begin with it share a slot."""
    return f"{{{uuid.uuid4().hex[:8]}}}"
