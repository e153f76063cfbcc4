"""`Stock` and `AsyncStock`."""

import asyncio
import datetime
import time

import pytest
import redis
import test_asyncio
import test_locks
from conftest import bare_server
from lockstock import AsyncStock, Lock, LockstockError, ModuleMissing, NoSale, Refused, SaleExists, Stock, Unreachable


class Waited:
    """An `AsyncStock` of which the answers are waited for, so that both are tried with the same words."""

    def __init__(self, make):
        self.make = make

    def __getattr__(self, name):
        def call(*args, **options):
            async def play():
                client = self.make()
                try:
                    asked = getattr(AsyncStock(client), name)(*args, **options)
                    return [row async for row in asked] if name == "orders" else await asked
                finally:
                    await client.aclose()

            return asyncio.run(play())

        return call


@pytest.fixture(params=[f"{kind} {name}" for kind in ["plain", "asyncio"] for name in test_locks.CLIENTS])
def shop(request):
    """A plain client for the set-up, and the stock."""
    kind, _, name = request.param.partition(" ")
    with test_locks.CLIENTS[name]() as client:
        yield client, Stock(client) if kind == "plain" else Waited(test_asyncio.CLIENTS[name])


def test_the_way_of_an_order(shop, key):
    client, stock = shop
    assert stock.order(key, "order:1").status == "NOSTOCK"
    assert stock.create(key, 5, limit=2) is None
    held = stock.order(key, "order:1", 2, buyer="ann", hold=60, ref="cart:88")
    assert held[:3] == ("OK", 2, 3) and held.deadline > 0 and held.ref == "cart:88" and held.done
    again = stock.order(key, "order:1", 2, buyer="ann", hold=60)
    assert again.status == "DUPLICATE" and again.done and again.deadline == held.deadline
    assert stock.order(key, "order:2", buyer="ann").status == "LIMIT"
    assert stock.extend(key, "order:1", 120).deadline > held.deadline
    assert stock.confirm(key, "order:1")[:4] == ("OK", 2, 3, None)
    assert stock.look(key, "order:1") == ("order:1", "sold", 2, "ann", "cart:88", None, None)
    assert stock.look(key, "order:9") is None
    cancelled = stock.cancel(key, "order:1")
    assert cancelled.status == "OK" and cancelled.remaining == 5
    assert not stock.confirm(key, "order:1").done


def test_the_waitlist(shop, key):
    client, stock = shop
    stock.create(key, 1)
    assert stock.order(key, "ann", hold=60).done
    assert stock.order(key, "bob").status == "SOLDOUT"
    queued = stock.order(key, "bob", hold=60, waitlist=True)
    assert queued.status == "QUEUED" and not queued.done
    assert stock.look(key, "bob").state == "waiting" and stock.look(key, "bob").place == 1
    assert stock.cancel(key, "ann").done
    assert stock.order(key, "bob").status == "DUPLICATE"
    assert stock.confirm(key, "bob").done


def test_a_cart_is_all_or_none(shop, key):
    client, stock = shop
    mug, cup = key + "mug", key + "cup"
    stock.create(mug, 3)
    stock.create(cup, 1)
    cart = stock.order_all("order:1", {mug: 2, cup: 1}, buyer="ann", hold=60, ref="r")
    assert cart.done and cart.sales[mug].units == 2 and cart.sales[cup].remaining == 0
    assert stock.look(cup, "order:1")[:5] == ("order:1", "held", 1, "ann", "r")
    refused = stock.order_all("order:2", {mug: 1, cup: 1})
    assert refused.status == "SOLDOUT" and refused.sales[mug].status == "SKIPPED" and not refused.done
    assert stock.confirm_all("order:1", [mug, cup]).status == "OK"
    assert stock.confirm_all("order:1", [mug, cup]).status == "DUPLICATE"
    assert stock.cancel_all("order:1", [mug, cup]).done
    assert stock.look(mug, "order:1").state == "cancelled"


def test_errors_of_the_caller_are_raised(shop, key):
    client, stock = shop
    stock.create(key, 1)
    stock.order(key, "order:1", buyer="ann")
    with pytest.raises(Refused, match="another BUYER"):
        stock.order(key, "order:1", buyer="bob")
    with pytest.raises(SaleExists):
        stock.create(key, 1)
    with pytest.raises(NoSale):
        stock.alter(key + "a", limit=1)
    with pytest.raises(NoSale):
        stock.adjust(key + "a", 1)
    client.set(key + "b", "text")
    with pytest.raises(Refused, match="WRONGTYPE"):
        stock.look(key + "b", "order:1")


def test_a_request_that_was_lost_is_sent_again(server, key):
    server.client.execute_command("STOCK.CREATE", key, 5)
    with redis.Redis.from_url(test_locks.URL) as client:
        stock = Stock(client)
        assert stock.order(key, "order:0").done
        server.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert stock.order(key, "order:1").done
        assert stock.order(key, "order:1").remaining == 3


def test_a_sale_is_made_and_changed_and_looked_at(shop, key):
    client, stock = shop
    assert stock.info(key) is None and stock.buyer(key, "ann") is None and list(stock.orders(key)) == []
    begin = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    stock.create(key, 5, limit=2, start=begin, end=time.time() + 60, rebuy=True, stream=key + "events", deadlines=True)
    sale = stock.info(key)
    assert (sale.total, sale.remaining, sale.limit, sale.rebuy, sale.stream, sale.deadlines) == (5, 5, 2, True, key + "events", True)
    assert abs(sale.start - begin.timestamp()) < 0.01 and 50 < sale.end - time.time() <= 61
    stock.order(key, "order:1", 2, buyer="ann", hold=60)
    assert stock.buyer(key, "ann") == (2, 2)
    stock.alter(key, limit=0, start=0, end=0, rebuy=False)
    sale = stock.info(key)
    assert (sale.limit, sale.start, sale.end, sale.rebuy, sale.held) == (None, None, None, False, 2)
    assert stock.buyer(key, "ann") == (2, None)
    assert [stock.adjust(key, 3, id="delivery:7") for _ in range(2)] == [6, 6]
    assert stock.adjust(key, -1) == 5 and stock.info(key).total == 7
    assert sale.counters["ok"] == 1 and stock.info(key).seq == 3
    stock.alter(key, start=time.time() + 60)
    early = stock.order(key, "order:2")
    assert early.status == "NOTSTARTED" and 50 < early.deadline - time.time() <= 61


def test_some_of_an_order_is_kept(shop, key):
    _, stock = shop
    stock.create(key, 10)
    assert stock.order(key, "order:1", 3, hold=60).units == 3
    assert stock.confirm(key, "order:1", keep=2)[:3] == ("OK", 2, 8)
    assert stock.confirm(key, "order:1", keep=2)[:3] == ("DUPLICATE", 2, 8)
    assert stock.cancel(key, "order:1", keep=1)[:3] == ("OK", 1, 9)
    assert stock.cancel(key, "order:1", keep=1)[:3] == ("DUPLICATE", 1, 9)
    assert stock.look(key, "order:1").units == 1
    with pytest.raises(ValueError, match="keep is an int from 1"):
        stock.cancel(key, "order:1", keep=0)
    assert stock.cancel(key, "order:1")[:3] == ("OK", 0, 10)


def test_all_orders_are_iterated(shop, key):
    _, stock = shop
    stock.create(key, 12)
    for number in range(12):
        stock.order(key, f"order:{number}", ref=str(number), hold=None if number % 3 else 60)
    orders = list(stock.orders(key, count=5))
    assert {one.id for one in orders} == {f"order:{number}" for number in range(12)}
    held = list(stock.orders(key, state="held", count=5))
    assert len(held) == 4 and all(one.deadline > time.time() and one.units == 1 for one in held)


@pytest.mark.parametrize(
    "name, args, options, error, said",
    [
        ("order", ["", "order:1"], {}, ValueError, "a key must not be empty"),
        ("order", [None, "order:1"], {}, TypeError, "a key is"),
        ("order", ["sale", ""], {}, ValueError, "an id has from 1 to 512 bytes"),
        ("order", ["sale", 7], {}, TypeError, "an id is a str"),
        ("order", ["sale", "order:1", 0], {}, ValueError, "qty is an int from 1"),
        ("order", ["sale", "order:1", -1], {}, ValueError, "qty"),
        ("order", ["sale", "order:1"], {"hold": 0}, ValueError, "hold is a number of seconds above 0"),
        ("order", ["sale", "order:1"], {"buyer": ""}, ValueError, "a buyer"),
        ("order", ["sale", "order:1"], {"waitlist": "yes"}, TypeError, "waitlist is True or False"),
        ("order", ["sale", "order:1"], {"token": "x"}, TypeError, "token"),
        ("extend", ["sale", "order:1", 0], {}, ValueError, "hold"),
        ("create", ["sale", -1], {}, ValueError, "total"),
        ("create", ["sale", 1], {"limit": 0}, ValueError, "limit"),
        ("create", ["sale", 1], {"deadlines": True}, ValueError, "told in a stream"),
        ("create", ["sale", 1], {"start": datetime.datetime(2030, 1, 1)}, ValueError, "start needs a time zone"),
        ("create", ["sale", 1], {"start": "tomorrow"}, TypeError, "start"),
        ("alter", ["sale"], {}, TypeError, "name what is to change"),
        ("alter", ["sale"], {"end": 1_900_000_000_000}, ValueError, "end is in Unix seconds, not milliseconds"),
        ("adjust", ["sale", "3"], {}, TypeError, "delta is an int"),
        ("order_all", ["order:1", ["a", "b"]], {}, TypeError, "units are a mapping"),
        ("order_all", ["order:1", {}], {}, ValueError, "at least one"),
        ("order_all", ["order:1", {"a": 0}], {}, ValueError, "qty"),
        ("confirm_all", ["order:1", "ab"], {}, TypeError, "sales are a list of names, not 'ab'"),
        ("cancel_all", ["order:1", "ab"], {}, TypeError, "sales are a list"),
        ("cancel_all", ["order:1", ["a", "a"]], {}, ValueError, "once each"),
        ("confirm_all", ["order:1", [""]], {}, ValueError, "a sale has"),
    ],
)
def test_wrong_arguments_are_refused_at_once(name, args, options, error, said):
    for stock in Stock(redis.Redis(port=1)), AsyncStock(redis.asyncio.Redis(port=1)):
        with pytest.raises(error, match=said):
            getattr(stock, name)(*args, **options)


def test_a_state_that_does_not_exist():
    with pytest.raises(ValueError, match="state is one of"):
        next(Stock(redis.Redis(port=1)).orders("sale", state="paid"))


def test_an_error_has_the_names_of_both(gate):
    gate.close()
    with pytest.raises(Unreachable) as raised:
        Stock(redis.Redis(port=gate.port)).look("sale", "order:1")
    assert isinstance(raised.value, LockstockError) and isinstance(raised.value, redis.ConnectionError)
    assert isinstance(raised.value.__cause__, redis.ConnectionError)


def test_a_server_without_the_module_is_named(tmp_path):
    with bare_server(tmp_path) as client:
        with pytest.raises(ModuleMissing, match="loadmodule"):
            Stock(client).look("sale", "order:1")
        with pytest.raises(ModuleMissing, match="loadmodule"):
            Lock(client, "job", wait=5).acquire()
