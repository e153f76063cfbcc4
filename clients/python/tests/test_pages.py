"""The examples of the pages run as printed, but for the port."""

import pathlib
import re
import sys
import urllib.parse

import pytest
import redis.asyncio
import valkey
from conftest import URL

pytestmark = pytest.mark.newest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = ["clients/python/README.md", "docs/clients.md"]
PORT = urllib.parse.urlsplit(URL).port
BLOCKS = [
    (page, number, block)
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S))
]

# What each prints, in order.
SAYS = {
    ("clients/python/README.md", 0): ["job:42 is ours: True", "OK", "DUPLICATE", "SOLDOUT", "OK"],
    ("clients/python/README.md", 1): ["50 in turn"],
    ("clients/python/README.md", 2): ["OK {'{trip:9}there': 0, '{trip:9}back': 0}", "QUEUED", "1", "sold"],
}


@pytest.mark.parametrize("page, number, block", BLOCKS, ids=[f"{page}-{number}" for page, number, _ in BLOCKS])
def test_it_runs_as_printed(page, number, block, capsys):
    redis.Redis.from_url(URL).flushall()
    names = {"__name__": "example"}
    exec(block.replace(".Redis()", f".Redis(port={PORT})"), names)
    assert capsys.readouterr().out.splitlines() == SAYS.get((page, number), [])
    # Programs that only define a function are tried here.
    with redis.Redis.from_url(URL) as client:
        if "lead" in names:
            assert names["lead"](client, lambda leadership: "enough" if leadership.held else None) is None
        if "run" in names:
            assert names["run"](client, lambda permit: permit.fence) > 0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there the newest valkey-py is an older one")
def test_the_table_of_clients_knows_these_libraries():
    page = (ROOT / "docs/clients.md").read_text()
    names = [f"{module.__name__}-py {module.__version__.rpartition('.')[0]}" for module in (redis, valkey)]
    [row] = [line for line in page.splitlines() if line.startswith(f"| {', '.join(names)} |")]
    plain, of_tasks = (client.connection_pool.make_connection() for client in (redis.Redis(), redis.asyncio.Redis()))
    assert plain.socket_timeout == of_tasks.socket_timeout == 5 and plain.retry.get_retries() == 10
    assert valkey.Valkey().connection_pool.make_connection().socket_timeout is None
    assert "`socket_timeout`, 5 s (valkey-py: none)" in row and "yes, 10 times (valkey-py: no)" in row


def test_every_page_has_examples():
    assert {page for page, _, _ in BLOCKS} == set(PAGES)
