"""`Lock` over redis-py and valkey-py."""

import math
import os
import signal
import threading
import time

import pytest
import redis
import valkey
from conftest import CLUSTER_URL, URL, end_connection, eventually, patiently
from lockstock import Lock, Lost, NotGranted

CLIENTS = {
    "redis-py": lambda **options: redis.Redis.from_url(URL, **options),
    "redis-py RESP2": lambda **options: redis.Redis.from_url(URL, protocol=2, **options),
    "redis-py cluster": lambda **options: redis.RedisCluster.from_url(CLUSTER_URL, **options),
    "valkey-py": lambda **options: valkey.Valkey.from_url(URL.replace("redis:", "valkey:"), **options),
    "valkey-py cluster": lambda **options: valkey.ValkeyCluster.from_url(
        CLUSTER_URL.replace("redis:", "valkey:"), **options
    ),
}


@pytest.fixture(params=CLIENTS)
def client(request):
    with CLIENTS[request.param]() as client:
        yield client


def run(function, *args):
    """A thread, with what it gave back or raised."""
    said = []

    def body():
        try:
            said.append(function(*args))
        except BaseException as error:
            said.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()

    def outcome():
        thread.join(60)
        return said[0]

    return outcome


def test_it_is_held_within_and_free_after(client, place, key):
    with Lock(client, key) as held:
        assert held.held and not held.lost.is_set() and held.fence > 0
        with pytest.raises(NotGranted):
            Lock(client, key).__enter__()
        first = held.fence
    assert not client.execute_command("EXISTS", key)
    with Lock(client, key, wait=5) as held:
        assert held.fence > first


def test_readers_permits_and_several_at_once(client, key):
    with Lock(client, key + "a", shared=True), Lock(client, key + "a", shared=True):
        assert not Lock(client, key + "a").acquire()
    with Lock(client, key + "a", limit=2), Lock(client, key + "a", limit=2):
        assert not Lock(client, key + "a", limit=2).acquire()
    with Lock(client, key + "a", key + "b", key + "a") as both:
        assert not Lock(client, key + "b").acquire()
        assert both.held
    assert not client.execute_command("EXISTS", key + "a", key + "b")


def test_waiters_come_in_order_each_over_a_connection_of_its_own(client, key):
    order = []

    def work(number):
        # The client's own read time-out is shorter than the wait.
        with Lock(client, key, wait=100) as held:
            order.append((number, held.fence))

    first = Lock(client, key)
    assert first.acquire()
    works = []
    for number in range(5):
        works.append(run(work, number))
        eventually("it waits", lambda n=number: waiting(client, key) == n + 1)
    assert first.release()
    assert [work() for work in works] == [None] * 5
    assert [number for number, _ in order] == list(range(5))
    assert [fence for _, fence in order] == sorted(fence for _, fence in order)


def fields(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def waiting(client, key):
    info = client.execute_command("LOCK.INFO", key)
    return fields(info)[b"waiting"] if info is not None else 0


def lease_of(client, key):
    """How many milliseconds the only hold has left."""
    return fields(fields(client.execute_command("LOCK.INFO", key))[b"holders"][0])[b"lease-ms"]


def test_a_wait_that_is_over_leaves_nothing(client, key):
    with Lock(client, key):
        begun = time.monotonic()
        with pytest.raises(NotGranted):
            Lock(client, key, wait=0.3).__enter__()
        assert 0.29 < time.monotonic() - begun < 10
        assert waiting(client, key) == 0


def test_a_wait_that_is_broken_off_is_withdrawn(client, key):
    def interrupt(*_):
        raise KeyboardInterrupt

    with Lock(client, key):
        def interrupt_it():
            eventually("it waits", lambda: waiting(client, key) == 1)
            os.kill(os.getpid(), signal.SIGALRM)

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                run(interrupt_it)
                Lock(client, key, wait=100).acquire()
        finally:
            signal.signal(signal.SIGALRM, before)
        assert waiting(client, key) == 0


def test_several_are_waited_for_together_and_left_together(client, key):
    with Lock(client, key + "b"):
        request = Lock(client, key + "a", key + "b", wait=100)
        said = run(request.acquire)
        eventually("it waits", lambda: waiting(client, key + "a") == 1)
        request.cancel()
        assert said() is None
        assert waiting(client, key + "a") == waiting(client, key + "b") == 0


def test_it_is_extended_while_it_is_held_and_no_longer(client, key):
    # Extended each second, so that a machine may keep all waiting for nearly two.
    with Lock(client, key, lease=3) as held, Lock(client, key + "a", key + "b", lease=3) as both:
        for lock, one in (held, key), (both, key + "b"):
            eventually("the lease runs", lambda k=one: lease_of(client, k) < 2_800)
            eventually("it is extended", lambda k=one: lease_of(client, k) > 2_800)
            assert lock.held and not lock.lost.is_set()
        assert not Lock(client, key).acquire()
    with pytest.raises(Lost):
        with Lock(client, key, lease=0.5, extend=False) as held:
            time.sleep(0.6)
            assert not held.held


def test_a_hold_that_is_taken_away_is_lost(client, key):
    with pytest.raises(Lost):
        with Lock(client, key, lease=1.5) as held:
            client.execute_command("DEL", key)
            assert held.lost.wait(20)
            assert not held.held
    # What the body raised is not hidden.
    with pytest.raises(KeyError):
        with Lock(client, key) as held:
            client.execute_command("DEL", key)
            raise KeyError


def test_a_session_ends_with_its_connection(client, key):
    held = Lock(client, key, session=True, wait=5, extend=False).acquire()
    held._session.drop()
    eventually("the session ends", lambda: not client.execute_command("EXISTS", key))
    with Lock(client, key, session=True):
        pass
    assert not client.execute_command("EXISTS", key)


@pytest.mark.parametrize("extend", [True, False])
def test_a_session_whose_connection_has_ended_is_lost_soon(client, key, extend):
    with Lock(client, key, session=True, wait=5, lease=60, extend=extend, token="one") as other:
        with pytest.raises(Lost), Lock(client, key + "a", session=True, wait=5, lease=60, extend=extend) as hold:
            time.sleep(1.5)
            assert hold.held and hold.owned()
            end_connection(hold._session._connection._sock.getsockname())
            assert hold.lost.wait(10) and not hold.held
            assert Lock(client, key + "a", wait=5).acquire().release()
        assert other.held and other.owned()


def test_a_hold_whose_key_has_another_value_is_lost(client, key):
    one, more = Lock(client, key, lease=60).acquire(), Lock(client, key + "a", key + "b", lease=60).acquire()
    kept = Lock(client, key + "c", lease=9).acquire()
    for name in key, key + "b", key + "c":
        client.delete(name)
        client.set(name, "text", nx=True)
    assert not one.owned() and not more.owned() and one.held
    assert not one.extend() and one.lost.is_set()
    assert not one.release() and not more.release()
    assert not client.exists(key + "a")
    assert kept.lost.wait(7)
    assert not kept.release()
    assert client.get(key) == client.get(key + "c") == b"text"


def test_two_tasks_that_wait_for_each_other_hear_of_it(client, key):
    one, two = (Lock(client, key + name, token=name) for name in "ab")
    assert one.acquire() and two.acquire()
    said = run(Lock(client, key + "b", token="a", wait=100).acquire)
    eventually("it waits", lambda: waiting(client, key + "b") == 1)
    with pytest.raises(Exception, match="DEADLOCK"):
        Lock(client, key + "a", token="b", wait=100).acquire()
    # The refusal took nothing from the refused token.
    assert two.release()
    assert said()


def test_errors_are_raised_and_not_waited_for(client, key):
    client.set(key, "text")
    with pytest.raises(Exception, match="WRONGTYPE"):
        Lock(client, key, wait=100).acquire()
    assert client.get(key) == b"text"


def test_a_connection_that_is_cut_is_made_again_and_the_place_kept(server, grace, key):
    with CLIENTS["redis-py"]() as client:
        first = Lock(client, key)
        assert first.acquire()
        waits = []
        for number in range(2):
            lock = Lock(client, key, wait=100, token=f"w{number}")
            waits.append((lock, run(lock.acquire)))
            server.until_waiting(key, number + 1)
        info = server.client.execute_command("LOCK.INFO", key)
        server.client.execute_command("CLIENT", "KILL", "ID", info["waiters"][0]["client"])
        eventually("it is back in its place", lambda: server.waiters(key) == ["w0", "w1"])
        first.release()
        for lock, said in waits:
            assert said().release()


def test_a_server_that_is_killed_is_asked_again(server, key):
    with CLIENTS["redis-py"]() as client:
        # In time for a server that takes a while to die and to come back.
        first = Lock(client, key, lease=30)
        assert first.acquire()
        said = run(Lock(client, key, wait=100, token="next").acquire)
        server.until_waiting(key, 1)
        with pytest.raises(redis.ConnectionError):
            redis.Redis.from_url(URL, retry=None, socket_timeout=None).execute_command("DEBUG", "SEGFAULT")
        eventually("it waits again", lambda: patiently(lambda: server.waiters(key)) == ["next"])
        # The hold was in the file.
        assert first.held and first.release()
        assert said()


def test_a_server_that_is_demoted_for_a_while_is_asked_again(server, key):
    with CLIENTS["redis-py"]() as client:
        first = Lock(client, key)
        assert first.acquire()
        said = run(Lock(client, key, wait=100, token="next").acquire)
        server.until_waiting(key, 1)
        demoted_for_a_while(server)
        server.until_waiting(key, 1)
        assert first.held and first.release()
        assert said()


def demoted_for_a_while(server):
    server.client.execute_command("REPLICAOF", "127.0.0.1", "1")
    eventually("nobody waits at a replica", lambda: server.client.info("lockstock")["lockstock_lock_waiters"] == 0)
    server.client.execute_command("REPLICAOF", "NO", "ONE")


def test_a_server_that_does_not_answer_costs_the_hold_and_says_so(server, key):
    with redis.Redis.from_url(URL, socket_timeout=0.2, retry=None) as client:
        held = Lock(client, key, lease=0.6)
        # On a busy machine the answer may take longer than this client waits.
        eventually("it is granted", lambda: patiently(held.acquire))
        server.client.execute_command("CLIENT", "PAUSE", 4_000, "ALL")
        assert held.lost.wait(3.8)
        assert not held.held
        server.client.execute_command("CLIENT", "UNPAUSE")


def test_a_wait_without_limit(client, key):
    first = Lock(client, key)
    assert first.acquire()
    said = run(Lock(client, key, wait=math.inf).acquire)
    eventually("it waits", lambda: waiting(client, key) == 1)
    first.release()
    assert said()
