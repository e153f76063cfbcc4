"""What is done only while the lock is held, and holds that go from hand to hand."""

import asyncio

import pytest
import redis
import redis.asyncio
from conftest import URL
from lockstock import AsyncLock, Line, Lock, ModuleMissing, NotHeld, Refused, Unreachable
from test_impatient import play
from test_locks import CLIENTS


@pytest.fixture(params=CLIENTS)
def client(request):
    with CLIENTS[request.param]() as client:
        yield client


def test_a_command_runs_only_while_the_lock_is_held(client, key):
    lock = Lock(client, key)
    with pytest.raises(NotHeld):
        lock.guard("PING")
    with lock as hold:
        assert hold.execute("SET", key + "report", "draft") is client.set(key + "x", 1)
        assert hold.execute("HSET", key + "hash", "field", 7) == 1
        assert lock.guard(b"HGETALL", key + "hash") == client.hgetall(key + "hash") == {b"field": b"7"}
        with pytest.raises(Refused, match="WRONGTYPE"):
            hold.execute("GET", key + "hash")
        with pytest.raises(Refused, match="wrong number"):
            hold.execute("GET")
        with pytest.raises(Refused, match="unknown command .SETT") as raised:
            hold.execute("SETT", key + "report", "late")
        assert not isinstance(raised.value, ModuleMissing)
        with pytest.raises(TypeError, match="a command is needed"):
            hold.execute()
        for wrong in [7], ["SET", key + "report", None], ["SET", key + "report", ["late"]], ["SET", key + "report", True]:
            with pytest.raises(TypeError, match="is a str, bytes or a number, not"):
                hold.execute(*wrong)
        assert hold.held
    with pytest.raises(NotHeld, match="NOTHELD"):
        hold.execute("SET", key + "report", "late")
    assert client.get(key + "report") == b"draft"


def test_a_hold_that_turns_out_to_be_over_is_lost(client, key):
    lock = Lock(client, key)
    hold = lock.acquire()
    client.delete(key)
    with pytest.raises(NotHeld):
        lock.guard("SET", key + "report", "late")
    assert hold.lost.is_set() and not hold.held and client.get(key + "report") is None
    assert lock.release() is False


def test_of_several_locks_the_first_counts(client, key):
    with Lock(client, key + "a", key + "b") as hold:
        assert hold.execute("INCR", key + "count") == 1


def test_of_tasks_and_by_a_line(key):
    async def body(client):
        async with AsyncLock(client, key) as hold:
            assert await hold.execute("SET", key + "report", "draft") is True
        with pytest.raises(NotHeld):
            await hold.execute("SET", key + "report", "late")
        async with Line(client) as line, line.lock(key) as hold:
            assert await hold.execute("HGETALL", key + "none") == {}
            with pytest.raises(TypeError, match="not None"):
                await hold.execute("SET", key + "report", None)
        lock = AsyncLock(client, key)
        with pytest.raises(NotHeld):
            await lock.guard("PING")
        async with lock:
            assert await lock.guard("GET", key + "report") == b"draft"

    play(body)


def test_what_may_have_run_is_not_asked_again(server, gate, key):
    with redis.Redis(port=gate.port) as client:
        hold = Lock(client, key, lease=60).acquire()
        assert hold.execute("INCR", key + "count") == 1
        gate.hold_up(b"LOCK.GUARD")
        with pytest.raises(Unreachable):
            hold.execute("INCR", key + "count")
        gate.go.set()
        assert hold.owned()
        assert int(server.client.get(key + "count")) <= 2
        hold.release()


def test_a_hold_is_handed_over(client, key):
    """As from a web server to a worker that does the job."""
    with Lock(client, key, lease=30) as first:
        token, fence = first.hand_over()
        assert not first.held and first.release() is False
    assert Lock(client, key).locked()
    assert Lock(client, key).take_over(token, fence + 1) is None
    second = Lock(client, key, lease=60).take_over(token, fence)
    assert second.held and second.owned() and second.fence == fence
    assert not first.owned() or second.release()
    assert Lock(client, key).take_over(token, fence) is None
    with Lock(client, key, session=True) as hold:
        with pytest.raises(ValueError, match="session"):
            hold.hand_over()


def test_so_it_is_by_tasks(key):
    async def body(client):
        token, fence = (await AsyncLock(client, key).acquire()).hand_over()
        hold = await AsyncLock(client, key).take_over(token, fence)
        assert hold.held and await hold.owned() and await hold.release()
        assert await AsyncLock(client, key).take_over(token, fence) is None

    play(lambda client: asyncio.wait_for(body(client), 60))


@pytest.mark.parametrize("of_task", [False, True])
@pytest.mark.parametrize("value", [None, "text"])
def test_of_several_keys_of_which_one_was_taken_away_none_is_kept(server, key, value, of_task):
    client, keys = server.client, (key + "a", key + "b")
    token, fence = Lock(client, *keys, lease=900).acquire().hand_over()
    client.delete(keys[1])
    if value is not None:
        client.set(keys[1], value)
    if of_task:
        play(lambda client: take_over(client, keys, token, fence))
    else:
        assert Lock(client, *keys).take_over(token, fence) is None
    assert server.holders(keys[0]) == []


async def take_over(client, keys, token, fence):
    assert await AsyncLock(client, *keys).take_over(token, fence) is None


def test_a_release_ends_the_hold_of_its_fence_and_no_other(server, client, key):
    """One token for two processes, or for a task that lost its hold and has another."""
    first = Lock(client, key, token="me").acquire()
    client.delete(key)
    with redis.Redis.from_url(URL) as process:
        second = Lock(process, key, token="me").acquire()
    assert first.release() is False and not first.extend() and not first.owned()
    assert second.owned() and second.release() is True
