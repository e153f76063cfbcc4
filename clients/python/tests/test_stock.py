"""`Stock` and `AsyncStock`."""

import asyncio

import pytest
import redis
import test_asyncio
import test_locks
from lockstock import AsyncStock, Stock


class Waited:
    """An `AsyncStock` of which the answers are waited for, so that both are tried with the same words."""

    def __init__(self, make):
        self.make = make

    def __getattr__(self, name):
        def call(*args, **options):
            async def play():
                client = self.make()
                try:
                    return await getattr(AsyncStock(client), name)(*args, **options)
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
    client.execute_command("STOCK.CREATE", key, 5, "LIMIT", 2)
    held = stock.order(key, "order:1", 2, buyer="ann", hold=60, ref="cart:88")
    assert held[:3] == ("OK", 2, 3) and held.deadline > 0 and held.ref == "cart:88" and held.done
    again = stock.order(key, "order:1", 2, buyer="ann", hold=60)
    assert again.status == "DUPLICATE" and again.done and again.deadline == held.deadline
    assert stock.order(key, "order:2", buyer="ann").status == "LIMIT"
    assert stock.extend(key, "order:1", 120).deadline > held.deadline
    assert stock.confirm(key, "order:1")[:4] == ("OK", 2, 3, -1)
    assert stock.look(key, "order:1") == {"state": "sold", "units": 2, "buyer": "ann", "ref": "cart:88", "deadline": -1}
    assert stock.look(key, "order:9") is None
    cancelled = stock.cancel(key, "order:1")
    assert cancelled.status == "OK" and cancelled.remaining == 5
    assert not stock.confirm(key, "order:1").done


def test_the_waitlist(shop, key):
    client, stock = shop
    client.execute_command("STOCK.CREATE", key, 1)
    assert stock.order(key, "ann", hold=60).done
    assert stock.order(key, "bob").status == "SOLDOUT"
    queued = stock.order(key, "bob", hold=60, waitlist=True)
    assert queued.status == "QUEUED" and not queued.done
    assert stock.look(key, "bob")["state"] == "waiting" and stock.look(key, "bob")["place"] == 1
    assert stock.cancel(key, "ann").done
    assert stock.order(key, "bob").status == "DUPLICATE"
    assert stock.confirm(key, "bob").done


def test_a_cart_is_all_or_none(shop, key):
    client, stock = shop
    mug, cup = key + "mug", key + "cup"
    client.execute_command("STOCK.CREATE", mug, 3)
    client.execute_command("STOCK.CREATE", cup, 1)
    cart = stock.order_all("order:1", {mug: 2, cup: 1}, buyer="ann", hold=60, ref="r")
    assert cart.done and cart.sales[mug].units == 2 and cart.sales[cup].remaining == 0
    refused = stock.order_all("order:2", {mug: 1, cup: 1})
    assert refused.status == "SOLDOUT" and refused.sales[mug].status == "SKIPPED" and not refused.done
    assert stock.confirm_all("order:1", [mug, cup]).status == "OK"
    assert stock.confirm_all("order:1", [mug, cup]).status == "DUPLICATE"
    assert stock.cancel_all("order:1", [mug, cup]).done
    assert stock.look(mug, "order:1")["state"] == "cancelled"


def test_errors_of_the_caller_are_raised(shop, key):
    client, stock = shop
    client.execute_command("STOCK.CREATE", key, 1)
    stock.order(key, "order:1", buyer="ann")
    with pytest.raises(Exception, match="another BUYER"):
        stock.order(key, "order:1", buyer="bob")


def test_a_request_that_was_lost_is_sent_again(server, key):
    server.client.execute_command("STOCK.CREATE", key, 5)
    with redis.Redis.from_url(test_locks.URL) as client:
        stock = Stock(client)
        assert stock.order(key, "order:0").done
        server.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert stock.order(key, "order:1").done
        assert stock.order(key, "order:1").remaining == 3
