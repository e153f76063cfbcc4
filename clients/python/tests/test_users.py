"""The users of docs/operations.md can do their work with this package, on one server and in a cluster."""

import asyncio
import pathlib
import re
import urllib.parse

import pytest
import redis
import redis.asyncio
from conftest import CLUSTER_URL, URL

from lockstock import AsyncLock, Line, Lock, Stock

pytestmark = pytest.mark.newest

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs/operations.md").read_text()
RULES = {name: rules.split() for name, rules in re.findall(r"^user (\w+) (.*)$", PAGE, re.M)}
IN_A_CLUSTER = re.search(r"give each user `([^`]*)`", PAGE.replace("\n", " "))[1].split()


@pytest.fixture(params=["alone", "cluster"])
def connect(request):
    """Makes the users, and returns what connects as one of them."""
    if request.param == "alone":
        url, kind, more, everywhere = URL, (redis.Redis, redis.asyncio.Redis), [], {}
    else:
        url, kind, more = CLUSTER_URL, (redis.RedisCluster, redis.asyncio.RedisCluster), IN_A_CLUSTER
        everywhere = {"target_nodes": redis.RedisCluster.ALL_NODES}
    admin = kind[0].from_url(url)
    for name, rules in RULES.items():
        admin.execute_command("ACL", "SETUSER", name, "reset", *rules, *more, **everywhere)
    at = urllib.parse.urlsplit(url)

    def connect(name, synchronous=True):
        return kind[0 if synchronous else 1](
            host=at.hostname, port=at.port, username=name, password=f"{name}-password", decode_responses=True
        )

    yield connect
    admin.execute_command("ACL", "DELUSER", *RULES, **everywhere)


def test_a_worker_locks(connect):
    with Lock(connect("worker"), "job:users", wait=5, session=True) as held:
        assert held.held
    with Lock(connect("worker"), "job:{users}:1", "job:{users}:2", wait=5) as held:
        assert held.held


def test_a_worker_locks_with_asyncio(connect):
    async def work():
        client = connect("worker", synchronous=False)
        async with AsyncLock(client, "job:users", wait=5) as held:
            assert held.held
        if isinstance(client, redis.asyncio.Redis):
            async with Line(client) as line, line.lock("job:users", wait=5) as held:
                assert held.held
        await client.aclose()

    asyncio.run(work())


def test_a_shop_sells_what_the_operator_offers(connect):
    operator, stock = connect("operator"), Stock(connect("shop"))
    operator.execute_command("STOCK.CREATE", "sale:{users}", 2, "STREAM", "events:{users}")
    try:
        assert stock.order("sale:{users}", "order:1", hold=60).status == "OK"
        assert stock.confirm("sale:{users}", "order:1").status == "OK"
        assert stock.look("sale:{users}", "order:1").state == "sold"
        assert stock.order_all("order:2", {"sale:{users}": 1}).status == "OK"
        assert stock.cancel_all("order:2", ["sale:{users}"]).status == "OK"
    finally:
        operator.delete("sale:{users}", "events:{users}")
