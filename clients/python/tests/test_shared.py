"""One object, many callers: never two inside, and nobody ends what is another's."""

import asyncio
import gc
import threading
import time
import warnings

import pytest
import redis
import redis.asyncio
from conftest import URL, ends_within, eventually
from lockstock import AlreadyHeld, AsyncLock, Hold, Line, Lock, NotHeld, Unreachable, claims
from lockstock.steps import Grant
from lockstock.terms import now
from test_impatient import play
from test_locks import CLIENTS, run, waiting


@pytest.fixture
def client():
    with redis.Redis.from_url(URL) as client:
        yield client


@pytest.mark.parametrize("name", CLIENTS)
def test_eight_threads_that_share_a_lock_are_never_inside_together(name, key):
    inside, most, served = [], 0, 0

    def work():
        nonlocal most, served
        for _ in range(10):
            with lock as hold:
                inside.append(hold.token)
                most = max(most, len(inside))
                served += 1
                time.sleep(0.001)
                inside.remove(hold.token)

    with CLIENTS[name]() as client:
        lock = Lock(client, key, wait=100)
        for outcome in [run(work) for _ in range(8)]:
            assert outcome() is None
    assert (most, served) == (1, 80)


def test_eight_tasks_neither(key):
    inside, most, served = 0, 0, 0

    async def body(client):
        lock = AsyncLock(client, key, wait=100)

        async def work():
            nonlocal inside, most, served
            for _ in range(10):
                async with lock:
                    inside += 1
                    most, served = max(most, inside), served + 1
                    await asyncio.sleep(0.001)
                    inside -= 1

        await asyncio.gather(*(work() for _ in range(8)))

    play(body)
    assert (most, served) == (1, 80)


def test_a_caller_that_has_it_is_told_so_at_once(client, key):
    lock = Lock(client, key, wait=100)
    with ends_within(0, 5), lock as hold:
        with pytest.raises(AlreadyHeld, match="not reentrant"):
            lock.acquire()
        with pytest.raises(AlreadyHeld, match="not reentrant"):
            with lock:
                pass
        assert hold.held and hold.owned()
    with lock:
        assert lock.held


def test_so_is_a_task(key):
    async def body(client):
        lock = AsyncLock(client, key, wait=100)
        async with lock as hold:
            with pytest.raises(AlreadyHeld, match="not reentrant"):
                async with lock:
                    pass
            assert hold.held and await hold.owned()

    play(lambda client: asyncio.wait_for(body(client), 5))


def test_a_token_that_threads_share_lets_one_of_them_in(client, key):
    lock = Lock(client, key, wait=100, token="one")
    with lock:
        said = run(lock.acquire)
        assert isinstance(said(), AlreadyHeld)


def test_nor_does_another_lock_with_the_token_of_this_thread(client, key):
    with Lock(client, key + "a", key, token="one") as hold:
        with pytest.raises(AlreadyHeld, match="the same token"), Lock(client, key.encode(), token="one", wait=5):
            pass
        with pytest.raises(AlreadyHeld, match="the same token"):
            Lock(client, key, token="one").take_over("one", hold.fence)
        with Lock(client, key + "b", token="one"):
            pass
        assert hold.owned()
    with Lock(client, key, token="one"):
        pass


def test_nor_one_with_that_of_a_task(key):
    async def body(client):
        async with Line(client) as line, AsyncLock(client, key, token="one") as hold:
            for make in (lambda: AsyncLock(client, key, token="one", wait=5), lambda: line.lock(key, token="one", wait=5)):
                with pytest.raises(AlreadyHeld, match="the same token"):
                    async with make():
                        pass
            assert await hold.owned()
        async with AsyncLock(client, key, token="one"):
            pass

    play(lambda client: asyncio.wait_for(body(client), 20))


def test_nor_one_over_another_client_of_its_pool(client, key):
    other = redis.Redis(connection_pool=client.connection_pool)
    with Lock(client, key, token="one"), pytest.raises(AlreadyHeld, match="the same token"):
        Lock(other, key, token="one", wait=5).acquire()


def test_nor_one_that_looks_at_a_hold_that_is_just_being_made(client, key):
    class Looks(claims.Claim):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "hold":
                with pytest.raises(AlreadyHeld, match="the same token"):
                    Lock(client, key, token="one").acquire()

    claim = Looks(client, Lock(client, key)._terms, "one", True)
    assert claim.take()
    hold = Hold(client, Lock(client, key)._terms, claim, Grant(1, now() + 1), False, threading.Event(), None)
    assert hold.release() is False


def test_so_many_ends_without_an_answer_are_remembered(gate, monkeypatch, key):
    monkeypatch.setattr(claims, "DOUBTS", 3)
    with redis.Redis(port=gate.port) as client:
        gate.close()
        for number in range(5):
            with pytest.raises(Unreachable):
                Lock(client, key, token=f"{number}").acquire()
        assert [token for _, token in claims.table(client).doubts] == ["2", "3", "4"]


def test_a_hold_that_is_over_by_the_clock_lets_the_next_one_of_its_token_in(client, key):
    first = Lock(client, key, token="one", lease=0.3, extend=False).acquire()
    assert first.lost.wait(5)
    second = Lock(client, key, token="one").acquire()
    assert first.release() is False
    assert second.held and second.owned() and second.release() is True


def test_the_release_of_several_keys_of_which_one_was_lost_ends_no_later_hold_of_the_token(client, key):
    async def body(of_tasks):
        first = await AsyncLock(of_tasks, key, key + "a", token="two").acquire()
        client.delete(key + "a")
        assert not await first.extend()
        second = await AsyncLock(of_tasks, key, token="two").acquire()
        assert second.fence == first.fence and not await first.release()
        assert second.held and await second.owned() and await second.release()

    first = Lock(client, key, key + "a", token="one").acquire()
    client.delete(key + "a")
    assert not first.extend()
    second = Lock(client, key, token="one").acquire()
    assert second.fence == first.fence and not first.release()
    assert second.held and second.owned() and second.release()
    play(body)


@pytest.mark.parametrize("by", ["thread", "task", "line"])
@pytest.mark.parametrize("mode", [{"shared": True}, {"limit": 2}])
def test_what_is_asked_for_counts_after_a_wait_too(client, server, key, mode, by):
    options = {**mode, "token": "me", "lease": 45, "wait": 20}
    first = Lock(client, key, lease=900).acquire()

    def holds(session):
        info = server.client.execute_command("LOCK.INFO", key)
        [holder] = info["holders"]
        assert (info["mode"], info["limit"]) == (next(iter(mode)), mode.get("limit", 0))
        assert (holder["token"], holder["session"]) == ("me", session) and 30_000 < holder["lease-ms"] <= 45_000

    async def body(of_tasks):
        async with Line(of_tasks) as line:
            lock = line.lock(key, **options) if by == "line" else AsyncLock(of_tasks, key, session=True, **options)
            said = asyncio.create_task(lock.acquire())
            await asyncio.to_thread(server.until_waiting, key, 1)
            first.release()
            hold = await said
            holds("no" if by == "line" else "yes")
            assert await hold.release()

    if by != "thread":
        return play(body)
    said = run(Lock(client, key, session=True, **options).acquire)
    server.until_waiting(key, 1)
    first.release()
    hold = said()
    holds("yes")
    assert hold.release()


def test_a_lock_is_used_again(client, key):
    lock = Lock(client, key)
    assert not lock.held and not lock.lost.is_set() and lock.fence == 0 and lock.token is None
    before = lock.lost
    tokens, fences = set(), []
    for _ in range(3):
        assert lock.acquire()
        assert lock.held and lock.owned() and lock.locked()
        tokens.add(lock.token)
        fences.append(lock.fence)
        assert lock.release() is True
        assert not lock.held and not lock.owned() and not lock.lost.is_set()
        assert lock.release() is False
    assert len(tokens) == 3 and sorted(set(fences)) == fences
    # The event from before the first acquisition is that of the first hold.
    again = Lock(client, key)
    early = again.lost
    assert again.acquire() and again.lost is early and before is not early
    client.delete(key)
    assert not again.extend()
    assert early.is_set() and not again.held
    assert again.release() is False


def test_a_release_that_comes_late_ends_no_later_hold(client, key):
    lock = Lock(client, key, wait=100)
    first = lock.acquire()
    first.release()
    said = run(lock.acquire)
    second = said()
    assert first.release() is False and lock.release() is False
    assert second.held and second.owned()
    with pytest.raises(NotHeld):
        run_and_raise(lock.release)
    assert second.release() is True


def run_and_raise(function):
    """In a thread of its own."""
    outcome = run(function)()
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def test_nor_a_wait_of_a_thread_that_has_asked_itself(client, key):
    lock = Lock(client, key)
    with Lock(client, key):
        assert lock.acquire() is None
        said = run(lock.acquire, 100)
        eventually("it waits", lambda: waiting(client, key) == 1)
        assert lock.release() is False
        time.sleep(0.05)
        assert waiting(client, key) == 1
        lock.cancel()
        assert said() is None
        eventually("it is withdrawn", lambda: waiting(client, key) == 0)


def test_nor_one_of_a_thread_that_has_not(client, key):
    lock = Lock(client, key, wait=100)
    with Lock(client, key):
        said = run(lock.acquire)
        eventually("it waits", lambda: waiting(client, key) == 1)
        assert lock.release() is False
        time.sleep(0.05)
        assert waiting(client, key) == 1
    assert said().release()


def test_outside_of_a_task_nothing_is_lost(key):
    assert not AsyncLock(redis.asyncio.Redis.from_url(URL), key).lost.is_set()


def test_a_block_may_be_left_by_another_thread(client, key):
    lock = Lock(client, key)
    lock.__enter__()
    run_and_raise(lambda: lock.__exit__(None, None, None))
    assert not lock.locked()


def test_a_hold_that_was_released_within_its_block_is_not_lost(client, key):
    with Lock(client, key) as hold:
        assert hold.release() is True
    lock = Lock(client, key)
    with lock:
        assert lock.release() is True


@pytest.mark.parametrize("extend", [True, False])
def test_a_lock_that_is_dropped_is_no_longer_extended_and_says_so(server, client, key, extend):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        lock = Lock(client, key, lease=0.5, extend=extend)
        lock.acquire()
        del lock
        gc.collect()
    assert len([one for one in said if one.category is ResourceWarning and str(one.message).startswith("unreleased <Hold of")]) == 1
    server.until_free(key)


def test_nor_is_one_of_a_thread_that_ended_though_it_is_remembered(server, client, key):
    lock = Lock(client, key, lease=0.5)
    thread = threading.Thread(target=lock.acquire)
    with pytest.warns(ResourceWarning, match="unreleased <Hold of"):
        thread.start()
        thread.join()
        server.until_free(key)
    kept = []
    other = threading.Thread(target=lambda: kept.append(lock.acquire()))
    other.start()
    other.join()
    assert kept[0].held and kept[0].owned() and kept[0].release()


def test_nor_of_a_task(server, key):
    async def body(client):
        lock = AsyncLock(client, key, lease=0.5)

        async def work():
            await lock.acquire()

        with pytest.warns(ResourceWarning, match="unreleased <AsyncHold of"):
            task = asyncio.create_task(work())
            await task
            await asyncio.to_thread(server.until_free, key)
        assert task.done()

    play(body)


def test_nor_is_one_of_asyncio(server, key):
    async def body(client):
        with pytest.warns(ResourceWarning, match="unreleased <AsyncHold of"):
            lock = AsyncLock(client, key, lease=0.5)
            await lock.acquire()
            del lock
            gc.collect()
        await asyncio.to_thread(server.until_free, key)

    play(body)


def test_one_thread_extends_all(client, key):
    with Lock(client, key):
        before = threading.active_count()
        holds = [Lock(client, f"{key}{number}").acquire() for number in range(50)]
        assert threading.active_count() <= before
        assert all(hold.release() for hold in holds)


def test_so_many_short_leases_are_extended_together(client, key):
    holds = [Lock(client, f"{key}{number}", lease=2).acquire() for number in range(100)]
    time.sleep(5)
    assert all(hold.held and hold.owned() for hold in holds)
    assert all(hold.release() for hold in holds)
