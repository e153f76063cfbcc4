"""Leases: what is asked for while they last, clocks and loops that stand still, and processes that have no thread left."""

import asyncio
import contextlib
import gc
import importlib
import importlib.util
import linecache
import math
import sys
import threading
import time
import weakref

import pytest
import redis
import redis.asyncio
from conftest import CLUSTER_URL, URL, Gate, cut, ends_within, eventually, frozen
from lockstock import AsyncLock, Lock, Unreachable, aio, locks, terms
from lockstock.terms import now
from lockstock.wires import Wire
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
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


@pytest.mark.parametrize("is_cluster", [False, True])
def test_a_request_that_is_late_does_not_cut_a_longer_lease_short(gate, cluster_gates, key, is_cluster):
    gates, options = cluster_gates if is_cluster else ([gate], {"port": gate.port})
    with (redis.RedisCluster if is_cluster else redis.Redis)(**options) as far:
        delay(gates, b"LOCK.ACQUIRE")
        hold = Lock(far, key, lease=3, wait=20, extend=False).acquire()
        assert hold.extend(60)
        time.sleep(6)
        assert not hold.held and not hold.owned()


def delay(gates, word):
    for gate in gates:
        gate.delay(word, 2)


def repeating(port, count):
    """A client that asks again by itself, so many times."""
    return redis.asyncio.Redis(port=port, retry=Retry(NoBackoff(), count), retry_on_error=[redis.ConnectionError] if count else [])


@pytest.mark.parametrize("word", [b"LOCK.ACQUIRE", b"LOCK.EXTEND"])
@pytest.mark.parametrize("count", [0, 3])
def test_nor_does_one_of_a_task(gate, key, word, count):
    async def body(client):
        async with repeating(gate.port, count) as far:
            if word == b"LOCK.ACQUIRE":
                gate.delay(word, 2)
            hold = await AsyncLock(far, key, lease=3, wait=20, extend=False).acquire()
            if word == b"LOCK.EXTEND":
                gate.delay(word, 2)
                assert await hold.extend()
            assert gate.delaying is None and await hold.extend(60)
            await asyncio.sleep(6)
            assert not hold.held and not await hold.owned()

    play(body)


@pytest.mark.parametrize("count", [0, 3])
def test_nor_does_what_kept_the_hold_of_a_task(gate, key, count):
    async def body(client):
        async with repeating(gate.port, count) as far:
            hold = await AsyncLock(far, key, lease=3).acquire()
            gate.delay(b"LOCK.EXTEND", 3)
            await asyncio.to_thread(eventually, "it is asked and answered", lambda: gate.delaying is None and not hold._asked)
            assert await hold.extend(60)
            await asyncio.sleep(7)
            assert hold.held and await hold.owned()
            await hold.release()

    play(body)


@pytest.mark.parametrize("name", ["redis.Redis", "redis.RedisCluster", "valkey.Valkey", "valkey.ValkeyCluster"])
def test_a_longer_lease_counts_at_once_if_all_was_answered(name, key):
    library, kind = name.split(".")

    async def body(client):
        url = CLUSTER_URL if kind.endswith("Cluster") else URL
        async with getattr(importlib.import_module(f"{library}.asyncio"), kind).from_url(url.replace("redis:", f"{library}:")) as client:
            for keys in [key], [key + "a", key + "b"]:
                async with AsyncLock(client, *keys, lease=2) as hold:
                    # It is extended behind, too.
                    await asyncio.sleep(1)
                    assert await hold.extend(60) and hold._ends > now() + 50

    play(body)


@pytest.mark.parametrize("of_task", [False, True])
def test_nor_does_one_for_an_earlier_hold_of_the_token(gate, key, of_task):
    async def body(client):
        async with redis.asyncio.Redis(port=gate.port) as far:
            gate.delay(b"LOCK.ACQUIRE", 3)
            await (await AsyncLock(far, key, lease=3, token="one", wait=20).acquire()).release()
            hold = await AsyncLock(far, key, lease=60, token="one", extend=False).acquire()
            await asyncio.sleep(7)
            assert not hold.held and not await hold.owned()

    if of_task:
        return play(body)
    with redis.Redis(port=gate.port) as far:
        gate.delay(b"LOCK.ACQUIRE", 3)
        Lock(far, key, lease=3, token="one", wait=20).acquire().release()
        hold = Lock(far, key, lease=60, token="one", extend=False).acquire()
        time.sleep(7)
        assert not hold.held and not hold.owned()


@pytest.mark.parametrize("of_task", [False, True])
def test_nor_does_one_that_took_it_over(client, gate, key, of_task):
    async def body(client):
        async with redis.asyncio.Redis(port=gate.port) as far:
            gate.delay(b"LOCK.EXTEND", 2)
            hold = await AsyncLock(far, key, lease=3, extend=False).take_over(*left)
            assert await hold.extend(60)
            await asyncio.sleep(6)
            assert not hold.held and not await hold.owned()

    left = Lock(client, key).acquire().hand_over()
    if of_task:
        return play(body)
    with redis.Redis(port=gate.port) as far:
        gate.delay(b"LOCK.EXTEND", 2)
        hold = Lock(far, key, lease=3, extend=False).take_over(*left)
        assert hold.extend(60)
        time.sleep(6)
        assert not hold.held and not hold.owned()


@pytest.mark.parametrize("of_task", [False, True])
@pytest.mark.parametrize("word", [b"LOCK.ACQUIRE", b"LOCK.EXTEND"])
def test_nor_does_one_of_a_hold_that_was_handed_over(gate, key, word, of_task):
    async def body(client):
        async with redis.asyncio.Redis(port=gate.port) as far:
            if word == b"LOCK.ACQUIRE":
                gate.delay(word, 3)
            first = await AsyncLock(far, key, lease=3, wait=20, extend=False).acquire()
            if word == b"LOCK.EXTEND":
                gate.delay(word, 3)
                assert await first.extend()
            assert gate.delaying is None
            hold = await AsyncLock(far, key, lease=60, extend=False).take_over(*first.hand_over())
            await asyncio.sleep(7)
            assert not hold.held and not await hold.owned()

    if of_task:
        return play(body)
    with redis.Redis(port=gate.port) as far:
        if word == b"LOCK.ACQUIRE":
            gate.delay(word, 3)
        first = Lock(far, key, lease=3, wait=20, extend=False).acquire()
        if word == b"LOCK.EXTEND":
            gate.delay(word, 3)
            assert first.extend()
        assert gate.delaying is None
        hold = Lock(far, key, lease=60, extend=False).take_over(*first.hand_over())
        time.sleep(7)
        assert not hold.held and not hold.owned()


def test_nor_does_one_that_is_on_its_way_while_the_hold_is_handed_over(gate, key):
    async def body(client):
        async with redis.asyncio.Redis(port=gate.port) as far:
            first = await AsyncLock(far, key, lease=3, extend=False).acquire()
            gate.slow_down(b"LOCK.EXTEND", 2)
            on_its_way = asyncio.create_task(first.extend())
            await asyncio.sleep(0.5)
            gate.slow = None
            hold = await AsyncLock(far, key, lease=60, extend=False).take_over(*first.hand_over())
            await on_its_way
            await asyncio.sleep(4.5)
            assert not hold.held and not await hold.owned()

    play(body)


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


def test_a_session_outlives_that_all_tasks_are_cancelled(server, key):
    async def body(client):
        async with AsyncLock(client, key, session=True, lease=60) as hold:
            await asyncio.sleep(0.5)
            with frozen(server.client):
                await asyncio.sleep(1.5)
                for task in asyncio.all_tasks() - {asyncio.current_task()}:
                    task.cancel()
                await asyncio.sleep(0.1)
            await asyncio.sleep(3)
            assert hold.held and await hold.owned()

    play(body)


def test_an_interrupt_at_any_line_of_an_extension_leaves_its_turn_free(client, key):
    hold, line, lines = Lock(client, key, lease=900, extend=False).acquire(), 0, 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_name != "_extension":
            return trace if event == "call" and "lockstock" in frame.f_code.co_filename else None
        lines += event == "line"
        # Nothing helps at the last moment.
        if event == "line" and lines == line and "_finishes" not in linecache.getline(frame.f_code.co_filename, frame.f_lineno):
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    while True:
        line, lines = line + 1, 0
        sys.settrace(trace)
        try:
            hold.extend()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        if lines < line:
            break
        with ends_within(0, 4):
            assert hold.extend()
    assert line > 10 and hold.release()


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


def test_a_grant_that_is_over_when_it_is_heard_of_lets_nobody_in(client, key, monkeypatch):
    """The machine sleeps after the answer to the request, and after the one that makes sure of it."""
    real, ask, slept = time.clock_gettime, Wire.ask, 0

    def sleeps(wire, step):
        nonlocal slept
        answers = ask(wire, step)
        slept += 100 if slept < 200 else 0
        return answers

    monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) + slept)
    monkeypatch.setattr(Wire, "ask", sleeps)
    with Lock(client, key, lease=30, wait=math.inf) as hold:
        assert hold.held and hold.owned() and slept == 200


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
