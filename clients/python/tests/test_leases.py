"""Leases: what is asked for while they last, clocks and loops that stand still, and processes that have no thread left."""

import asyncio
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

pytestmark = pytest.mark.breaks


@pytest.fixture
def client():
    with redis.Redis.from_url(URL) as client:
        yield client


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
