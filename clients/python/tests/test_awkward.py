"""Awkward surroundings: users who may not do everything, networks that stop in mid-answer, slots that move, forks, and ends of all kinds."""

import asyncio
import concurrent.futures
import contextlib
import gc
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import threading
import time
import weakref

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio
from conftest import CLUSTER_URL, URL, Eye, Gate, away, cut, ends_within, eventually, frozen
from lockstock import AsyncLock, AsyncStock, Closed, Hold, Line, Lock, Refused, Stock, Unreachable, aio, locks
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
    with stutter(b"LOCK.RELEASE", 0) as client, ends_within(0, 5):
        assert Lock(client, key).acquire().release() is True
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
    def broken(*_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    lock = Lock(client, key, lease=900)
    monkeypatch.setattr(*place, broken)
    with pytest.raises(KeyboardInterrupt), lock:
        pass
    server.until_free(key)
    assert not lock.held and lock.acquire().release()


def test_an_interrupt_at_any_line_of_an_acquisition_leaves_nothing(server, client, key):
    lock, lines = Lock(client, key, lease=900, token="one"), 0

    def acquires():
        nonlocal lines
        seen, lines = 0, lines + 1

        def trace(frame, event, _):
            nonlocal seen
            if frame.f_code.co_name not in ("acquire", "_enter", "_got", "_leave") or "lockstock" not in frame.f_code.co_filename:
                return None
            seen += event == "line"
            if event == "line" and seen == lines:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            return lock.acquire()
        finally:
            sys.settrace(None)

    while True:
        try:
            hold = acquires()
        except KeyboardInterrupt:
            assert not lock.held
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


CLUSTERS = {
    "redis-py": lambda: redis.RedisCluster.from_url(CLUSTER_URL),
    "valkey-py": lambda: valkey.ValkeyCluster.from_url(CLUSTER_URL.replace("redis:", "valkey:")),
}


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


def test_so_is_one_of_asyncio(key):
    async def body():
        client = redis.asyncio.RedisCluster.from_url(CLUSTER_URL)
        kept = await AsyncLock(client, key + "kept", lease=3).acquire()
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


def test_a_loop_that_ended_does_not_stay(key):
    ended = []

    async def body(client):
        ended.append(weakref.ref(asyncio.get_running_loop()))
        async with AsyncLock(client, key):
            pass

    play(body)
    gc.collect()
    assert ended[0]() is None
