"""What is wrong is refused where it is made, at run time and by those who check types."""

import math
import pathlib
import re
import subprocess
import sys

import pytest
import redis
import redis.asyncio
import valkey.asyncio
from lockstock import AsyncLock, AsyncStock, Line, Lock, Stock

PLAIN, TASKS = redis.Redis(), redis.asyncio.Redis()


@pytest.mark.parametrize(
    "keys, options, error, said",
    [
        ([], {}, TypeError, "needs a key"),
        ([""], {}, ValueError, "must not be empty"),
        ([b""], {}, ValueError, "must not be empty"),
        ([None], {}, TypeError, "a key is a str or bytes, not None"),
        (["job", 30], {}, TypeError, "not 30; times have names, as in lease=30"),
        ([["a", "b"]], {}, TypeError, "several are given one by one"),
        (["job"], {"lease": 0}, ValueError, "lease is a number of seconds above 0, not 0"),
        (["job"], {"lease": -1}, ValueError, "lease"),
        (["job"], {"lease": math.inf}, ValueError, "lease"),
        (["job"], {"lease": math.nan}, ValueError, "lease"),
        (["job"], {"lease": "30"}, TypeError, "lease is a number of seconds, not '30'"),
        (["job"], {"lease": None}, TypeError, "lease"),
        (["job"], {"wait": -1}, ValueError, "wait is a number of seconds from 0, not -1"),
        (["job"], {"wait": None}, TypeError, "wait"),
        (["job"], {"wait": True}, TypeError, "wait"),
        (["job"], {"limit": 0}, ValueError, "limit is an int from 1"),
        (["job"], {"limit": 2.5}, TypeError, "limit"),
        (["job"], {"limit": True}, TypeError, "limit"),
        (["job"], {"limit": 2, "shared": True}, ValueError, "shared and limit"),
        (["job"], {"shared": "yes"}, TypeError, "shared is True or False"),
        (["a", "b"], {"shared": True}, ValueError, "several keys"),
        (["a", "b"], {"limit": 2}, ValueError, "several keys"),
        (["job"], {"token": ""}, ValueError, "a token has from 1 to 512 bytes"),
        (["job"], {"token": "x" * 513}, ValueError, "512"),
        (["job"], {"token": 7}, TypeError, "a token is a str"),
        (["job"], {"replicas": -1}, ValueError, "replicas"),
        (["job"], {"session": 1}, TypeError, "session"),
        (["job"], {"extend": None}, TypeError, "extend"),
        (["job"], {"timeout": 30}, TypeError, "timeout"),
    ],
)
def test_a_lock(keys, options, error, said):
    for make, client in (Lock, PLAIN), (AsyncLock, TASKS), (Line(TASKS).lock, None):
        if client is None and options.keys() & {"replicas", "session"}:
            continue
        with pytest.raises(error, match=said):
            make(*([client] if client is not None else []), *keys, **options)


@pytest.mark.parametrize("option", ["session", "replicas"])
def test_what_a_line_cannot_do_it_does_not_take(option):
    with pytest.raises(TypeError, match=option):
        Line(TASKS).lock("job", **{option: 1})


def test_a_time_that_is_given_later():
    with pytest.raises(ValueError, match="wait"):
        Lock(PLAIN, "job").acquire(-1)


@pytest.mark.parametrize("kind", [Lock, AsyncLock, Stock, AsyncStock, Line])
@pytest.mark.parametrize(
    "client",
    [
        None,
        "redis://localhost",
        6379,
        redis.ConnectionPool(),
        PLAIN.pipeline(),
        TASKS.pipeline(),
        PLAIN.pubsub(),
        TASKS.pubsub(),
        valkey.asyncio.Valkey().pubsub(),
    ],
)
def test_what_is_no_client(kind, client):
    with pytest.raises(TypeError, match="needs a client"):
        kind(client, *(["job"] if kind in (Lock, AsyncLock) else []))


@pytest.mark.parametrize("client", [TASKS, valkey.asyncio.Valkey()])
def test_a_client_of_the_other_kind(client):
    with pytest.raises(TypeError, match="there is AsyncLock"):
        Lock(client, "job")
    with pytest.raises(TypeError, match="there is AsyncStock"):
        Stock(client)
    with pytest.raises(TypeError, match="for a plain one there is Lock"):
        AsyncLock(PLAIN, "job")
    with pytest.raises(TypeError, match="for a plain one there is Stock"):
        AsyncStock(PLAIN)


@pytest.mark.parametrize("stock", [Stock(PLAIN), AsyncStock(TASKS)], ids=["plain", "tasks"])
@pytest.mark.parametrize(
    "sale, options, error, said",
    [
        ("", {}, ValueError, "must not be empty"),
        (7, {}, TypeError, "a key is a str or bytes, not 7"),
        ("sale", {"state": "paid"}, ValueError, "state is one of"),
        ("sale", {"count": 0}, ValueError, "count is an int from 1"),
    ],
)
def test_orders_that_are_never_asked_for(stock, sale, options, error, said):
    """At once, and not with the first of them."""
    with pytest.raises(error, match=said):
        stock.orders(sale, **options)


HERE = pathlib.Path(__file__).parent
RIGHT, WRONG = HERE / "typed_right.py", HERE / "typed_wrong.py"


def lines_refused(said, file):
    return {int(number) for number in re.findall(rf"^.*{file.name}:(\d+):.*error", said, re.M)}


@pytest.mark.newest
@pytest.mark.static
@pytest.mark.parametrize(
    "checker",
    [["mypy", "--strict", "--no-error-summary", "--cache-dir=/dev/null"], ["pyright", "--pythonpath", sys.executable]],
    ids=["mypy", "pyright"],
)
def test_right_programs_are_taken_and_each_wrong_line_is_refused(checker):
    program = pathlib.Path(sys.executable).parent / checker[0]
    checked = subprocess.run([program, *checker[1:], RIGHT, WRONG], capture_output=True, text=True, cwd=HERE)
    assert lines_refused(checked.stdout, RIGHT) == set(), checked.stdout
    wrong = {number for number, line in enumerate(WRONG.read_text().splitlines(), 1) if line.endswith("# wrong")}
    assert lines_refused(checked.stdout, WRONG) == wrong, checked.stdout
