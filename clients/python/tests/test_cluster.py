"""Clusters: slots that move, nodes that stop, and clients that are dropped."""

import asyncio
import contextlib
import gc
import time
import weakref

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio
from conftest import CLUSTER_URL, Eye, away, ends_within, eventually, frozen
from lockstock import AsyncLock, AsyncStock, Hold, Lock, NotReleased, Refused, Stock, Unreachable
from test_locks import run

pytestmark = pytest.mark.breaks

CLUSTERS = {
    "redis-py": lambda: redis.RedisCluster.from_url(CLUSTER_URL),
    "valkey-py": lambda: valkey.ValkeyCluster.from_url(CLUSTER_URL.replace("redis:", "valkey:")),
}


def test_tasks_end_in_time_though_no_node_answers(key):
    """Each node that may know where the key is now takes its time not to say so."""

    async def body():
        async with redis.asyncio.RedisCluster.from_url(CLUSTER_URL) as client:
            hold = await AsyncLock(client, key).acquire()
            await AsyncStock(client).info(key + "a")
            with contextlib.ExitStack() as all_frozen, redis.RedisCluster.from_url(CLUSTER_URL) as cluster:
                for node in cluster.get_nodes():
                    all_frozen.enter_context(frozen(cluster.get_redis_connection(node)))
                with ends_within(1, 3), pytest.raises(Unreachable):
                    await AsyncLock(client, key + "b", wait=1).acquire()
                with ends_within(4, 5.5), pytest.raises(NotReleased):
                    await hold.release()
                with ends_within(4, 5.5), pytest.raises(Unreachable):
                    await AsyncStock(client).info(key + "a")

    asyncio.run(asyncio.wait_for(body(), 60))


@pytest.mark.parametrize("name", CLUSTERS)
def test_so_do_threads(name, key):
    with CLUSTERS[name]() as client, redis.RedisCluster.from_url(CLUSTER_URL) as cluster:
        hold = Lock(client, key).acquire()
        Stock(client).info(key + "a")
        with contextlib.ExitStack() as all_frozen:
            for node in cluster.get_nodes():
                all_frozen.enter_context(frozen(cluster.get_redis_connection(node)))
            with ends_within(1, 3), pytest.raises(Unreachable):
                Lock(client, key + "b", wait=1).acquire()
            with ends_within(4, 5.5), pytest.raises(NotReleased):
                hold.release()
            with ends_within(4, 5.5), pytest.raises(Unreachable):
                Stock(client).info(key + "a")


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_client_of_a_cluster_that_is_dropped_leaves_nothing(name, key):
    client = CLUSTERS[name]()
    with Lock(client, key):
        pass
    dropped = weakref.ref(client)
    client.close()
    del client
    gc.collect()
    assert dropped() is None


@contextlib.contextmanager
def moving(key):
    """Moves the slot of a key to another node when told, and back at the end."""
    with redis.RedisCluster.from_url(CLUSTER_URL) as cluster:
        slot = cluster.keyslot(key)
        nodes = [(node, cluster.get_redis_connection(node)) for node in cluster.get_primaries()]
        [here] = [pair for pair in nodes if pair[0] == cluster.get_node_from_key(key)]
        there = next(pair for pair in nodes if pair is not here)

        def move(source, target):
            ids = [pair[1].execute_command("CLUSTER MYID") for pair in (source, target)]
            target[1].execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[0])
            source[1].execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[1])
            while keys := source[1].execute_command("CLUSTER GETKEYSINSLOT", slot, 10):
                source[1].execute_command("MIGRATE", target[0].host, target[0].port, "", 0, 5_000, "KEYS", *keys)
            for _, one in (target, source, *nodes):
                one.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[1])

        try:
            yield lambda: move(here, there)
        finally:
            with contextlib.suppress(redis.ResponseError):  # It may not have been moved.
                move(there, here)


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_wait_and_a_hold_go_on_where_their_slot_has_gone(name, key):
    client = CLUSTERS[name]()
    eye = Eye(redis.RedisCluster.from_url(CLUSTER_URL, decode_responses=True))
    with moving(key) as move:
        hold = Lock(client, key, wait=20, lease=60).acquire()
        said = run(Lock(client, key, wait=60).acquire)
        eye.until_waiting(key, 1)
        move()
        eventually("it waits there", lambda: len(eye.waiters(key)) == 1)
        assert hold.owned() and hold.release()
        got = said()
        assert isinstance(got, Hold) and got.release()


def test_so_do_they_in_asyncio(key):
    eye = Eye(redis.RedisCluster.from_url(CLUSTER_URL, decode_responses=True))

    async def body(move):
        client = redis.asyncio.RedisCluster.from_url(CLUSTER_URL)
        hold = await AsyncLock(client, key, wait=20, lease=60).acquire()
        said = asyncio.create_task(AsyncLock(client, key, wait=60).acquire())
        await asyncio.to_thread(eye.until_waiting, key, 1)
        await asyncio.to_thread(move)
        await asyncio.to_thread(eventually, "it waits there", lambda: len(eye.waiters(key)) == 1)
        assert await hold.owned() and await hold.release()
        assert await (await said).release()
        await client.aclose()

    with moving(key) as move:
        asyncio.run(asyncio.wait_for(body(move), 100))


@contextlib.contextmanager
def half_moved(key):
    """The slot of a key is on its way to another node: what is there is there already, and what comes is asked for there."""
    with redis.RedisCluster.from_url(CLUSTER_URL) as cluster:
        slot, source = cluster.keyslot(key), cluster.get_node_from_key(key)
        target = next(node for node in cluster.get_primaries() if node != source)
        here, there = map(cluster.get_redis_connection, [source, target])
        ids = [client.execute_command("CLUSTER MYID") for client in (here, there)]
        there.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[0])
        here.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[1])
        while keys := here.execute_command("CLUSTER GETKEYSINSLOT", slot, 10):
            here.execute_command("MIGRATE", target.host, target.port, "", 0, 5_000, "KEYS", *keys)
        try:
            yield
        finally:
            for node in target, source, *cluster.get_primaries():
                cluster.get_redis_connection(node).execute_command("CLUSTER SETSLOT", slot, "NODE", ids[1])


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_lock_of_a_slot_that_is_moving_is_taken_and_extended_and_released(name, key):
    client = CLUSTERS[name]()
    kept, beside = Lock(client, key + "kept", lease=3).acquire(), Lock(client, "beside", lease=3).acquire()
    with half_moved(key):
        with ends_within(0, 2):
            hold = Lock(client, key, lease=3).acquire()
        said = run(Lock(client, key, wait=60).acquire)
        time.sleep(4)
        assert all(one.held and one.owned() for one in (hold, kept, beside))
        with ends_within(0, 2):
            assert hold.release() and kept.release() and beside.release()
        assert said().release()
        with Lock(client, key):
            cancelled = Lock(client, key, wait=60)
            said = run(cancelled.acquire)
            time.sleep(0.3)
            with ends_within(0, 0.5):
                cancelled.cancel()
                assert said() is None
        with pytest.raises(Unreachable):
            # A session stays where it began.
            Lock(client, key, session=True).acquire()


@pytest.mark.parametrize("kind", [redis.asyncio.RedisCluster, valkey.asyncio.ValkeyCluster])
def test_so_is_one_of_asyncio(kind, key):
    async def body():
        client = kind.from_url(CLUSTER_URL.replace("redis:", f"{kind.__module__.partition('.')[0]}:"))
        await client.initialize()
        kept = await AsyncLock(client, key + "kept", lease=3, wait=10).acquire()
        for node in client.get_nodes():
            # As in a program of many tasks: the client has several connections to each node, and takes them in turn.
            await asyncio.gather(node.execute_command("PING"), node.execute_command("PING"))
        with half_moved(key):
            hold = await AsyncLock(client, key, lease=3).acquire()
            said = asyncio.create_task(AsyncLock(client, key, wait=60).acquire())
            await asyncio.sleep(4)
            assert hold.held and await hold.owned() and kept.held and await kept.owned()
            assert await hold.release() and await kept.release()
            assert await (await said).release()
            with pytest.raises(Unreachable):
                await AsyncLock(client, key, session=True).acquire()
        await client.aclose()

    asyncio.run(asyncio.wait_for(body(), 60))


@pytest.mark.parametrize("kind", [redis.asyncio.RedisCluster, valkey.asyncio.ValkeyCluster])
def test_a_network_that_is_away_for_a_while_ends_nothing(cluster_gates, kind, key):
    gates, way = cluster_gates
    eye = Eye(redis.RedisCluster.from_url(CLUSTER_URL, decode_responses=True))

    async def body():
        client = kind(**way)
        async with AsyncLock(redis.asyncio.RedisCluster.from_url(CLUSTER_URL), key):
            said = asyncio.create_task(AsyncLock(client, key, wait=60).acquire())
            await asyncio.to_thread(eye.until_waiting, key, 1)
            with away(gates):
                await asyncio.sleep(0.5)
                assert not said.done()
        hold = await said
        with away(gates):
            released, looked = asyncio.create_task(hold.release()), asyncio.create_task(AsyncStock(client).info(key + "sale"))
            await asyncio.sleep(0.5)
        assert await released and await looked is None
        with away(gates):
            with ends_within(0, 2), pytest.raises(Unreachable):
                await AsyncLock(kind(**way), key).acquire()
        with pytest.raises(Refused, match="same"):
            await AsyncLock(client, key + "a", "elsewhere").acquire()
        await client.aclose()

    asyncio.run(asyncio.wait_for(body(), 60))


def test_a_task_asks_again_when_a_node_goes_on(key):
    async def body():
        client = redis.asyncio.RedisCluster.from_url(CLUSTER_URL, socket_timeout=0.5)
        await client.initialize()
        node = redis.RedisCluster.from_url(CLUSTER_URL)
        with frozen(node.get_redis_connection(node.get_node_from_key(key))):
            said = asyncio.create_task(AsyncLock(client, key, wait=60).acquire())
            await asyncio.wait([said], timeout=6)
            assert not said.done()
        assert await (await said).release()
        await client.aclose()

    asyncio.run(asyncio.wait_for(body(), 100))
