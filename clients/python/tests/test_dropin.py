"""`lock_class` for the clients' own `lock`: the tests that redis-py has for its locks, and what is particular to these."""

import asyncio
import contextlib
import inspect
import threading
import time

import pytest
import pytest_asyncio
import redis
import redis.asyncio
import redis_py_lock
import redis_py_lock_asyncio
import valkey
from conftest import CLUSTER_URL, URL, ends_within
from lockstock import AsyncDropInLock, DropInLock, Lock, LockstockError
from test_locks import fields, run

# They ask of a lock without a time-out that its key lasts for ever, or set its time with PEXPIRE. Here a lease is extended instead.
OF_THE_KEY = ["test_lock", "test_lock_token", "test_lock_token_thread_local_false", "test_reacquire_lock"]
# They count how often redis.lock asks and sleeps until the wait is over. Here the server keeps the time, and nothing sleeps; see below.
OF_THE_LOOP = ["test_blocking_timeout", "test_context_manager_blocking_timeout"]


# The lowest versions do not have this option.
OF_THE_NEWEST = ["test_context_manager_not_raise_on_release_lock_not_owned_error", "test_context_manager_not_raise_on_release_lock_error"]
if "raise_on_release_error" in inspect.signature(redis.Redis.lock).parameters:
    OF_THE_NEWEST = []


# Before the last one.
TRIES = 2


def but_for(tests, *names):
    return type(tests.__name__, (tests,), {name: None for name in names if hasattr(tests, name)})


class TestLock(but_for(redis_py_lock.TestLock, *OF_THE_KEY, *OF_THE_LOOP, *OF_THE_NEWEST)):
    def test_extend_lock_float(self, r):
        # Its bound is half a second: a machine that stood still for so long gets another try.
        for _ in range(TRIES):
            with contextlib.suppress(AssertionError):
                return super().test_extend_lock_float(r)
            r.flushall()
        super().test_extend_lock_float(r)


TestLockClassSelection = redis_py_lock.TestLockClassSelection


@pytest.mark.asyncio
class TestAsyncLock(but_for(redis_py_lock_asyncio.TestLock, *OF_THE_KEY, *OF_THE_LOOP, *OF_THE_NEWEST)):
    async def test_extend_lock_float(self, r):
        for _ in range(TRIES):
            with contextlib.suppress(AssertionError):
                return await super().test_extend_lock_float(r)
            await r.flushall()
        await super().test_extend_lock_float(r)

    @pytest_asyncio.fixture
    async def r(self):
        async with AsyncSeen.from_url(URL) as client:
            await client.flushall()
            yield client

    @pytest.fixture
    def create_redis(self):
        async def create(**options):
            return redis.asyncio.Redis.from_url(URL, **options)

        return create


class Seen(redis.Redis):
    """Shows a lock as the string that redis-py's own would be."""

    def get(self, name):
        row = holder(self, name)
        return row and row[b"token"]

    def pttl(self, name):
        row = holder(self, name)
        return row[b"lease-ms"] if row else -2

    def ttl(self, name):
        return round(self.pttl(name) / 1000)


class AsyncSeen(redis.asyncio.Redis):
    async def get(self, name):
        return await asyncio.to_thread(Seen.from_url(URL).get, name)

    async def pttl(self, name):
        return await asyncio.to_thread(Seen.from_url(URL).pttl, name)

    async def ttl(self, name):
        return round(await self.pttl(name) / 1000)


def holder(client, name):
    info = client.execute_command("LOCK.INFO", name)
    return fields(fields(info)[b"holders"][0]) if info else None


@pytest.fixture
def r():
    with Seen.from_url(URL) as client:
        client.flushall()
        yield client


@pytest.mark.parametrize(
    "make",
    [
        lambda: redis.Redis.from_url(URL),
        lambda: redis.RedisCluster.from_url(CLUSTER_URL),
        lambda: valkey.Valkey.from_url(URL.replace("redis:", "valkey:")),
        lambda: valkey.ValkeyCluster.from_url(CLUSTER_URL.replace("redis:", "valkey:")),
    ],
    ids=["redis-py", "redis-py cluster", "valkey-py", "valkey-py cluster"],
)
def test_with_every_client(make, key):
    with make() as client:
        errors = redis.exceptions if isinstance(client, (redis.Redis, redis.RedisCluster)) else valkey.exceptions
        lock = client.lock(key, timeout=10, lock_class=DropInLock)
        with lock:
            assert lock.owned() and lock.locked() and len(lock.local.token) == 32
            assert lock.extend(10) and 18 < holder(client, key)[b"lease-ms"] / 1000 <= 20
            assert lock.reacquire() and 8 < holder(client, key)[b"lease-ms"] / 1000 <= 10
            assert not client.lock(key, blocking=False, lock_class=DropInLock).acquire()
        assert not lock.locked() and lock.local.token is None
        with pytest.raises(errors.LockError) as raised:
            lock.release()
        assert raised.value.lock_name == key
        assert lock.acquire(token="mine") and lock.local.token == b"mine"
        client.delete(key)
        with pytest.raises(errors.LockNotOwnedError):
            lock.release()


def test_one_without_a_time_out_is_extended_and_one_with_it_is_not(r, key, monkeypatch):
    monkeypatch.setattr("lockstock.dropin.LEASE", 0.6)
    endless, short = r.lock(key, lock_class=DropInLock), r.lock(key + "a", timeout=0.6, lock_class=DropInLock)
    assert endless.acquire() and short.acquire()
    time.sleep(1)
    assert endless.owned() and not short.owned()
    endless.release()


def test_a_wait_takes_its_time_and_no_longer(r, key):
    with Lock(r, key):
        for options, least, most in [
            ({"blocking_timeout": 0.4}, 0.4, 0.8),
            ({"blocking": False}, 0, 0.2),
            # As redis-py has it.
            ({"blocking_timeout": 1, "sleep": 60}, 0, 0.5),
        ]:
            with ends_within(least, most):
                assert not r.lock(key, lock_class=DropInLock, **options).acquire()
        with ends_within(0.2, 0.6):
            assert not r.lock(key, lock_class=DropInLock).acquire(blocking_timeout=0.2)


def test_threads_share_one_as_they_share_one_of_redis_py(r, key):
    lock, inside, most = r.lock(key, lock_class=DropInLock), 0, 0

    def work():
        nonlocal inside, most
        for _ in range(10):
            with lock:
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    assert [outcome() for outcome in [run(work) for _ in range(8)]] == [None] * 8
    assert most == 1


def test_a_token_may_be_for_all_threads(r, key):
    lock = r.lock(key, thread_local=False, lock_class=DropInLock)
    assert lock.acquire()
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join()
    assert not lock.locked()


def test_a_lock_of_redis_py_keeps_this_one_out_and_the_other_way_round(r, key):
    """So programs may change over one by one."""
    old, new = r.lock(key), r.lock(key, sleep=0.05, lock_class=DropInLock)
    assert old.acquire() and new.locked() and not new.acquire(blocking_timeout=0.2)
    said = run(new.acquire)
    time.sleep(0.1)
    redis.Redis.from_url(URL).delete(key)
    assert said() is True
    assert not old.acquire(blocking=False)


def test_the_token_of_another_lets_nobody_in(r, key):
    first = r.lock(key, lock_class=DropInLock)
    assert first.acquire(token="a")
    assert not r.lock(key, lock_class=DropInLock).acquire(token="b", blocking=False)


def test_nor_does_its_own_token(r, key):
    first = r.lock(key, lock_class=DropInLock)
    assert first.acquire(token="a")
    with ends_within(0, 2):
        assert not r.lock(key, lock_class=DropInLock).acquire(token="a", blocking=False)
        assert not r.lock(key, lock_class=DropInLock).acquire(token="a", blocking_timeout=0.3)
    said = run(lambda: r.lock(key, lock_class=DropInLock).acquire(token="a"))
    time.sleep(0.1)
    first.release()
    assert said() is True


def test_of_asyncio(key):
    async def body():
        async with redis.asyncio.Redis.from_url(URL) as client:
            async with client.lock(key, timeout=10, lock_class=AsyncDropInLock) as lock:
                assert await lock.owned() and await lock.extend(5) and await lock.reacquire()
                other = client.lock(key, lock_class=AsyncDropInLock, blocking_timeout=0.1)
                with pytest.raises(redis.exceptions.LockError):
                    async with other:
                        pass
            assert not await lock.locked()

    asyncio.run(body())


def test_errors_of_the_connection_are_those_of_both(gate):
    gate.close()
    # How long redis-py goes on trying is drawn at random.
    with pytest.raises((redis.ConnectionError, redis.TimeoutError)) as raised:
        redis.Redis(port=gate.port).lock("job", lock_class=DropInLock).acquire(blocking=False)
    assert isinstance(raised.value, LockstockError)
