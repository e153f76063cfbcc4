"""What the server promises to clients as they are, without the help of this package: time-outs, resends, one connection for all."""

import asyncio
import concurrent.futures
import json
import statistics
import threading
import time

import pytest
import redis
import redis.asyncio
import test_asyncio
from conftest import URL, eventually
from lockstock import Line
from redis.backoff import NoBackoff
from redis.retry import Retry

pytestmark = pytest.mark.newest

PORT = int(URL.rpartition(":")[2])
# Twelve who each need the lock for 400 ms: the last one waits for more than one read time-out, and not for all that it has.
CONTENDERS = 12
WORK = 0.4
RETRIES = 20
# So many GETs are timed while all wait for a lock, and as many while it goes from hand to hand.
HALF = 100
IMPATIENT = {"socket_timeout": 3, "decode_responses": True}
# A release, unless a client reconnects just now: places are kept, but the next turn must not come while its owner is away.
RELEASE = """
    local all = string.find(redis.call('INFO', 'lockstock'), 'lock_vacant_places:0\\r')
    return all and redis.call('LOCK.RELEASE', KEYS[1], ARGV[1]) or 0
"""


def all_asked_just_now(server, key):
    """Whether nobody's time-out is near: a turn that comes with it may come before the server knows that its owner is away."""
    idle = {row["id"]: int(row["idle"]) for row in server.client.client_list()}
    info = server.client.execute_command("LOCK.INFO", key)
    return all(idle.get(str(row["client"]), 9) < 2 for row in info["waiters"])


def test_a_wait_that_timed_out_on_a_connection_that_is_kept_ends_with_a_release(server, key):
    with redis.Redis.from_url(URL) as client:
        client.execute_command("LOCK.ACQUIRE", key, "TOKEN", "holder")
        kept = redis.Connection(port=PORT)
        kept.send_command("LOCK.ACQUIRE", key, "TOKEN", "impatient", "WAIT", 60_000)
        with pytest.raises(redis.TimeoutError):
            kept.read_response(timeout=0.3, disconnect_on_error=False)
        server.until_waiting(key, 1)
        assert server.waiters(key) == ["impatient"]
        assert client.execute_command("LOCK.RELEASE", key, "impatient") == 0
        assert kept.read_response() is None
        client.execute_command("LOCK.RELEASE", key, "holder")
        server.until_free(key)
        kept.send_command("PING")
        assert kept.read_response() == b"PONG"
        kept.disconnect()


def test_so_it_does_in_asyncio(server, key):
    async def play():
        async with redis.asyncio.Redis.from_url(URL) as client:
            await client.execute_command("LOCK.ACQUIRE", key, "TOKEN", "holder")
            kept = redis.asyncio.Connection(port=PORT)
            await kept.connect()
            await kept.send_command("LOCK.ACQUIRE", key, "TOKEN", "impatient", "WAIT", 60_000)
            # Not in time: redis-py says None, and the connection stays.
            assert await kept.read_response(timeout=0.3, disconnect_on_error=False) is None
            server.until_waiting(key, 1)
            assert server.waiters(key) == ["impatient"]
            assert await client.execute_command("LOCK.RELEASE", key, "impatient") == 0
            assert await kept.read_response() is None
            # A task that is cancelled closes its connection.
            asked = client.execute_command("LOCK.ACQUIRE", key, "TOKEN", "cancelled", "WAIT", 60_000)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asked, 0.3)
            await client.execute_command("LOCK.RELEASE", key, "cancelled")
            await client.execute_command("LOCK.RELEASE", key, "holder")
            await kept.disconnect()

    asyncio.run(play())
    server.until_free(key)


def test_contenders_that_time_out_and_resend_are_served_in_the_order_of_their_first_asking(server, grace, key):
    order = []

    def contend(number):
        retry = Retry(NoBackoff(), RETRIES)
        with redis.Redis.from_url(URL, retry=retry, **IMPATIENT) as client:
            words = ["LOCK.ACQUIRE", key, "TOKEN", f"c{number}", "PX", 30_000, "WAIT", 60_000]
            if client.execute_command(*words) is not None:
                order.append(number)
                time.sleep(WORK)
                words = [RELEASE, 1, key, f"c{number}"]
                eventually("it is released", lambda: all_asked_just_now(server, key) and client.eval(*words))

    threads = [threading.Thread(target=contend, args=[number]) for number in range(CONTENDERS)]
    for number, thread in enumerate(threads):
        thread.start()
        eventually("it asks", lambda n=number: n in order or f"c{n}" in server.waiters(key))
    for thread in threads:
        thread.join()
    assert order == list(range(CONTENDERS))
    server.until_free(key)


def test_so_they_are_in_asyncio(server, grace, key):
    order = []

    async def contend(number):
        async with redis.asyncio.Redis.from_url(URL, retry=asyncio_retry(), **IMPATIENT) as client:
            words = ["LOCK.ACQUIRE", key, "TOKEN", f"c{number}", "PX", 30_000, "WAIT", 60_000]
            if await client.execute_command(*words) is not None:
                order.append(number)
                await asyncio.sleep(WORK)

                async def is_released():
                    return all_asked_just_now(server, key) and await client.eval(RELEASE, 1, key, f"c{number}")

                await test_asyncio.eventually("it is released", is_released)

    async def play():
        tasks = []
        for number in range(CONTENDERS):
            tasks.append(asyncio.create_task(contend(number)))
            while not (number in order or f"c{number}" in server.waiters(key)):
                await asyncio.sleep(0.005)
        await asyncio.gather(*tasks)

    asyncio.run(play())
    assert order == list(range(CONTENDERS))
    server.until_free(key)


def asyncio_retry():
    from redis.asyncio.retry import Retry as AsyncRetry

    return AsyncRetry(NoBackoff(), RETRIES)


def are_quick(play, key):
    """Has `play` time GETs over the connection by which others wait, each with one beside it over another, so that what keeps the whole
    machine waiting counts for neither. If it was kept waiting all the same, the play is repeated.

    While all wait, hardly a single GET is held up, or as many beside. While the lock goes from hand to hand, the connection has the
    releases to carry, too, and how soon this process gets to send them is the machine's affair: that counts as a whole."""
    for again in range(5):
        pairs = play(f"{key}{again}")
        waiting, going = pairs[: HALF + 1], pairs[HALF + 1 :]
        held_up = sum(is_held_up(ours, other) - is_held_up(other, ours) for ours, other in waiting)
        medians = [[statistics.median(times) for times in zip(*half)] for half in (waiting, going)]
        if held_up <= 1 and not any(is_held_up(*both) for both in medians):
            return
    raise AssertionError((held_up, medians))


def is_held_up(ours, other):
    return ours > 5 and other < ours / 2


def test_fifty_threads_wait_over_one_connection_and_get_beside_them_is_quick(server, key):
    are_quick(lambda key: fifty_threads(server, key), key)


def fifty_threads(server, key):
    order, pairs, threads = [], [], []
    granted = {f"t{number}": threading.Event() for number in range(50)}

    def hear(message):
        said = json.loads(message["data"])
        assert said["event"] == "granted" and said["key"] == key
        granted[said["token"]].set()

    with redis.Redis.from_url(URL, single_connection_client=True) as client, redis.Redis.from_url(URL) as beside:
        shared = client.execute_command("CLIENT", "ID")
        hears = beside.pubsub(ignore_subscribe_messages=True)
        hears.subscribe(**{key: hear})
        listener = hears.run_in_thread(sleep_time=0.01)

        def work(token):
            words = ["LOCK.ACQUIRE", key, "TOKEN", token, "PX", 30_000, "WAIT", 30_000, "NOTIFY", key]
            place = client.execute_command(*words)
            assert isinstance(place, int) and granted[token].wait(30)
            order.append(token)
            time.sleep(0.005)
            assert client.execute_command("LOCK.RELEASE", key, token) == 1

        def timed(client):
            begun = time.perf_counter()
            client.execute_command("GET", "key")
            return (time.perf_counter() - begun) * 1000

        client.execute_command("LOCK.ACQUIRE", key, "TOKEN", "first")
        for token in granted:
            threads.append(threading.Thread(target=work, args=[token]))
            threads[-1].start()
            eventually("it waits", lambda t=token: t in server.waiters(key))
        rows = server.client.execute_command("LOCK.INFO", key)["waiters"]
        assert {row["client"] for row in rows} == {shared}
        with concurrent.futures.ThreadPoolExecutor(2) as both:
            for round in range(2 * HALF):
                pairs.append(tuple(both.map(timed, [client, beside])))
                if round == HALF:
                    client.execute_command("LOCK.RELEASE", key, "first")
        for thread in threads:
            thread.join()
        listener.stop()
        listener.join()
    assert order == list(granted)
    return pairs


def test_fifty_tasks_wait_over_one_connection_and_get_beside_them_is_quick(server, key):
    are_quick(lambda key: fifty_tasks(server, key), key)


def fifty_tasks(server, key):
    order, pairs = [], []

    async def timed(client):
        begun = time.perf_counter()
        await client.execute_command("GET", "key")
        return (time.perf_counter() - begun) * 1000

    async def play():
        async with redis.asyncio.Redis.from_url(URL) as client, Line(client) as line:
            beside = redis.asyncio.Redis.from_url(URL)
            shared = await line.execute_command("CLIENT", "ID")
            first = line.lock(key)
            assert await first.acquire()

            async def work(number):
                async with line.lock(key, wait=30):
                    order.append(number)
                    await asyncio.sleep(0.005)

            tasks = []
            for number in range(50):
                tasks.append(asyncio.create_task(work(number)))
                while len(server.waiters(key)) <= number:
                    await asyncio.sleep(0)
            rows = server.client.execute_command("LOCK.INFO", key)["waiters"]
            assert {row["client"] for row in rows} == {shared}
            for round in range(2 * HALF):
                pairs.append(await asyncio.gather(timed(line), timed(beside)))
                if round == HALF:
                    await first.release()
            await asyncio.gather(*tasks)
            await beside.aclose()

    asyncio.run(play())
    assert order == list(range(50))
    return pairs
