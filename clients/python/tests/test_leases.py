"""Leases: what is asked for while they last, clocks and loops that stand still, and processes that have no thread left."""

import asyncio
import contextlib
import gc
import importlib.util
import sys
import threading
import time
import weakref

import pytest
import redis
import redis.asyncio
from conftest import URL, Gate, cut, ends_within, eventually, frozen
from lockstock import AsyncLock, Lock, Unreachable, aio, locks, terms
from lockstock.terms import now
from test_impatient import play
from test_locks import fields, run

pytestmark = pytest.mark.breaks


@pytest.fixture
def client():
    with redis.Redis.from_url(URL) as client:
        yield client


def lease_of(client, key):
    return fields(fields(client.execute_command("LOCK.INFO", key))["holders"][0])["lease-ms"]


def test_a_hold_that_is_extended_again_and_again_has_one_row_in_the_agenda(client, key):
    with Lock(client, key, lease=900) as hold:
        before = len(locks._keeper._agenda._rows)
        for _ in range(50):
            assert hold.extend()
        assert len(locks._keeper._agenda._rows) <= before + 1


def test_so_has_one_of_asyncio(key):
    async def body(client):
        async with AsyncLock(client, key, lease=900) as hold:
            for _ in range(50):
                assert await hold.extend()
            assert len(aio._keeper()._agenda._rows) == 1

    play(body)


def test_a_lease_that_was_shortened_without_an_answer_counts_as_such(server, client, gate, key):
    with redis.Redis(port=gate.port) as far:
        hold = Lock(far, key, lease=60).acquire()
        gate.hold_up(b"LOCK.EXTEND")
        with ends_within(0, 2), pytest.raises(Unreachable):
            hold.extend(1)
        assert hold.lost.wait(2) and not hold.held
        gate.go.set()
        hold.release()


def test_so_does_one_of_asyncio(server, gate, key):
    async def body(client):
        async with redis.asyncio.Redis(port=gate.port) as far:
            hold = await AsyncLock(far, key, lease=60).acquire()
            gate.hold_up(b"LOCK.EXTEND")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(hold.extend(1), 0.2)
            await asyncio.wait_for(hold.lost.wait(), 3)
            assert not hold.held
            gate.go.set()
            await hold.release()

    play(body)


def overlap(gate):
    """The answers to what is asked next over the connections that there are come when this is called."""
    gate.go.clear()
    gate.late = {far for _, far in gate.pairs}


def test_of_two_extensions_at_a_time_the_one_that_counts_is_that_which_the_server_has(server, client, gate, key):
    with redis.Redis(port=gate.port) as far:
        hold = Lock(far, key, lease=30, extend=False).acquire()
        overlap(gate)
        longer = run(hold.extend, 60)
        eventually("it has come to the server", lambda: lease_of(server.client, key) > 40_000)
        shorter = run(hold.extend, 1)
        time.sleep(0.5)
        gate.go.set()
        assert [longer(), shorter()] == [True, True]
        time.sleep(1.5)
        assert hold.held == hold.owned()
        hold.release()


def test_so_it_is_of_tasks(server, gate, key):
    async def body(client):
        async with redis.asyncio.Redis(port=gate.port) as far:
            hold = await AsyncLock(far, key, lease=30, extend=False).acquire()
            overlap(gate)
            longer = asyncio.create_task(hold.extend(60))
            await asyncio.to_thread(eventually, "it is there", lambda: lease_of(server.client, key) > 40_000)
            shorter = asyncio.create_task(hold.extend(1))
            await asyncio.sleep(0.5)
            gate.go.set()
            assert await asyncio.gather(longer, shorter) == [True, True]
            await asyncio.sleep(1.5)
            assert hold.held == await hold.owned()
            await hold.release()

    play(body)


def test_an_extension_waits_for_that_of_the_keeper(server, gate, key):
    with redis.Redis(port=gate.port) as far:
        hold = Lock(far, key, lease=30).acquire()
        overlap(gate)
        hold._due = now()
        hold._keep()
        eventually("it is asked", lambda: hold._asked)
        time.sleep(0.2)
        shorter = run(hold.extend, 1)
        time.sleep(0.2)
        assert lease_of(server.client, key) > 20_000
        gate.go.set()
        assert shorter() and hold._lease == 1
        hold.release()


def test_a_longer_lease_does_not_count_while_a_shorter_one_may_arrive(server, gate, key):
    with redis.Redis(port=gate.port) as far:
        hold = Lock(far, key, lease=30, extend=False).acquire()
        gate.slow_down(b"LOCK.EXTEND", 4)
        shorter = run(hold.extend, 3)
        time.sleep(1)
        gate.slow = None
        assert shorter() and hold.extend(60)
        time.sleep(5.5)
        # The first try, which nobody waits for any more, has come to the server.
        assert server.holders(key) == [] and not hold.held and hold.lost.is_set()


def test_nor_one_of_a_task(server, gate, key):
    async def body(client):
        async with redis.asyncio.Redis(port=gate.port) as far:
            hold = await AsyncLock(far, key, lease=30, extend=False).acquire()
            gate.slow_down(b"LOCK.EXTEND", 4)
            shorter = asyncio.create_task(hold.extend(3))
            await asyncio.sleep(1)
            gate.slow = None
            assert await shorter and await hold.extend(60)
            await asyncio.sleep(5.5)
            assert server.holders(key) == [] and not hold.held and hold.lost.is_set()

    play(body)


def test_after_a_minute_a_longer_lease_counts_again(client, key, monkeypatch):
    hold = Lock(client, key, lease=30, extend=False).acquire()
    hold._doubt(10)
    assert hold.extend(60) and hold._ends < now() + 10
    monkeypatch.setattr("lockstock.holds.LATE", 0.1)
    time.sleep(0.2)
    # What is asked for now may be overtaken, and what is asked for after its answer may not.
    assert hold.extend(60) and hold._ends < now() + 10
    assert hold.extend(60) and hold._ends > now() + 50
    hold.release()


class Mute(Gate):
    """Does not tell that a connection has ended."""

    is_mute = False

    def carry(self, one, other, asks):
        with contextlib.suppress(OSError):
            while data := one.recv(65_536):
                if not self.is_mute:
                    other.sendall(data)
        if not self.is_mute:
            cut(one)
            cut(other)


@pytest.fixture
def mute():
    gate = Mute(int(URL.rpartition(":")[2]))
    yield gate
    gate.close()


@pytest.mark.parametrize("extend", [True, False])
def test_a_session_that_ended_without_a_word_is_lost_soon(client, mute, key, extend):
    class Other(redis.Connection):
        def __init__(self, **options):
            super().__init__(**{**options, "port": where[0]})

    where = [mute.port]
    with redis.Redis(connection_pool=redis.ConnectionPool(connection_class=Other)) as far:
        hold = Lock(far, key, session=True, lease=60, extend=extend).acquire()
        time.sleep(1.5)
        assert hold.held
        mute.is_mute, where[0] = True, int(URL.rpartition(":")[2])
        for _, to in mute.pairs:
            cut(to)
        assert hold.lost.wait(10) and not hold.held
        assert not hold.release()


def test_so_is_one_of_asyncio(mute, key):
    class Other(redis.asyncio.Connection):
        def __init__(self, **options):
            super().__init__(**{**options, "port": where[0]})

    async def body(client):
        pool = redis.asyncio.ConnectionPool(connection_class=Other)
        async with redis.asyncio.Redis(connection_pool=pool) as far:
            hold = await AsyncLock(far, key, session=True, lease=60, extend=False).acquire()
            await asyncio.sleep(1.5)
            assert hold.held
            mute.is_mute, where[0] = True, int(URL.rpartition(":")[2])
            for _, to in mute.pairs:
                cut(to)
            await asyncio.wait_for(hold.lost.wait(), 10)
            assert not await hold.release()

    where = [mute.port]
    play(body)


@pytest.mark.parametrize("extend", [True, False])
def test_a_session_outlives_a_server_that_says_nothing_for_a_while(server, client, key, extend):
    async def body(other):
        lock = AsyncLock(other, key + "task", session=True, lease=60, extend=extend)
        async with lock as task, AsyncLock(other, key + "other", session=True, lease=60):
            with Lock(client, key, session=True, lease=60, extend=extend) as hold:
                await asyncio.sleep(1.5)
                with frozen(server.client):
                    await asyncio.sleep(7)
                await asyncio.sleep(2.5)
                assert hold.held and hold.owned() and task.held and await task.owned()

    play(body)


def test_a_hold_is_extended_when_there_is_a_thread_for_it_again(client, key, monkeypatch):
    def none(*_):
        raise RuntimeError("can't start new thread")

    hold = Lock(client, key, lease=2).acquire()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        time.sleep(1)
    time.sleep(2)
    assert hold.held and hold.owned() and hold.release()


@pytest.mark.parametrize("extend", [True, False])
def test_a_machine_that_has_slept_is_told_soon(client, key, monkeypatch, extend):
    """Timers stand still meanwhile, and the clock of leases does not."""
    real, slept = time.clock_gettime, 0
    monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) + slept)

    async def body(client):
        nonlocal slept
        hold = await AsyncLock(client, key + "task", lease=30, extend=extend).acquire()
        slept += 3600
        with ends_within(0, 3):
            await asyncio.wait_for(hold.lost.wait(), 3)

    hold = Lock(client, key, lease=30, extend=extend).acquire()
    time.sleep(0.2)
    slept = 3600
    assert hold.lost.wait(3)
    play(body)


def test_on_a_mac_its_clock_goes_on_while_it_sleeps(monkeypatch):
    """`time.monotonic` does not."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        patch.delattr(time, "CLOCK_BOOTTIME", raising=False)
        patch.setattr(time, "monotonic", lambda: pytest.fail("it stands still"))
        copy = importlib.util.module_from_spec(terms.__spec__)
        terms.__spec__.loader.exec_module(copy)
        assert copy.now() <= time.clock_gettime(time.CLOCK_MONOTONIC) <= copy.now()


def test_a_loop_that_ended_does_not_stay(key):
    ended = []

    async def body(client):
        ended.append(weakref.ref(asyncio.get_running_loop()))
        async with AsyncLock(client, key):
            pass

    play(body)
    gc.collect()
    assert ended[0]() is None
