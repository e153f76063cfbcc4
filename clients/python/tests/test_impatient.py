"""What hurried callers do: release while it is asked, cancel at any time, fork, hold on to servers that do not answer."""

import asyncio
import contextlib
import os
import random
import threading
import time

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio
from conftest import URL, away, ends_within, eventually, frozen
from lockstock import AsyncLock, Line, Lock, Lost, NotHeld, NotReleased, Refused, Unreachable, aio, aio_wires, claims, locks, steps
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from test_locks import demoted_for_a_while, run

pytestmark = pytest.mark.breaks


@pytest.fixture
def client():
    with redis.Redis.from_url(URL) as client:
        yield client


@pytest.fixture
def slow(gate):
    """A client that is kept up when the gate says so."""
    with redis.Redis(port=gate.port) as client:
        yield client


def test_a_request_that_is_on_its_way_is_cancelled_all_the_same(server, slow, gate, key):
    gate.hold_up(b"LOCK.ACQUIRE")
    request = Lock(slow, key, wait=100)
    said = run(request.acquire)
    assert gate.reached.wait(60)
    request.cancel()
    assert said() is None
    gate.go.set()
    server.until_free(key)


@pytest.mark.parametrize("kind", [redis.Redis, valkey.Valkey])
def test_a_withdrawal_that_comes_late_ends_no_later_hold_of_its_token(server, gate, kind, key):
    with kind(port=gate.port) as client:
        lock = Lock(client, key, token="one", wait=60)
        with Lock(redis.Redis.from_url(URL), key):
            said = run(lock.acquire)
            server.until_waiting(key, 1)
            gate.slow_down(b"LOCK.RELEASE", 0.5)
            lock.cancel()
            assert said() is None
        hold = lock.acquire(wait=10)
        time.sleep(1)
        assert hold.held and hold.owned()
        assert hold.release()


@pytest.mark.parametrize("kind", [redis.asyncio.Redis, valkey.asyncio.Valkey])
def test_nor_does_one_in_asyncio(server, gate, kind, key):
    async def body(client):
        async with kind(port=gate.port) as far:
            lock = AsyncLock(far, key, token="one", wait=60)
            async with AsyncLock(client, key):
                asked = asyncio.create_task(lock.acquire())
                await asyncio.to_thread(server.until_waiting, key, 1)
                gate.slow_down(b"LOCK.RELEASE", 0.5)
                asked.cancel()
                await asyncio.wait([asked])
            hold = await lock.acquire(wait=10)
            await asyncio.sleep(1)
            assert hold.held and await hold.owned()
            assert await hold.release()

    play(lambda client: asyncio.wait_for(body(client), 20))


def test_a_token_that_is_leaving_for_too_long_is_told_so(server, gate, key):
    with redis.Redis(port=gate.port) as client, Lock(redis.Redis.from_url(URL), key):
        lock = Lock(client, key, token="one", wait=60)
        said = run(lock.acquire)
        server.until_waiting(key, 1)
        gate.hold_up(b"LOCK.RELEASE")
        lock.cancel()
        assert said() is None
        with ends_within(0, 2), pytest.raises(Unreachable, match="the token one"):
            lock.acquire(wait=0)
        gate.go.set()


def test_what_a_frozen_server_takes_late_ends_no_later_hold_of_the_token(server, key):
    """It takes what it was sent by several connections in any order."""
    with redis.Redis.from_url(URL) as client, redis.Redis.from_url(URL) as other:
        for again in range(3):
            lock, hold = Lock(client, f"{key}{again}", token="one", lease=60), None
            lock.locked()
            thaw = threading.Event()
            said = run(freeze, server.client, thaw)
            threading.Timer(2.5, thaw.set).start()
            while hold is None:
                with contextlib.suppress(Unreachable):
                    hold = lock.acquire()
            assert said() is None
            time.sleep(0.3)
            assert hold.held and hold.owned() and Lock(other, f"{key}{again}").acquire() is None
            assert hold.release()


def freeze(client, thaw):
    with frozen(client):
        thaw.wait()


@pytest.mark.parametrize("by_line", [False, True])
def test_what_a_network_brings_late_ends_no_later_hold_of_the_token(server, gate, key, by_line):
    """A withdrawal that was on its way when the network went."""

    async def body(client):
        async with redis.asyncio.Redis(port=gate.port) as far, contextlib.AsyncExitStack() as stack:
            # An idle connection, which seems to be alive.
            await far.ping()
            make = (await stack.enter_async_context(Line(far))).lock if by_line else lambda *a, **o: AsyncLock(far, *a, **o)
            lock = make(key, token="one", wait=60, lease=900)
            async with AsyncLock(client, key):
                asked = asyncio.create_task(lock.acquire())
                await asyncio.to_thread(server.until_waiting, key, 1)
                gate.keep_back()
                gate.is_away = True
                asked.cancel()
                await asyncio.wait([asked])
            await asyncio.sleep(0.3)
            gate.is_away = False
            await asks_until_it_has_it_and_keeps_it(lock, gate)

    play(lambda client: asyncio.wait_for(body(client), 60))


def test_nor_does_a_release(server, gate, key, monkeypatch):
    monkeypatch.setattr(aio, "RELEASE", 0.5)

    async def body(client):
        async with redis.asyncio.Redis(port=gate.port) as far:
            # Two idle connections: one for the release, another for what makes sure of it, as another task needs the first.
            for idle in [await far.connection_pool.get_connection("_") for _ in range(2)]:
                await far.connection_pool.release(idle)
            lock = AsyncLock(far, key, token="one", lease=900)
            hold = await lock.acquire()
            gate.keep_back()
            with pytest.raises(NotReleased):
                await hold.release()
            await far.connection_pool.get_connection("_")
            await asks_until_it_has_it_and_keeps_it(lock, gate)

    play(lambda client: asyncio.wait_for(body(client), 60))


async def asks_until_it_has_it_and_keeps_it(lock, gate):
    hold = None
    while hold is None:
        with contextlib.suppress(Unreachable):
            hold = await lock.acquire(wait=20)
    gate.go.set()
    await asyncio.sleep(0.3)
    assert hold.held and await hold.owned() and await hold.release()


def test_an_end_that_is_said_again_keeps_the_token_waiting(server, gate, key, monkeypatch):
    """A loop that is about to end cancels what goes on behind, which is then said again."""
    monkeypatch.setattr(aio, "BEHIND", 10.0)

    async def body(client):
        async with redis.asyncio.Redis(port=gate.port) as far, AsyncLock(client, key):
            lock = AsyncLock(far, key, token="one", wait=60)
            asked = asyncio.create_task(lock.acquire())
            await asyncio.to_thread(server.until_waiting, key, 1)
            gate.hold_up(b"LOCK.RELEASE")
            asked.cancel()
            await asyncio.wait([asked])
            for task in list(aio_wires._behind):
                task.cancel()
            await asyncio.sleep(0.1)
            with pytest.raises(Unreachable, match="the token one"):
                await lock.acquire(wait=0)
            gate.go.set()

    play(lambda client: asyncio.wait_for(body(client), 60))


def test_a_release_that_fails_as_none_should_goes_on_behind(server, key):
    async def body(client):
        class OfAnotherLoop:
            failed = False

            def __getattr__(self, name):
                return getattr(client, name)

            async def execute_command(self, *words):
                if words[0] == "LOCK.RELEASE" and not self.failed:
                    self.failed = True
                    raise RuntimeError("Event loop is closed")
                return await client.execute_command(*words)

        lock = AsyncLock(OfAnotherLoop(), key, token="one", lease=900)
        hold = await lock.acquire()
        with pytest.raises(RuntimeError, match="is closed"):
            await hold.release()
        await asyncio.to_thread(server.until_free, key)
        again = await lock.acquire(wait=5)
        assert await again.release()

    play(lambda client: asyncio.wait_for(body(client), 60))


def test_a_token_of_which_nothing_says_the_end_gets_the_lock_again(client, key, monkeypatch):
    """There was no thread for it, or its loop was closed."""

    def broken(*_):
        raise KeyboardInterrupt

    done = threading.Event()
    done.set()
    monkeypatch.setattr(claims, "LEAVES", 0.5)
    lock = Lock(client, key, token="one", lease=900)
    hold = lock.acquire()
    with monkeypatch.context() as crowded:
        crowded.setattr(locks, "play", broken)
        crowded.setattr(locks, "spawn", lambda *_, **__: done)
        with pytest.raises(KeyboardInterrupt):
            hold.release()
    again = lock.acquire(wait=5)
    assert again.fence > hold.fence and again.release()


def test_a_no_to_what_is_asked_again_does_not_hide_a_grant(server, gate, key, monkeypatch):
    monkeypatch.setattr(steps, "PAUSE", 1.0)
    server.client.execute_command("ACL", "SETUSER", "hasty", "reset", "on", "nopass", "~*", "&*", "+@all")
    with redis.Redis(port=gate.port, username="hasty", password="any") as client:
        gate.lose_answers(b"LOCK.ACQUIRE")
        said = run(Lock(client, key, wait=5, lease=900).acquire)
        eventually("it is granted", lambda: server.holders(key))
        server.client.execute_command("ACL", "SETUSER", "hasty", "-lock.acquire")
        assert isinstance(said(), Refused)
        server.until_free(key)
    server.client.execute_command("ACL", "DELUSER", "hasty")


def test_a_wait_is_cancelled_between_two_requests(server, slow, gate, key):
    """The connection of a wait is cut; while the client finds the server again, another thread gives up."""
    with Lock(redis.Redis.from_url(URL), key):
        request = Lock(slow, key, wait=100)
        said = run(request.acquire)
        server.until_waiting(key, 1)
        gate.hold_up(b"CLIENT")
        info = server.client.execute_command("LOCK.INFO", key)
        server.client.execute_command("CLIENT", "KILL", "ID", info["waiters"][0]["client"])
        assert gate.reached.wait(60)
        with ends_within(0, 2):
            request.cancel()
            assert said() is None
        gate.go.set()
        server.until_waiting(key, 0)


def test_a_release_before_anything_was_asked_does_nothing(client, key):
    assert Lock(client, key).release() is False


def test_a_release_whose_answer_is_lost_says_that_it_is_not_sure(server, slow, gate, key):
    with pytest.raises(NotReleased, match="perhaps not by this release") as raised:
        with Lock(slow, key) as hold:
            gate.lose_answers(b"LOCK.RELEASE")
    assert isinstance(raised.value, redis.RedisError)
    assert hold.release() is False and not hold.lost.is_set()
    server.until_free(key)


def test_so_does_one_of_a_task(server, gate, key):
    async def body(client):
        # By itself, the client would ask again and say nothing of it.
        async with redis.asyncio.Redis(port=gate.port, retry=Retry(NoBackoff(), 0)) as far:
            with pytest.raises(NotReleased, match="perhaps not by this release"):
                async with AsyncLock(far, key):
                    gate.lose_answers(b"LOCK.RELEASE")

    play(body)


def test_what_was_lost_before_stays_lost(server, client, slow, gate, key):
    with pytest.raises(Lost):
        with Lock(slow, key) as hold:
            client.delete(key)
            assert not hold.extend()
            gate.lose_answers(b"LOCK.RELEASE")


def test_a_release_that_was_not_sent_at_first_is_sure(client, slow, gate, key):
    hold = Lock(slow, key).acquire()
    client.delete(key)
    # An idle connection is looked at after this time.
    time.sleep(1.1)
    with away([gate]):
        said = run(hold.release)
        time.sleep(0.3)
    assert said() is False


def test_a_hold_that_is_over_by_the_clock_only_is_released_all_the_same(server, client, key):
    async def body(client):
        hold = await AsyncLock(client, key, lease=900).acquire()
        hold._ends = 0
        assert await hold.release() is False
        await asyncio.to_thread(server.until_free, key)

    play(body)
    hold = Lock(client, key, lease=900).acquire()
    hold._ends = 0
    assert hold.release() is False
    server.until_free(key)


def test_two_that_release_at_once_release_once(server, slow, gate, key):
    gate.slow_down(b"LOCK.RELEASE", 0.3)
    with Lock(slow, key) as hold:
        said = [run(hold.release) for _ in range(2)]
        time.sleep(0.1)
    assert sorted(outcome() for outcome in said) == [False, True]

    async def body(_):
        async with redis.asyncio.Redis(port=gate.port) as far:
            async with AsyncLock(far, key) as hold:
                said = asyncio.gather(hold.release(), hold.release())
                await asyncio.sleep(0.1)
            assert sorted(await said) == [False, True]

    play(body)


def test_of_several_locks_of_which_one_was_taken_away_none_is_kept(server, client, slow, gate, key):
    keys = key + "a", key + "b"
    first = Lock(client, keys[0]).acquire()
    said = run(Lock(slow, *keys, wait=2, lease=6).acquire)
    server.until_waiting(keys[0], 1)
    gate.hold_up()
    first.release()
    eventually("it is granted", lambda: server.holders(keys[1]))
    client.delete(keys[0])
    time.sleep(2.3)
    gate.go.set()
    assert said() is None
    assert server.holders(keys[1]) == []


def test_nor_if_the_request_is_repeated_and_not_granted(server, client, gate, key, monkeypatch):
    monkeypatch.setattr(steps, "PAUSE", 1.0)
    keys = key + "a", key + "b"

    def take_one_away():
        eventually("it is granted", lambda: server.holders(keys[1]))
        client.delete(keys[0])
        return Lock(client, keys[0]).acquire()

    async def body(client):
        retry = Retry(NoBackoff(), 0)
        async with redis.asyncio.Redis(port=gate.port, retry=retry) as far:
            gate.lose_answers(b"LOCK.MACQUIRE")
            said = asyncio.create_task(AsyncLock(far, *keys, wait=2, lease=900).acquire())
            other = await asyncio.to_thread(take_one_away)
            assert await said is None
            await asyncio.to_thread(server.until_free, keys[1])
            other.release()

    with redis.Redis(port=gate.port) as far:
        gate.lose_answers(b"LOCK.MACQUIRE")
        said = run(Lock(far, *keys, wait=2, lease=900).acquire)
        other = take_one_away()
        assert said() is None
        server.until_free(keys[1])
        other.release()
    play(body)


def test_of_several_that_are_not_granted_nothing_is_to_be_withdrawn(server, key):
    def count():
        return server.client.info("commandstats").get("cmdstat_lock.mrelease", {"calls": 0})["calls"]

    async def body(client):
        async with AsyncLock(client, key + "a"):
            before = count()
            assert await AsyncLock(client, key + "a", key + "b").acquire() is None
            await asyncio.sleep(0.2)
            assert count() == before

    play(body)


@pytest.mark.parametrize("extend", [True, False])
def test_a_lease_that_ends_is_told_even_if_the_server_never_answers(slow, gate, key, extend):
    """Without a read time-out nothing else ends the attempt to extend it."""
    held = Lock(slow, key, lease=0.6, extend=extend).acquire()
    gate.hold_up(b"LOCK.EXTEND" if extend else b"")
    if extend:
        assert gate.reached.wait(60)
    assert held.lost.wait(60), "it was not told"
    assert not held.held


def test_a_client_that_has_no_connection_left_releases_all_the_same(server, key):
    with redis.Redis.from_url(URL, max_connections=1) as client:
        held = Lock(client, key).acquire()
        taken = client.connection_pool.get_connection("_")
        assert held.release() is True
        client.connection_pool.release(taken)


def test_one_of_asyncio_does_so_as_soon_as_it_has_one(server, key):
    async def body():
        async with redis.asyncio.Redis.from_url(URL, max_connections=1) as client:
            held = await AsyncLock(client, key).acquire()
            taken = await client.connection_pool.get_connection("_")
            said = asyncio.create_task(held.release())
            await asyncio.sleep(0.1)
            await client.connection_pool.release(taken)
            assert await said is True

    asyncio.run(body())


def test_a_child_that_leaves_the_block_keeps_off_the_lock_of_its_parent(server, client, key):
    lock = Lock(client, key)
    with lock as held:
        child = os.fork()
        if child == 0:
            try:
                lock.__exit__(None, None, None)
                os._exit(0 if held.release() is False else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert server.holders(key) == [held.token]
    server.until_free(key)


def test_a_child_does_nothing_under_the_hold_of_its_parent(client, key):
    lock = Lock(client, key)
    with lock as held:
        # What another thread has in hand while a process forks is in hand for ever in its child.
        run(lock._turn.acquire)()
        child = os.fork()
        if child == 0:
            try:
                for command in held.execute, lock.guard:
                    with pytest.raises(NotHeld):
                        command("INCR", key + "count")
                with pytest.raises(NotHeld):
                    held.hand_over()
                os._exit(0 if lock.release() is False else 1)
            finally:
                os._exit(2)
        ended = []
        eventually("the child ends", lambda: ended.append(os.waitpid(child, os.WNOHANG)) or ended[-1][0] == child, 5)
        assert os.waitstatus_to_exitcode(ended[-1][1]) == 0
        lock._turn = threading.RLock()
        assert client.get(key + "count") is None


def test_what_is_taken_over_may_be_asked_for_again(server, gate, key):
    """Also where the error of a broken first try is still known."""

    async def body(client):
        async with redis.asyncio.Redis(port=gate.port) as far:
            token, fence = (await AsyncLock(client, key).acquire()).hand_over()
            lock = AsyncLock(far, key)

            async def work():
                try:
                    await lock.take_over(token, fence)
                except asyncio.CancelledError:
                    gate.go.set()
                    return await lock.take_over(token, fence)

            gate.hold_up(b"LOCK.EXTEND")
            task = asyncio.create_task(work())
            await asyncio.to_thread(gate.reached.wait, 60)
            task.cancel()
            assert await (await task).release()

    play(lambda client: asyncio.wait_for(body(client), 60))


def test_a_hold_that_is_lost_while_it_is_extended_is_not_held(key):
    async def body(client):
        class LostMeanwhile:
            def __getattr__(self, name):
                return getattr(client, name)

            async def execute_command(self, *words):
                if words[0] == "LOCK.EXTEND":
                    hold.lost.set()
                return await client.execute_command(*words)

        hold = await AsyncLock(LostMeanwhile(), key).acquire()
        assert await hold.extend() is False
        await hold.release()

    play(body)


def test_locks_of_children_are_their_own(server, client, key):
    """The same objects after a fork: each child waits and holds with connections and tokens of its own."""
    with Lock(client, key, token="parent"):
        children = []
        # What another thread has in hand while a process forks is in hand for ever in its child.
        run(claims._turn.acquire)()
        for number in range(5):
            child = os.fork()
            if child == 0:
                try:
                    with Lock(client, key, wait=100, token=f"child {number}") as held:
                        os._exit(0 if held.held and held.release() else 1)
                finally:
                    os._exit(2)
            children.append(child)
        claims._turn = threading.RLock()
        server.until_waiting(key, 5)
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    server.until_free(key)


def test_a_hold_outlives_a_failover_and_is_extended_by_the_server_that_is_primary_then(server, client, key):
    with Lock(client, key, lease=4) as held:
        demoted_for_a_while(server)
        # Longer than the lease that the server had been told of before.
        assert not held.lost.wait(5)
        assert held.held and server.holders(key) == [held.token]


def play(body):
    async def whole():
        async with redis.asyncio.Redis.from_url(URL) as client:
            await body(client)

    asyncio.run(whole())


def test_it_is_told_in_asyncio_too(server, key):
    async def body(client):
        held = AsyncLock(client, key, lease=0.6, extend=False)
        assert await held.acquire()
        await asyncio.wait_for(held.lost.wait(), 20)
        assert not held.held

    play(body)


def test_a_task_that_is_cancelled_while_it_releases_has_released(server, key):
    async def body(client):
        class SlowRelease:
            def __getattr__(self, name):
                return getattr(client, name)

            async def execute_command(self, *words):
                if words[0] == "LOCK.RELEASE":
                    reached.set()
                    await asyncio.sleep(0.2)
                return await client.execute_command(*words)

        reached = asyncio.Event()

        async def work():
            async with AsyncLock(SlowRelease(), key):
                pass

        task = asyncio.create_task(work())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while server.holders(key):
            await asyncio.sleep(0.01)

    play(lambda client: asyncio.wait_for(body(client), 60))


def test_a_wait_is_cancelled_by_another_task_whenever_it_comes(server, key):
    async def body(client):
        async with AsyncLock(client, key):
            for pause in [0, 0.001, 0.002, 0.005, 0.01, 0.05]:
                request = AsyncLock(client, key, wait=100)
                asked = asyncio.create_task(request.acquire())
                await asyncio.sleep(pause)
                request.cancel()
                # A task that has not begun does not wait.
                if pause:
                    assert await asyncio.wait_for(asked, 20) is None, pause
                else:
                    asked.cancel()
                    await asyncio.wait([asked])
        assert server.waiters(key) == []

    play(body)


def test_so_are_several_though_they_are_cancelled_twice(server, key):
    async def body(client):
        async with AsyncLock(client, key):
            request = AsyncLock(client, key, wait=100)
            asked = [asyncio.create_task(request.acquire()) for _ in range(2)]
            await asyncio.to_thread(server.until_waiting, key, 2)
            request.cancel()
            await asyncio.sleep(0)
            # The waits are about to end by the first one.
            request.cancel()
            assert await asyncio.wait_for(asyncio.gather(*asked), 20) == [None, None]
        assert server.waiters(key) == []

    play(body)


@pytest.mark.parametrize("by_line", [False, True])
def test_a_storm_of_cancellations_leaves_nothing_behind(server, key, by_line):
    """Two hundred tasks take turns, each of which is cancelled at any time: waiting, granted, working, releasing, or not at all."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    inside, served = 0, 0

    async def work(lock):
        nonlocal inside, served
        async with lock:
            inside += 1
            try:
                assert inside == 1, seed
                await asyncio.sleep(0.001)
                served += 1
            finally:
                inside -= 1

    async def storm(make):
        # For as long as a busy machine may need.
        tasks = [asyncio.create_task(work(make(key, wait=600, lease=900))) for _ in range(200)]
        for task in chance.sample(tasks, 150):
            await asyncio.sleep(chance.random() * 0.005)
            task.cancel()
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 600)
        for outcome in outcomes:
            assert outcome is None or isinstance(outcome, asyncio.CancelledError), (seed, outcome)

    async def body(client):
        if by_line:
            async with Line(client) as line:
                await storm(line.lock)
        else:
            await storm(lambda *keys, **options: AsyncLock(client, *keys, **options))

    play(body)
    server.until_free(key)
    assert served >= 50, seed


def test_a_thousand_tasks_over_one_connection_which_is_cut(server, grace, key):
    order = []

    async def body(client):
        async with Line(client) as line:
            first = line.lock(key)
            assert await first.acquire()

            async def work(number):
                async with line.lock(key, wait=600):
                    order.append(number)

            tasks = [asyncio.create_task(work(number)) for number in range(1_000)]
            while len(server.waiters(key)) < 100 or server.client.execute_command("LOCK.INFO", key)["waiting"] < 1_000:
                await asyncio.sleep(0.05)
            server.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            while server.client.execute_command("LOCK.INFO", key)["waiting"] < 1_000:
                await asyncio.sleep(0.05)
            await first.release()
            await asyncio.gather(*tasks)

    # For as long as a busy machine may need.
    play(lambda client: asyncio.wait_for(body(client), 600))
    assert order == list(range(1_000))
    server.until_free(key)


def test_a_line_that_is_closed_ends_a_wait_that_is_about_to_ask_again(server, key):
    async def body(client):
        async with AsyncLock(client, key):
            async with Line(client) as line:
                asked = asyncio.create_task(line.lock(key, wait=60).acquire())
                while not server.waiters(key):
                    await asyncio.sleep(0.01)
                for news in line._waiting.values():
                    # It may have heard just now that the line was made.
                    if not news.done():
                        news.set_result(None)
            with pytest.raises(RuntimeError):
                await asyncio.wait_for(asked, 20)
            while server.waiters(key):
                await asyncio.sleep(0.01)

    play(lambda client: asyncio.wait_for(body(client), 60))


def test_a_line_that_is_closed_ends_the_waits_over_it(server, key):
    async def body(client):
        async with AsyncLock(client, key):
            async with Line(client) as line:
                asked = [asyncio.create_task(line.lock(key, wait=60).acquire()) for _ in range(5)]
                while len(server.waiters(key)) < 5:
                    await asyncio.sleep(0.01)
            for outcome in await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 20):
                assert isinstance(outcome, RuntimeError), outcome
            while server.waiters(key):
                await asyncio.sleep(0.01)

    play(lambda client: asyncio.wait_for(body(client), 60))
