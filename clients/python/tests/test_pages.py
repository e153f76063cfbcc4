"""The examples of the pages run as printed, but for the port."""

import pathlib
import re
import urllib.parse

import pytest
import redis
from conftest import URL

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
    # Those that only define something are tried here.
    with redis.Redis.from_url(URL) as client:
        if "lead" in names:
            assert names["lead"](client, lambda leadership: "enough" if leadership.held else None) is None
        if "run" in names:
            assert names["run"](client, lambda permit: permit.fence) > 0


def test_every_page_has_examples():
    assert {page for page, _, _ in BLOCKS} == set(PAGES)
