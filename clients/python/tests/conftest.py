"""Where the servers are, and an eye on them. `clients/with-servers` starts them."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
import time
import uuid

import pytest
import redis

URL = os.environ["LOCKSTOCK_URL"]
CLUSTER_URL = os.environ["LOCKSTOCK_CLUSTER_URL"]


def pytest_configure(config):
    config.addinivalue_line("markers", "onlynoncluster: of the tests of redis-py; these are played alone")
    config.addinivalue_line("markers", "newest: of the newest versions of the libraries only, of which the pages speak")
    config.addinivalue_line("markers", "breaks: with servers and networks that the test breaks, so mostly waiting")
    config.addinivalue_line("markers", "static: of the package as it is, whatever the server")


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


class Clock:
    """How long something takes, less what this process itself was kept from its work: a thread sees how late it is woken up."""

    def __init__(self):
        self.begun = self.last = time.monotonic()
        self.late, self.over = 0.0, threading.Event()
        self.looks = threading.Thread(target=self.look, daemon=True)
        self.looks.start()

    def look(self):
        while not self.over.wait(0.01):
            self.count()
        self.count()

    def count(self):
        now = time.monotonic()
        self.late += max(now - self.last - 0.02, 0)
        self.last = now

    def stop(self):
        self.took = time.monotonic() - self.begun
        self.over.set()
        self.looks.join()


@contextlib.contextmanager
def ends_within(least, most):
    clock = Clock()
    try:
        yield
    finally:
        clock.stop()
    assert least <= clock.took and clock.took - clock.late <= most, (clock.took, clock.late)


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


def end_connection(address, ports=()):
    """Ends the connection of a client with this end, on whatever server it is."""
    with redis.RedisCluster.from_url(CLUSTER_URL) as cluster:
        all_ports = [int(URL.rpartition(":")[2])] + [node.port for node in cluster.get_nodes()]
    for port in ports or all_ports:
        with redis.Redis(port=port) as client:
            if client.execute_command("CLIENT", "KILL", "ADDR", f"127.0.0.1:{address[1]}"):
                return
    raise AssertionError(f"no server has a connection from {address}")


class Gate:
    """What stands between a client and the server, and stops what is said: as a network, or a server, that is no more."""

    def __init__(self, port):
        self.to = port
        self.word = self.losing = self.slow = self.delaying = None
        self.late = set()
        self.reached, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.pairs = []
        self.is_away = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def hold_up(self, word=b""):
        """From the next request on that has this word nothing passes, until `go`."""
        self.reached.clear()
        self.go.clear()
        self.word = word

    def keep_back(self):
        """What is said over the connections that there are passes no more, until `go`: as in a network that was away, and repeats it."""
        self.go.clear()
        self.late = {one for pair in self.pairs for one in pair}

    def lose_answers(self, word):
        """The next request that has this word comes to the server, and its connection ends before the answer."""
        self.losing = word

    def slow_down(self, word, span):
        """Each request that has this word passes so many seconds later, and what comes after it over the same connection."""
        self.slow = word, span

    def delay(self, word, span):
        """The next request that has this word comes to the server so many seconds later, and its connection ends at once."""
        self.delaying = word, span

    def close(self):
        """Whoever asks now is refused."""
        cut(self.listener)
        self.listener.close()
        self.go.set()
        self.cut_all()

    def cut_all(self):
        for one in [one for pair in self.pairs for one in pair]:
            cut(one)

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            if self.is_away:
                near.close()
                far.close()
                continue
            self.pairs.append((near, far))
            for one, other in (near, far), (far, near):
                threading.Thread(target=self.carry, args=[one, other, one is near], daemon=True).start()

    def carry(self, one, other, asks):
        try:
            while data := one.recv(65_536):
                if asks and self.word is not None and self.word in data:
                    self.reached.set()
                if self.reached.is_set() or self.word == b"" or one in self.late:
                    self.go.wait()
                if asks and self.slow is not None and self.slow[0] in data:
                    time.sleep(self.slow[1])
                delays = asks and self.delaying is not None and self.delaying[0] in data
                if delays:
                    span, self.delaying = self.delaying[1], None
                    cut(one)
                    time.sleep(span)
                loses = asks and self.losing is not None and self.losing in data
                if loses:
                    self.losing = None
                    cut(one)
                other.sendall(data)
                if loses or delays:
                    # Let the server read it.
                    time.sleep(0.2)
        except OSError:
            pass
        cut(one)
        cut(other)


def cut(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


@contextlib.contextmanager
def away(gates):
    """A network that is not there for a while."""
    for gate in gates:
        gate.is_away = True
        gate.cut_all()
    try:
        yield
    finally:
        for gate in gates:
            gate.is_away = False


@pytest.fixture
def cluster_gates():
    """A gate before each node of the cluster, and the arguments of a client that goes through them."""
    with redis.RedisCluster.from_url(CLUSTER_URL) as cluster:
        gates = {node.port: Gate(node.port) for node in cluster.get_nodes()}
    first = gates[int(CLUSTER_URL.rpartition(":")[2])]

    def remap(address):
        return "127.0.0.1", gates[address[1]].port if address[1] in gates else address[1]

    yield list(gates.values()), {"host": "127.0.0.1", "port": first.port, "address_remap": remap}
    for gate in gates.values():
        gate.close()


@pytest.fixture
def gate():
    gate = Gate(int(URL.rpartition(":")[2]))
    yield gate
    gate.close()


@contextlib.contextmanager
def frozen(client):
    """The server of this client is there, and does nothing."""
    pid = client.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def bare_server(directory):
    """A server that has not loaded the module."""
    port = free_port()
    words = [os.environ.get("LOCKSTOCK_SERVER", "redis-server"), "--port", str(port), "--save", "", "--bind", "127.0.0.1"]
    process = subprocess.Popen(words, cwd=directory, stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(port=port) as client:
            eventually("it answers", lambda: patiently(client.ping))
            yield client
    finally:
        process.kill()
        process.wait()


def patiently(ask):
    try:
        return ask()
    except (redis.ConnectionError, redis.TimeoutError):
        return None


@pytest.fixture
def server():
    with redis.Redis.from_url(URL, decode_responses=True, protocol=3) as client:
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
