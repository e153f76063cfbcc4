"""Nobody hangs: every wait and release ends in time, whatever the server does and whatever the client's settings are."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio
from conftest import CLUSTER_URL, URL, ends_within, eventually, frozen
from lockstock import AsyncLock, Line, Lock, Lost, LockstockError, NotReleased, Unreachable
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from test_locks import run

pytestmark = pytest.mark.breaks

PATIENT = {"socket_timeout": 60, "socket_connect_timeout": 60}


def clients(port):
    """Clients whose own settings would keep their callers for minutes."""
    return {
        "redis-py": lambda: redis.Redis(port=port, retry=Retry(ConstantBackoff(1), 60), **PATIENT),
        "redis-py without a time-out": lambda: redis.Redis(port=port, socket_timeout=None, socket_connect_timeout=None),
        "valkey-py": lambda: valkey.Valkey(port=port, **PATIENT),
    }


@pytest.fixture(params=clients(0))
def name(request):
    return request.param


@pytest.mark.parametrize("wait", [0, 0.5])
def test_a_wait_at_a_frozen_server_ends_two_seconds_after_its_time_at_the_latest(server, name, key, wait):
    client = clients(int(URL.rpartition(":")[2]))[name]()
    with frozen(server.client):
        with ends_within(wait, wait + 2), pytest.raises(Unreachable) as raised:
            Lock(client, key, wait=wait).acquire()
    assert isinstance(raised.value, (redis.RedisError, valkey.ValkeyError))
    server.until_free(key)


def test_so_does_one_that_stands_in_line_already(server, name, key):
    client = clients(int(URL.rpartition(":")[2]))[name]()
    with Lock(redis.Redis.from_url(URL), key, lease=60):
        asked = Lock(client, key, wait=1)
        said = run(asked.acquire)
        server.until_waiting(key, 1)
        with frozen(server.client), ends_within(0, 3):
            assert isinstance(said(), Unreachable)
        server.until_waiting(key, 0)


def test_so_does_one_at_a_server_that_is_gone(gate, name, key, wait=0.5):
    client = clients(gate.port)[name]()
    gate.close()
    with ends_within(wait, wait + 2), pytest.raises(Unreachable):
        Lock(client, key, wait=wait).acquire()


def test_so_does_one_in_a_cluster_of_which_a_node_is_frozen(key):
    client = redis.RedisCluster.from_url(CLUSTER_URL)
    node = client.get_redis_connection(client.get_node_from_key(key))
    lock = Lock(client, key, wait=0.5, lease=20)
    with frozen(node), ends_within(0, 2.5), pytest.raises(Unreachable):
        lock.acquire()


def test_a_release_at_a_frozen_server_ends_with_the_lease_and_says_so(server, name, key):
    client = clients(int(URL.rpartition(":")[2]))[name]()
    hold = Lock(client, key, lease=1).acquire()
    with frozen(server.client):
        with ends_within(0, 1.2), pytest.raises(NotReleased):
            hold.release()
        assert not hold.held


def test_or_within_five_seconds_and_may_be_asked_again(server, key):
    """Of a thread and of a task at a time, as the one blocks the other's loop."""

    async def body(client):
        hold, other = Lock(redis.Redis.from_url(URL), key).acquire(), await AsyncLock(client, key + "a").acquire()
        with frozen(server.client), ends_within(4.5, 5.5):
            both = await asyncio.gather(asyncio.to_thread(hold.release), other.release(), return_exceptions=True)
            assert [type(one).__name__ for one in both] == ["NotReleased", "NotReleased"] and isinstance(both[0], NotReleased)
        assert not hold.held and not other.held
        # The first release may have come to the server after all.
        assert await asyncio.to_thread(hold.release) in (True, False)
        assert await other.release() in (True, False)

    asyncio.run(test_in_asyncio(body))
    server.until_free(key)
    server.until_free(key + "a")


def test_the_end_of_a_block_too(server, key):
    with frozen_later(server) as freeze, ends_within(0, 2.3), pytest.raises(NotReleased):
        with Lock(redis.Redis.from_url(URL), key, lease=2):
            freeze()
    with frozen_later(server) as freeze, pytest.raises(KeyError):
        with Lock(redis.Redis.from_url(URL), key + "a", lease=2):
            freeze()
            raise KeyError


@contextlib.contextmanager
def frozen_later(server):
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(frozen(server.client))


def test_a_keyboard_interrupt_ends_a_wait_at_once(server, key):
    """Also where the server is frozen; the process ends soon after."""
    program = f"""
import redis
from lockstock import Lock
print("go", flush=True)
try:
    Lock(redis.Redis.from_url({URL!r}), {key!r}, wait=100).acquire()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with Lock(redis.Redis.from_url(URL), key, lease=60):
        for freezes in False, True:
            child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
            assert child.stdout.readline() == "go\n"
            server.until_waiting(key, 1)
            with frozen(server.client) if freezes else contextlib.nullcontext():
                # A tenth of a second, and what the child is late, which nobody here sees.
                with ends_within(0, 0.3):
                    child.send_signal(signal.SIGINT)
                    assert child.stdout.readline() == "interrupted\n"
                with ends_within(0, 5):
                    assert child.wait(60) == 0
                child.stdout.close()
            server.until_waiting(key, 0)


async def test_in_asyncio(body, **options):
    async with redis.asyncio.Redis.from_url(URL, retry=AsyncRetry(ConstantBackoff(1), 60), **PATIENT, **options) as client:
        await asyncio.wait_for(body(client), 60)


test_in_asyncio.__test__ = False


async def maker(client, by_line, stack):
    """What makes locks: over a `Line`, or by themselves."""
    return (await stack.enter_async_context(Line(client))).lock if by_line else lambda *a, **o: AsyncLock(client, *a, **o)


@pytest.mark.parametrize("wait", [0, 0.5])
@pytest.mark.parametrize("by_line", [False, True])
def test_a_task_that_waits_at_a_frozen_server_ends_in_time(server, key, wait, by_line):
    async def body(client):
        async with contextlib.AsyncExitStack() as stack:
            lock = await maker(client, by_line, stack)
            await client.ping()
            with frozen(server.client), ends_within(wait, wait + 2), pytest.raises(Unreachable, match="no answer in time"):
                await lock(key, wait=wait).acquire()

    asyncio.run(test_in_asyncio(body))
    server.until_free(key)


@pytest.mark.parametrize("by_line", [False, True])
def test_a_task_that_is_cancelled_at_a_frozen_server_ends_at_once(server, key, by_line):
    async def body(client):
        async with AsyncLock(client, key, lease=60), contextlib.AsyncExitStack() as stack:
            lock = await maker(client, by_line, stack)
            task = asyncio.create_task(lock(key, wait=100).acquire())
            await asyncio.to_thread(server.until_waiting, key, 1)
            with frozen(server.client):
                task.cancel()
                with ends_within(0, 0.1), pytest.raises(asyncio.CancelledError):
                    await task
            await asyncio.to_thread(server.until_waiting, key, 0)

    asyncio.run(test_in_asyncio(body))


@pytest.mark.parametrize("wait", [0, 60])
@pytest.mark.parametrize("by_line", [False, True])
def test_so_does_one_that_another_task_cancels(server, key, wait, by_line):
    async def body(client):
        async with contextlib.AsyncExitStack() as stack:
            make = await maker(client, by_line, stack)
            await client.ping()
            lock = make(key, wait=wait, lease=900)
            with frozen(server.client):
                task = asyncio.create_task(lock.acquire())
                await asyncio.sleep(0.2)
                lock.cancel()
                with ends_within(0, 0.1):
                    assert await task is None

    asyncio.run(test_in_asyncio(body))
    server.until_free(key)


def test_a_release_of_a_task_at_a_frozen_server_ends_in_time(server, key):
    async def body(client):
        hold = await AsyncLock(client, key, lease=1).acquire()
        with frozen(server.client), ends_within(0, 1.2), pytest.raises(NotReleased):
            await hold.release()

    asyncio.run(test_in_asyncio(body))


def test_a_server_that_is_frozen_costs_its_holds_and_no_others(server, key):
    """One thread extends all, and it does not wait for a server that does not answer."""
    cluster = redis.RedisCluster.from_url(CLUSTER_URL)
    bad, good = Lock(redis.Redis.from_url(URL), key, lease=1.5).acquire(), Lock(cluster, key, lease=1.5).acquire()
    with frozen(server.client):
        assert bad.lost.wait(3)
        time.sleep(1.5)
        assert not bad.held and good.held and good.owned()
    assert good.release() and not bad.release()


def test_so_it_does_in_asyncio(key):
    async def body():
        client = redis.asyncio.RedisCluster.from_url(CLUSTER_URL)
        locks = [AsyncLock(client, f"{key[1:-1]}{number}", wait=10, lease=3) for number in range(12)]
        # Else each of them would have the client make its connections.
        await client.initialize()
        for lock in locks:
            await lock.locked()
        holds = await asyncio.gather(*(lock.acquire() for lock in locks))
        nodes = {hold: client.get_node_from_key(hold.keys[0]).name for hold in holds}
        bad = nodes[holds[0]]
        with redis.Redis(port=int(bad.rpartition(":")[2])) as node, frozen(node):
            await asyncio.sleep(4)
            assert [hold for hold in holds if hold.held] == [hold for hold in holds if nodes[hold] != bad] != []
        assert {await hold.release() for hold in holds if nodes[hold] != bad} == {True}
        await client.aclose()

    asyncio.run(body())


def test_a_grant_that_was_long_on_its_way_is_asked_after(server, gate, key):
    """A process that was kept up when its turn came does not take a hold for live that is over."""
    with redis.Redis(port=gate.port) as client:
        first = Lock(redis.Redis.from_url(URL), key).acquire()
        said = run(Lock(client, key, wait=60, lease=1, extend=False).acquire)
        server.until_waiting(key, 1)
        gate.hold_up()
        first.release()
        server.until_free(key)
        with Lock(redis.Redis.from_url(URL), key, wait=5):
            gate.go.set()
            server.until_waiting(key, 1)
        hold = said()
        assert hold.held and hold.owned()
        hold.release()


def test_a_line_to_a_server_that_does_not_answer_opens_in_time_or_not_at_all(gate):
    """All kinds of clients at a time."""

    async def opens(client):
        line = Line(client)
        with ends_within(0, 5.5), pytest.raises(Unreachable):
            async with line:
                pass
        return line

    async def play():
        options = [{}, {"socket_timeout": None}, PATIENT]
        clients = [kind(port=gate.port, **one) for kind in (redis.asyncio.Redis, valkey.asyncio.Valkey) for one in options]
        gate.hold_up()
        lines = await asyncio.gather(*map(opens, clients))
        gate.go.set()
        for line in lines:
            # It may be tried again.
            async with line, line.lock("job:line", wait=5) as hold:
                assert hold.held
        for client in clients:
            await client.aclose()

    asyncio.run(play())
