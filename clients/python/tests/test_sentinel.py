"""Servers with replicas: behind Sentinel who waits and who holds find the new primary after a failover, and grants may be asked to be copied."""

import asyncio
import os
import pathlib
import signal
import subprocess

import pytest
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
import test_asyncio
from conftest import Eye, end_connection, ends_within, eventually, free_port, patiently
from lockstock import AsyncLock, AsyncStock, Line, Lock, NotReleased, NotReplicated, Stock, Unreachable
from test_locks import run, waiting

pytestmark = pytest.mark.breaks

SERVER = os.environ.get("LOCKSTOCK_SERVER", "redis-server")
ROOT = pathlib.Path(__file__).resolve().parents[3]
MODULE = os.environ.get("LOCKSTOCK_MODULE", str(ROOT / "target/release/liblockstock.so"))


@pytest.fixture
def start(tmp_path):
    """Starts a server, with these lines in its file."""
    processes = []

    def start(*words):
        port = free_port()
        directory = tmp_path / str(port)
        directory.mkdir()
        (directory / "conf").write_text(f"port {port}\nbind 127.0.0.1\n" + "\n".join(words))
        mode = ["--sentinel"] if any("sentinel" in word for word in words) else []
        with open(directory / "log", "wb") as log:
            processes.append(subprocess.Popen([SERVER, "conf", *mode], cwd=directory, stdout=log, stderr=log))
        client = redis.Redis(port=port, decode_responses=True, protocol=3)
        client.process = processes[-1]
        eventually(f"{words} answers", lambda: patiently(client.ping))
        return client, port

    yield start
    for process in processes:
        process.kill()
        process.wait()


LINES = [f"loadmodule {MODULE}", 'save ""', "repl-diskless-sync-delay 0"]


@pytest.fixture
def sentinel(start):
    """Where Sentinel is, a function that kills the primary and gives an eye on the one that is promoted, and the processes of all three."""
    primary, port = start(*LINES)
    replica, _ = start(*LINES, f"replicaof 127.0.0.1 {port}")
    eventually("it follows", lambda: replica.info("replication")["master_link_status"] == "up")
    monitor = f"sentinel monitor shop 127.0.0.1 {port} 1"
    watch, where = start(monitor, "sentinel down-after-milliseconds shop 2000", "sentinel failover-timeout shop 5000")
    eventually("Sentinel knows the replica", lambda: len(watch.execute_command("SENTINEL", "REPLICAS", "shop")) == 1)

    def written(one):
        return one.info("replication")["master_repl_offset"]

    def fail_over(end=subprocess.Popen.kill):
        # A link that is up may still wait for its first words. What the replica has not got is lost, as ever in a failover.
        eventually("the replica has all", lambda: written(replica) == written(primary))
        end(primary.process)
        # A Sentinel that was kept up for two seconds does nothing for thirty.
        eventually("it is promoted", lambda: (patiently(lambda: replica.info("replication")) or {}).get("role") == "master", 120)
        return Eye(replica)

    return ("127.0.0.1", where), fail_over, [one.process for one in (primary, replica, watch)]


def freeze(process):
    """Its connections stay, and nobody says anything over them."""
    process.send_signal(signal.SIGSTOP)


ENDS = pytest.mark.parametrize("end", [subprocess.Popen.kill, freeze], ids=["killed", "frozen"])


@ENDS
def test_a_hold_and_a_wait_go_on_at_the_new_primary(sentinel, key, end):
    where, fail_over, _ = sentinel
    with redis.sentinel.Sentinel([where]).master_for("shop") as client:
        held = Lock(client, key, lease=200)
        assert held.acquire()
        # At the new primary it lasts as long as its lease, for no connection comes with it.
        session = Lock(client, key + "s", session=True, lease=200).acquire()
        said = run(Lock(client, key, wait=200, token="next").acquire)
        eventually("it waits", lambda: waiting(client, key) == 1)
        server = fail_over(end)
        eventually("it waits there", lambda: server.waiters(key) == ["next"])
        assert held.held and held.release()
        assert said().release()
        assert session.held and session.owned() and session.release()
        session = Lock(client, key, session=True, lease=200, extend=False, wait=20).acquire()
        end_connection(session._session._connection._sock.getsockname(), [session._session._connection.port])
        assert session.lost.wait(10) and not session.release()


@ENDS
@pytest.mark.parametrize("by_line", [False, True])
def test_so_they_do_in_asyncio(sentinel, key, by_line, end):
    where, fail_over, _ = sentinel

    async def play(client, line):
        held = await AsyncLock(client, key, lease=200).acquire()
        session = await AsyncLock(client, key + "s", session=True, lease=200).acquire()
        lock = line.lock if line else lambda *keys, **options: AsyncLock(client, *keys, **options)
        said = asyncio.create_task(lock(key, wait=200, token="next").acquire())
        while await test_asyncio.waiting(client, key) != 1:
            await asyncio.sleep(0.01)
        server = await asyncio.to_thread(fail_over, end)
        await asyncio.to_thread(eventually, "it waits there", lambda: server.waiters(key) == ["next"])
        assert held.held and await held.release()
        assert await (await asyncio.wait_for(said, 60)).release()
        assert session.held and await session.owned() and await session.release()
        session = await AsyncLock(client, key, session=True, lease=200, extend=False, wait=20).acquire()
        connection = session._session._connection
        await asyncio.to_thread(end_connection, connection._writer.get_extra_info("sockname"), [connection.port])
        await asyncio.wait_for(session.lost.wait(), 10)
        assert not await session.release()

    async def body():
        async with redis.asyncio.sentinel.Sentinel([where]).master_for("shop") as client:
            if not by_line:
                return await play(client, None)
            async with Line(client) as line:
                await play(client, line)

    asyncio.run(body())


def test_no_call_hangs_where_no_sentinel_answers(sentinel, key):
    where, _, processes = sentinel

    async def body():
        with redis.sentinel.Sentinel([where]).master_for("shop") as client:
            async with redis.asyncio.sentinel.Sentinel([where]).master_for("shop") as of_tasks, Line(of_tasks) as line:
                hold = Lock(client, key, lease=200).acquire()
                other = await AsyncLock(of_tasks, key + "a", lease=200).acquire()
                for process in processes:
                    freeze(process)
                with ends_within(1, 3), pytest.raises(Unreachable):
                    Lock(client, key + "b", wait=1).acquire()
                for lock in AsyncLock(of_tasks, key + "b", wait=1), line.lock(key + "b", wait=1):
                    with ends_within(1, 3), pytest.raises(Unreachable):
                        await lock.acquire()
                with ends_within(0, 5.5), pytest.raises(Unreachable):
                    Stock(client).info(key)
                with ends_within(0, 5.5), pytest.raises(Unreachable):
                    await AsyncStock(of_tasks).info(key)
                with ends_within(4, 5.5), pytest.raises(NotReleased):
                    hold.release()
                with ends_within(4, 5.5), pytest.raises(NotReleased):
                    await other.release()

    asyncio.run(asyncio.wait_for(body(), 90))


def test_a_grant_counts_when_so_many_replicas_have_it(start, key):
    client, port = start(*LINES)
    replica, _ = start(*LINES, f"replicaof 127.0.0.1 {port}")
    eventually("it follows", lambda: replica.info("replication")["master_link_status"] == "up")
    eye = Eye(client)
    with Lock(client, key, replicas=1) as hold:
        assert Eye(replica).holders(key) == [hold.token]
        with pytest.raises(NotReplicated, match="on 1 replicas of 2"):
            Lock(client, key + "a", replicas=2).acquire()
        eye.until_free(key + "a")
        said = run(Lock(client, key, wait=60, replicas=1).acquire)
        eye.until_waiting(key, 1)
    hold = said()
    assert Eye(replica).holders(key) == [hold.token]
    hold.release()

    async def body():
        async with redis.asyncio.Redis(port=port) as client:
            async with AsyncLock(client, key, replicas=1) as hold:
                assert Eye(replica).holders(key) == [hold.token]
            with pytest.raises(NotReplicated):
                await AsyncLock(client, key, replicas=2, wait=1).acquire()

    asyncio.run(body())
    eye.until_free(key)
