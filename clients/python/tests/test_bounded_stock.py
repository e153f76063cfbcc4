"""Of sales, too: every answer is there in time, nothing is done twice, and what is no answer is said to be none."""

import asyncio
import contextlib
import socket
import threading

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio
from conftest import CLUSTER_URL, URL, ends_within, eventually, frozen
from lockstock import AsyncLock, AsyncStock, Lock, Stock, Unreachable
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ConstantBackoff
from redis.retry import Retry

pytestmark = pytest.mark.breaks

PATIENT = {"socket_timeout": 60, "socket_connect_timeout": 60}
# Clients whose own settings would keep their callers for minutes, or have everything asked over again.
CLIENTS = {
    "redis-py": lambda port: redis.Redis(port=port, retry=Retry(ConstantBackoff(1), 60), **PATIENT),
    "redis-py without a time-out": lambda port: redis.Redis(port=port, socket_timeout=None, socket_connect_timeout=None),
    "valkey-py": lambda port: valkey.Valkey(port=port, **PATIENT),
    "redis-py asyncio": lambda port: redis.asyncio.Redis(port=port, retry=AsyncRetry(ConstantBackoff(1), 60), **PATIENT),
    "valkey-py asyncio": lambda port: valkey.asyncio.Valkey(port=port, **PATIENT),
}
PORT = int(URL.rpartition(":")[2])
# Of every kind of request: reads, what has an id, and what is asked once.
REQUESTS = {
    "order": lambda stock, sale: stock.order(sale, "order:9"),
    "cart": lambda stock, sale: stock.order_all("order:9", {sale: 1}),
    "info": lambda stock, sale: stock.info(sale),
    "adjust": lambda stock, sale: stock.adjust(sale, 1),
}


def ask(client, request):
    """Of a `Stock`, or of an `AsyncStock` in a loop of its own."""
    if not hasattr(client, "__aenter__"):
        return request(Stock(client))

    async def play():
        async with client:
            return await request(AsyncStock(client))

    return asyncio.run(play())


@pytest.fixture(params=CLIENTS)
def make(request):
    return CLIENTS[request.param]


def together(*works):
    """What each of them raises; at a time, for each takes seconds."""
    said = [None] * len(works)

    def work(number):
        try:
            works[number]()
        except BaseException as error:
            said[number] = error

    threads = [threading.Thread(target=work, args=[number]) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def all_of(port, key):
    """Every request of every client."""

    def one(make, request):
        return lambda: ask(make(port), lambda stock: request(stock, key))

    return together(*(one(make, request) for make in CLIENTS.values() for request in REQUESTS.values()))


def are_of_both(said):
    assert [type(error).__name__ for error in said] == ["Unreachable"] * len(said)
    assert all(isinstance(error, Unreachable) and isinstance(error, (redis.RedisError, valkey.ValkeyError)) for error in said)


def test_a_frozen_server_keeps_nobody_for_more_than_five_seconds(server, key):
    server.client.execute_command("STOCK.CREATE", key, 5)
    with frozen(server.client), ends_within(4, 6):
        said = all_of(PORT, key)
    are_of_both(said)


def test_a_server_that_is_gone_neither(gate, key):
    gate.close()
    with ends_within(4, 6):
        said = all_of(gate.port, key)
    are_of_both(said)


def test_all_orders_are_iterated_in_time_or_not(server, key):
    async def play():
        async with redis.asyncio.Redis.from_url(URL, **PATIENT) as client:
            return [order async for order in AsyncStock(client).orders(key)]

    with frozen(server.client), ends_within(4, 6):
        said = together(lambda: list(Stock(redis.Redis.from_url(URL, **PATIENT)).orders(key)), lambda: asyncio.run(play()))
    assert [type(error).__name__ for error in said] == ["Unreachable"] * 2


def test_what_has_an_id_is_asked_again_and_done_once(server, gate, make, key):
    server.client.execute_command("STOCK.CREATE", key, 5)
    gate.lose_answers(b"STOCK.DECR_ONCE")
    assert ask(make(gate.port), lambda stock: stock.order(key, "order:1")).done
    gate.lose_answers(b"STOCK.ADJUST")
    assert ask(make(gate.port), lambda stock: stock.adjust(key, 2, id="delivery:7")) == 6
    assert ask(make(gate.port), lambda stock: stock.info(key)).total == 7


def test_what_has_none_is_asked_once(server, gate, make, key):
    gate.lose_answers(b"STOCK.CREATE")
    with pytest.raises(Unreachable):
        ask(make(gate.port), lambda stock: stock.create(key, 5))
    # The error may have been quicker than the server.
    eventually("it is made", lambda: ask(make(PORT), lambda stock: stock.info(key)))
    gate.lose_answers(b"STOCK.ADJUST")
    with pytest.raises(Unreachable):
        ask(make(gate.port), lambda stock: stock.adjust(key, 2))
    assert gate.losing is None
    eventually("it is adjusted", lambda: ask(make(PORT), lambda stock: stock.info(key)).total != 5)
    assert ask(make(PORT), lambda stock: stock.info(key)).total == 7


def test_a_guarded_command_neither(server, gate, key):
    """Whatever the client's settings are."""

    async def play():
        async with redis.asyncio.Redis(port=gate.port, retry=AsyncRetry(ConstantBackoff(0.1), 9)) as client:
            hold = await AsyncLock(client, key).acquire()
            gate.lose_answers(b"LOCK.GUARD")
            with pytest.raises(Unreachable):
                await hold.execute("INCR", key + "count")
            await hold.release()

    asyncio.run(play())
    # The error may have been quicker than the server.
    eventually("it has run", lambda: server.client.get(key + "count"))
    assert server.client.get(key + "count") == "1" and gate.losing is None


@contextlib.contextmanager
def talker(answer):
    """Answers everything with these bytes."""

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=talk, args=[connection], daemon=True).start()

    def talk(connection):
        with contextlib.suppress(OSError), connection:
            while connection.recv(65_536):
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


# No protocol, a number that is none, a text that is none, an answer of another form, and one within another without an end.
NONSENSE = [b"HTTP/1.1 400\r\n\r\n", b":12x\r\n", b"$zz\r\n", b"*a\r\n", b"+\xff\xfe\r\n", b"+OK\r\n", b":1\r\n", b"*1\r\n+OK\r\n", b"*1\r\n" * 5_000]


@pytest.mark.parametrize("answer", NONSENSE, ids=lambda answer: repr(answer[:12]))
def test_what_is_no_answer_is_told_by_an_error_of_the_package(answer, key):
    options = {"decode_responses": True, "protocol": 2}
    libraries = [(redis.Redis, redis.asyncio.Redis), (valkey.Valkey, valkey.asyncio.Valkey)]

    async def tasks(kind, port):
        async with kind(port=port, **options) as client:
            with pytest.raises(Unreachable):
                await AsyncStock(client).order(key, "order:1")
            with pytest.raises(Unreachable):
                await AsyncStock(client).info(key)
            with pytest.raises(Unreachable):
                await AsyncLock(client, key, wait=0.1).acquire()

    with talker(answer) as port:
        for plain, asynchronous in libraries:
            client = plain(port=port, **options)
            with pytest.raises(Unreachable):
                Stock(client).order(key, "order:1")
            with pytest.raises(Unreachable):
                Stock(client).info(key)
            with pytest.raises(Unreachable):
                Lock(client, key, wait=0.1).acquire()
            asyncio.run(asyncio.wait_for(tasks(asynchronous, port), 60))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_sale_that_is_moving_is_asked_where_it_goes(asynchronous, key):
    with redis.RedisCluster.from_url(CLUSTER_URL) as cluster:
        cluster.execute_command("STOCK.CREATE", key, 5)
        slot = cluster.keyslot(key)
        source = cluster.get_node_from_key(key)
        target = next(node for node in cluster.get_primaries() if node != source)
        here, there = map(cluster.get_redis_connection, [source, target])
        ids = [client.execute_command("CLUSTER", "MYID") for client in (here, there)]
        there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
        here.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
        try:
            here.migrate(target.host, target.port, [key], 0, 5_000)
            kind = redis.asyncio.RedisCluster if asynchronous else redis.RedisCluster
            assert ask(kind.from_url(CLUSTER_URL), lambda stock: stock.order(key, "order:1")).remaining == 4
            assert ask(kind.from_url(CLUSTER_URL), lambda stock: stock.adjust(key, 2)) == 6
        finally:
            for node in target, source, *cluster.get_primaries():
                cluster.get_redis_connection(node).execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
