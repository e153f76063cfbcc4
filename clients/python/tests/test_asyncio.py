"""`AsyncLock` and `Line` over the asyncio clients."""

import asyncio
import contextlib
import gc
import time

import pytest
import redis.asyncio
import valkey.asyncio
from conftest import CLUSTER_URL, URL, end_connection
from lockstock import AsyncLock, Closed, Line, Lost, NotGranted
from test_locks import demoted_for_a_while, fields

CLIENTS = {
    "redis-py": lambda **options: redis.asyncio.Redis.from_url(URL, **options),
    "redis-py RESP2": lambda **options: redis.asyncio.Redis.from_url(URL, protocol=2, **options),
    "redis-py cluster": lambda **options: redis.asyncio.RedisCluster.from_url(CLUSTER_URL, **options),
    "valkey-py": lambda **options: valkey.asyncio.Valkey.from_url(URL.replace("redis:", "valkey:"), **options),
    "valkey-py cluster": lambda **options: valkey.asyncio.ValkeyCluster.from_url(
        CLUSTER_URL.replace("redis:", "valkey:"), **options
    ),
}


@contextlib.asynccontextmanager
async def connected(kind):
    """A client, and how it makes locks: each waits over a connection of its own, or all over one line."""
    name, _, by_line = kind.partition(" by ")
    client = CLIENTS[name]()
    try:
        # A lock that is asked for without a wait has no time for a whole cluster to be learnt on a busy machine.
        await client.execute_command("LOCK.INFO", "key")
        if by_line:
            async with Line(client) as line:
                yield client, line.lock
        else:
            yield client, lambda *keys, **options: AsyncLock(client, *keys, **options)
    finally:
        await client.aclose()


@pytest.fixture(params=[*CLIENTS, "redis-py by line", "redis-py RESP2 by line", "valkey-py by line"])
def kind(request):
    return request.param


async def waiting(client, key):
    info = await client.execute_command("LOCK.INFO", key)
    return fields(info)[b"waiting"] if info is not None else 0


async def lease_of(client, key):
    return fields(fields(await client.execute_command("LOCK.INFO", key))[b"holders"][0])[b"lease-ms"]


async def eventually(what, condition):
    deadline = time.monotonic() + 60
    while not await condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.005)


async def until_waiting(client, key, count):
    async def wait():
        return await waiting(client, key) == count

    await eventually(f"{count} wait for {key}", wait)


def scene(body):
    """A test whose body gets a client and a maker of locks."""

    def test(kind, key):
        async def play():
            async with connected(kind) as (client, lock):
                await body(client, lock, key)

        asyncio.run(asyncio.wait_for(play(), 200))

    test.__name__ = body.__name__
    return test


@scene
async def test_it_is_held_within_and_free_after(client, lock, key):
    async with lock(key) as held:
        assert held.held and not held.lost.is_set() and held.fence > 0
        with pytest.raises(NotGranted):
            async with lock(key):
                pass
    assert not await client.execute_command("EXISTS", key)
    async with lock(key + "a", key + "b", wait=5):
        assert not await lock(key + "b").acquire()


@scene
async def test_waiters_come_in_order(client, lock, key):
    order = []

    async def work(number):
        async with lock(key, wait=100) as held:
            order.append((number, held.fence))

    first = lock(key)
    assert await first.acquire()
    works = []
    for number in range(5):
        works.append(asyncio.create_task(work(number)))
        await until_waiting(client, key, number + 1)
    assert await first.release()
    await asyncio.gather(*works)
    assert [number for number, _ in order] == list(range(5))
    assert [fence for _, fence in order] == sorted(fence for _, fence in order)


@scene
async def test_a_wait_that_is_over_or_cancelled_leaves_nothing(client, lock, key):
    async with lock(key):
        with pytest.raises(NotGranted):
            async with lock(key, wait=0.3):
                pass
        # A request that was repeated in the last moment waits for that long on the server.
        await until_waiting(client, key, 0)
        task = asyncio.create_task(lock(key, wait=100).acquire())
        await until_waiting(client, key, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await waiting(client, key) == 0
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(lock(key, key + "b", wait=100).acquire(), 0.2)
        assert await waiting(client, key) == 0


@scene
async def test_it_is_extended_while_it_is_held_and_lost_when_it_is_taken(client, lock, key):
    async with lock(key, lease=3) as held:

        async def runs():
            return await lease_of(client, key) < 2_800

        async def is_extended():
            return await lease_of(client, key) > 2_800

        await eventually("the lease runs", runs)
        await eventually("it is extended", is_extended)
        assert held.held and not held.lost.is_set()
    with pytest.raises(Lost):
        async with lock(key, lease=1.5) as held:
            await client.execute_command("DEL", key)
            await asyncio.wait_for(held.lost.wait(), 20)
            assert not held.held


@scene
async def test_errors_are_raised_and_not_waited_for(client, lock, key):
    await client.set(key, "text")
    with pytest.raises(Exception, match="WRONGTYPE|wrong kind"):
        await lock(key, wait=100).acquire()
    one, two = lock(key + "a", token="a"), lock(key + "b", token="b")
    assert await one.acquire() and await two.acquire()
    task = asyncio.create_task(lock(key + "b", token="a", wait=100, extend=False).acquire())
    await until_waiting(client, key + "b", 1)
    with pytest.raises(Exception, match="DEADLOCK"):
        await lock(key + "a", token="b", wait=100).acquire()
    assert await two.release()
    assert await task
    assert await one.release()
    await client.execute_command("LOCK.RELEASE", key + "b", "a")


@scene
async def test_a_session_ends_with_its_connection(client, lock, key):
    if lock.__name__ == "lock":
        return  # Of a line: the connection is everybody's.
    held = await lock(key, session=True, wait=5, extend=False).acquire()
    await held._session.hang_up()

    async def is_free():
        return not await client.execute_command("EXISTS", key)

    await eventually("the session ends", is_free)


@scene
async def test_a_session_whose_connection_has_ended_is_lost_soon(client, lock, key):
    if lock.__name__ == "lock":
        return
    for extend in True, False:
        async with lock(key, session=True, wait=5, lease=60, extend=extend) as other:
            with pytest.raises(Lost):
                async with lock(key + "a", session=True, wait=5, lease=60, extend=extend) as hold:
                    await asyncio.sleep(1.5)
                    assert hold.held and await hold.owned()
                    address = hold._session._connection._writer.get_extra_info("sockname")
                    await asyncio.to_thread(end_connection, address)
                    await asyncio.wait_for(hold.lost.wait(), 10)
                    assert not hold.held
                    assert await (await lock(key + "a", wait=5).acquire()).release()
            assert other.held and await other.owned()


@scene
async def test_a_hold_whose_key_has_another_value_is_lost(client, lock, key):
    one, more = await lock(key, lease=60).acquire(), await lock(key + "a", key + "b", lease=60).acquire()
    kept = await lock(key + "c", lease=9).acquire()
    for name in key, key + "b", key + "c":
        await client.delete(name)
        await client.set(name, "text", nx=True)
    assert not await one.owned() and not await more.owned() and one.held
    assert not await one.extend() and one.lost.is_set()
    assert not await one.release() and not await more.release()
    assert not await client.exists(key + "a")
    await asyncio.wait_for(kept.lost.wait(), 7)
    assert not await kept.release()


@pytest.mark.parametrize("name", ["redis-py", "redis-py RESP2", "redis-py by line", "redis-py RESP2 by line", "valkey-py by line"])
def test_a_server_that_is_demoted_for_a_while_is_asked_again(server, name, key):
    async def play():
        async with connected(name) as (client, lock):
            first = lock(key)
            assert await first.acquire()
            wait = asyncio.create_task(lock(key, wait=100).acquire())
            await until_waiting(client, key, 1)
            await asyncio.to_thread(demoted_for_a_while, server)
            await until_waiting(client, key, 1)
            assert await first.release()
            assert await wait

    asyncio.run(play())


@pytest.mark.parametrize("kill", ["normal", "pubsub"])
@pytest.mark.parametrize("name", ["redis-py", "redis-py RESP2", "valkey-py"])
def test_a_line_that_is_cut_is_made_again_and_every_place_kept(server, grace, name, key, kill):
    async def play():
        async with connected(name + " by line") as (client, lock):
            first = lock(key)
            assert await first.acquire()
            waits = []
            for number in range(5):
                waits.append(asyncio.create_task(lock(key, wait=100, token=f"w{number}").acquire()))
                await until_waiting(client, key, number + 1)
            server.client.execute_command("CLIENT", "KILL", "TYPE", kill, "SKIPME", "yes")
            await asyncio.sleep(0.1)
            deadline = time.monotonic() + 60
            while server.waiters(key) != [f"w{number}" for number in range(5)]:
                assert time.monotonic() < deadline, server.waiters(key)
                await asyncio.sleep(0.01)
            await first.release()
            for number, wait in enumerate(waits):
                assert await asyncio.wait_for(wait, 20)
                server.client.execute_command("LOCK.RELEASE", key, f"w{number}")

    asyncio.run(play())


@pytest.mark.parametrize("name", ["redis-py", "redis-py RESP2", "valkey-py"])
def test_a_line_is_open_within_its_block_only(name, key):
    async def play():
        gc.collect()
        loop, said = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, context: said.append(context))
        client = CLIENTS[name]()
        line = Line(client)
        with pytest.raises(Closed, match="async with"):
            await line.lock(key).acquire()
        async with line:
            with pytest.raises(RuntimeError, match="open already"):
                async with line:
                    pass
            hold = await line.lock(key, wait=5).acquire()
            assert hold.held
        with pytest.raises(Closed):
            await line.lock(key + "b", wait=5).acquire()
        # What was granted is released, and leaves no connection behind.
        assert await hold.owned() and await hold.release()
        async with line, line.lock(key, wait=5) as hold:
            assert hold.held
        del line, hold
        gc.collect()
        await client.aclose()
        await asyncio.sleep(0)
        gc.collect()
        assert not said, said

    asyncio.run(play())
