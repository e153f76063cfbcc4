"""Awkward surroundings: users who may not do everything, networks that stop in mid-answer, forks, and ends of all kinds."""

import asyncio
import concurrent.futures
import contextlib
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import threading
import time

import pytest
import redis
import redis.asyncio
from conftest import URL, Gate, cut, ends_within, eventually, frozen
from lockstock import AsyncLock, Closed, Line, Lock, NotReleased, Refused, Stock, Unreachable, locks
from lockstock.wires import Wire
from test_impatient import play
from test_locks import run
from test_shared import run_and_raise

pytestmark = pytest.mark.breaks

PORT = int(URL.rpartition(":")[2])


@pytest.fixture
def client():
    with redis.Redis.from_url(URL) as client:
        yield client


class Stutter(Gate):
    """The answer to the first request that has a word stops after so many bytes, on a connection that stays open."""

    def __init__(self, word, count):
        self.stuck, self.count, self.ends = None, count, threading.Event()
        super().__init__(PORT)
        self.stutters = word

    def carry(self, one, other, asks):
        with contextlib.suppress(OSError):
            while data := one.recv(65_536):
                if asks and self.stuck is None and self.stutters in data:
                    self.stuck = one
                if not asks and self.stuck is other:
                    other.sendall(data[: self.count])
                    self.ends.wait()
                other.sendall(data)
        cut(one)
        cut(other)

    def close(self):
        self.ends.set()
        super().close()


@contextlib.contextmanager
def stutter(word, count):
    gate = Stutter(word, count)
    with redis.Redis(port=gate.port) as client:
        yield client
    gate.close()


def test_an_answer_that_stops_in_its_middle_keeps_nobody(server, key):
    with stutter(b"LOCK.ACQUIRE", 2) as client, ends_within(0, 2.5), pytest.raises(Unreachable):
        Lock(client, key, wait=0.5).acquire()
    server.until_free(key)


def test_what_may_be_asked_again_is_asked_over_another_connection(server, key):
    """A network may forget an idle connection, and say nothing."""
    with stutter(b"LOCK.RELEASE", 0) as client, ends_within(0, 5), pytest.raises(NotReleased, match="perhaps not by this release"):
        Lock(client, key).acquire().release()
    with stutter(b"STOCK.INFO", 0) as client, ends_within(0, 5):
        assert Stock(client).info(key) is None


def test_a_wait_of_a_thread_is_cancelled_also_while_it_looks_for_its_server(server, client, key, monkeypatch):
    monkeypatch.setattr("lockstock.wires.LOOK", 1.0)
    with Lock(client, key, lease=60):
        lock = Lock(client, key, wait=60)
        said = run(lock.acquire)
        server.until_waiting(key, 1)
        with frozen(server.client):
            time.sleep(1.5)
            with ends_within(0, 0.5):
                lock.cancel()
                assert said() is None


@contextlib.contextmanager
def user(server, *rules):
    server.client.execute_command("ACL", "SETUSER", "awkward", "reset", "on", "nopass", "~*", "&*", "+@all", *rules)
    yield {"host": "127.0.0.1", "port": PORT, "username": "awkward", "password": "any"}
    server.client.execute_command("ACL", "DELUSER", "awkward")


def test_a_grant_that_may_not_be_extended_is_given_back(server, client, key):
    with user(server, "-lock.extend") as options, redis.Redis(**options) as other:
        first = Lock(client, key).acquire()
        said = run(Lock(other, key, wait=60, lease=1.2).acquire)
        server.until_waiting(key, 1)
        time.sleep(0.5)
        first.release()
        assert isinstance(said(), Refused)
        assert server.holders(key) == []


def test_a_line_that_may_not_ask_says_so(server, key):
    async def body(client):
        with user(server, "-client|id") as options:
            async with redis.asyncio.Redis(**options) as other, AsyncLock(client, key), Line(other) as line:
                for _ in range(2):
                    with pytest.raises(Closed, match="hears nothing any more: .*permission"):
                        await line.lock(key, wait=60).acquire()

    play(lambda client: asyncio.wait_for(body(client), 60))
    server.until_free(key)


def test_a_line_hears_nonsense(server, key):
    async def body(client):
        async with Line(client) as line:
            first = await line.lock(key).acquire()
            for nonsense in ["no json", "[]", "{}", "1", '{"key":1}', b"\xff", '{"token":"t","keys":[[]]}']:
                server.client.publish(line._channel, nonsense)
            said = asyncio.create_task(line.lock(key, wait=60).acquire())
            await asyncio.to_thread(server.until_waiting, key, 1)
            await first.release()
            await (await asyncio.wait_for(said, 20)).release()

    play(body)


DECODED = {"decode_responses": True, "protocol": 3}


@pytest.mark.parametrize("options", [{}, DECODED])
def test_a_line_that_hears_late_of_an_earlier_wait_goes_on_waiting(server, gate, key, options):
    async def body(client):
        async with redis.asyncio.Redis(port=gate.port, **options) as far, AsyncLock(client, key) as first, Line(far) as line:
            _, subscribed = gate.pairs[0]
            lock = line.lock(key, token="one", wait=60, lease=900)
            asked = asyncio.create_task(lock.acquire())
            await asyncio.to_thread(server.until_waiting, key, 1)
            gate.go.clear()
            gate.late = {subscribed}
            asked.cancel()
            await asyncio.wait([asked])
            await asyncio.to_thread(server.until_waiting, key, 0)
            again = asyncio.create_task(lock.acquire())
            await asyncio.sleep(0.3)
            gate.go.set()
            await asyncio.to_thread(server.until_waiting, key, 1)
            await asyncio.sleep(0.3)
            await first.release()
            assert await (await asyncio.wait_for(again, 20)).release()

    play(lambda client: asyncio.wait_for(body(client), 60))


@pytest.mark.parametrize("options", [{}, {"protocol": 2}, DECODED])
def test_a_line_asks_once(server, key, options):
    """It does not take the answer to its PING for a new connection."""

    def count():
        return server.client.info("commandstats")["cmdstat_lock.acquire"]["calls"]

    async def body(client):
        async with AsyncLock(client, key), redis.asyncio.Redis.from_url(URL, **options) as other, Line(other) as line:
            # At first it learns which connection it has.
            await asyncio.sleep(1)
            before = count()
            asked = asyncio.create_task(line.lock(key, wait=60).acquire())
            await asyncio.sleep(2)
            assert count() == before + 1
            asked.cancel()
            await asyncio.wait([asked])

    play(body)


def test_a_line_whose_request_is_repeated_over_another_connection_goes_on_waiting(server, key):
    """After an outage the server may still have the connection that brought the first request."""

    async def body(client):
        async with AsyncLock(client, key) as first, Line(client) as line:
            said = asyncio.create_task(line.lock(key, token="one", wait=60).acquire())
            await asyncio.to_thread(server.until_waiting, key, 1)
            words = ["TOKEN", "one", "PX", 30_000, "WAIT", 60_000, "NOTIFY", line._channel]
            assert server.client.execute_command("LOCK.ACQUIRE", key, *words) == 1
            await asyncio.sleep(0.3)
            assert not said.done() and server.waiters(key) == ["one"]
            await first.release()
            hold = await asyncio.wait_for(said, 20)
            assert hold.held and await hold.owned() and await hold.release()

    play(lambda client: asyncio.wait_for(body(client), 60))


def test_a_server_that_runs_a_script_is_asked_again(server, client, key):
    script = "local t = redis.call('TIME')[1] + 2 while redis.call('TIME')[1] - t < 0 do end"
    before = server.client.config_get("busy-reply-threshold")
    server.client.config_set("busy-reply-threshold", 50)
    try:
        hold = Lock(client, key).acquire()
        said = run(lambda: redis.Redis.from_url(URL, socket_timeout=60).eval(script, 0))
        with redis.Redis.from_url(URL) as other:
            eventually("it is busy", lambda: is_busy(other))
        assert hold.release() is True
        said()
    finally:
        server.client.config_set("busy-reply-threshold", before["busy-reply-threshold"])


@contextlib.contextmanager
def unwritable(server):
    """For a moment the replicas are missing without which nothing may be written."""
    writable = threading.Timer(0.5, server.client.config_set, ["min-replicas-to-write", 0])
    server.client.config_set("min-replicas-to-write", 1)
    writable.start()
    try:
        yield
    finally:
        writable.join()
        server.client.config_set("min-replicas-to-write", 0)


def test_a_release_that_may_not_be_written_is_asked_again(server, client, key):
    hold = Lock(client, key, lease=900).acquire()
    with unwritable(server):
        assert hold.release() is True

    async def body(other):
        held = await AsyncLock(other, key, lease=900).acquire()
        with unwritable(server):
            assert await held.release() is True

    play(body)


def test_so_is_a_withdrawal(server, key):
    async def body(client):
        async with AsyncLock(client, key, lease=900), Line(client) as line:
            asked = asyncio.create_task(line.lock(key, wait=900).acquire())
            await asyncio.to_thread(server.until_waiting, key, 1)
            with unwritable(server):
                asked.cancel()
                await asyncio.wait([asked])
            await asyncio.sleep(2)
            assert server.waiters(key) == []

    play(body)


def is_busy(client):
    try:
        return not client.ping()
    except redis.ResponseError as error:
        return str(error).startswith("BUSY")


def test_an_endless_lease_costs_no_other(client, key):
    """Longer than a thread can sleep."""
    locks._forget()
    with Lock(client, key + "b", lease=0.3):
        long = Lock(client, key, lease=1e11, extend=False).acquire()
    time.sleep(0.5)
    short = Lock(client, key + "a", lease=0.6).acquire()
    time.sleep(1.2)
    assert short.held and short.release() and long.release()


def test_a_longer_lease_is_not_cut_by_what_was_on_its_way(server, client, gate, key):
    with redis.Redis(port=gate.port) as slow:
        hold = Lock(slow, key, lease=1.5).acquire()
        gate.hold_up(b"LOCK.EXTEND")
        assert gate.reached.wait(60)
        hold._client = client
        assert hold.extend(60)
        gate.go.set()
        time.sleep(2)
        assert hold.held and hold.owned()
        eventually("it is long", lambda: server.client.execute_command("LOCK.INFO", key)["holders"][0]["lease-ms"] > 30_000)
        hold.release()


def fail(port):
    Lock(redis.Redis(port=port), "key").acquire()


def test_errors_come_out_of_other_processes(client, key):
    client.set(key, "text")
    with pytest.raises(Refused) as refused:
        Lock(client, key).acquire()
    again = pickle.loads(pickle.dumps(refused.value))
    assert isinstance(again, Refused) and isinstance(again, redis.ResponseError) and str(again) == str(refused.value)
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(Unreachable):
            pool.submit(fail, 1).result(60)


class Kill(BaseException):
    """As a pool of greenlets raises it."""


def test_a_release_that_is_broken_off_goes_on_behind(server, client, key, monkeypatch):
    def broken(*_):
        monkeypatch.undo()
        raise Kill

    hold = Lock(client, key, lease=900).acquire()
    monkeypatch.setattr(locks, "play", broken)
    with pytest.raises(Kill):
        hold.release()
    server.until_free(key)


@pytest.mark.parametrize("place", [(Wire, "give_back"), (Lock, "_left")])
def test_an_interrupt_beside_a_block_leaves_no_hold(server, client, key, monkeypatch, place):
    real, tests = getattr(*place), threading.current_thread()

    def broken(one):
        if threading.current_thread() is not tests:
            # What an earlier test left in the background.
            return real(one)
        monkeypatch.undo()
        raise KeyboardInterrupt

    lock = Lock(client, key, lease=900)
    monkeypatch.setattr(*place, broken)
    with pytest.raises(KeyboardInterrupt), lock:
        pass
    server.until_free(key)
    assert not lock.held and lock.acquire().release()


@pytest.mark.parametrize("enters", [False, True])
def test_an_interrupt_at_any_line_of_an_acquisition_leaves_nothing(server, client, key, enters):
    lock, lines = Lock(client, key, lease=900, token="one"), 0

    def acquires():
        nonlocal lines
        seen, lines = 0, lines + 1

        def trace(frame, event, _):
            nonlocal seen
            parts = "acquire", "_acquire", "__enter__", "_enter", "_got", "_leave"
            if frame.f_code.co_name not in parts or "lockstock" not in frame.f_code.co_filename:
                return None
            seen += event == "line"
            if event == "line" and seen == lines:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            return lock.__enter__() if enters else lock.acquire()
        finally:
            sys.settrace(None)

    while True:
        try:
            hold = acquires()
        except KeyboardInterrupt:
            assert not lock.held and not lock._blocks
            server.until_free(key)
        else:
            break
    assert lines > 20 and hold.release()


def test_what_handles_a_signal_may_cancel(client, key):
    lock = Lock(client, key)

    def interrupted():
        with lock._turn:
            lock.cancel()

    with ends_within(0, 5):
        assert run(interrupted)() is None


def test_a_child_leaves_the_waits_of_its_parent(server, client, key):
    with Lock(client, key):
        lock = Lock(client, key, wait=60)
        said = run(lock.acquire)
        server.until_waiting(key, 1)
        before = server.client.execute_command("LOCK.INFO", key)["waiters"][0]["client"]
        # What another thread has in hand while a process forks is in hand for ever in its child.
        run_and_raise(lock._turn.acquire)
        child = os.fork()
        if child == 0:
            lock.cancel()
            os._exit(0)
        eventually("the child ends", lambda: os.waitpid(child, os.WNOHANG)[0] == child, 5)
        lock._turn = threading.RLock()
        assert server.client.execute_command("LOCK.INFO", key)["waiters"][0]["client"] == before
    assert said().release()


def test_a_generator_that_was_left_open_does_not_keep_the_process(server, key):
    program = f"""
import redis
from lockstock import Lock
def generator():
    with Lock(redis.Redis.from_url({URL!r}), {key!r}, session=True):
        yield
left = generator()
next(left)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=20)
    server.until_free(key)


def test_no_cancellation_is_lost(server, client, key):
    """`asyncio.wait_for` loses one, by which the client sends."""

    async def body(other):
        for _ in range(400):
            task = asyncio.create_task(AsyncLock(other, key, wait=600).acquire())
            await asyncio.sleep(random.random() * 0.0015)
            task.cancel()
            await asyncio.wait([task], timeout=20)
            assert task.cancelled()

    with Lock(client, key):
        play(body)
        server.until_waiting(key, 0)


def test_so_many_holds_of_tasks_are_extended_together(key):
    async def body(client):
        class Far:
            def __getattr__(self, name):
                return getattr(client, name)

            async def execute_command(self, *words):
                await asyncio.sleep(0.02)
                return await client.execute_command(*words)

        far = Far()
        holds = [await AsyncLock(far, f"{key}{number}", wait=20, lease=4).acquire() for number in range(80)]
        await asyncio.sleep(5)
        assert all(hold.held for hold in holds)
        for hold in holds:
            await hold.release()

    play(body)
