"""Fit to be published: what is built, what it says of itself, and that it costs no more than what it replaces."""

import email
import importlib.metadata
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
import zipfile

import lockstock
import pytest
import redis
from conftest import URL
from lockstock import Lock

pytestmark = pytest.mark.newest

HERE = pathlib.Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source distribution, of a copy, so that nothing is left behind."""
    where = tmp_path_factory.mktemp("build")
    shutil.copytree(HERE, where / "python", ignore=shutil.ignore_patterns("build", "*.egg-info", "tests"))
    subprocess.run([sys.executable, "-m", "build", "--outdir", where / "dist", where / "python"], check=True, capture_output=True)
    return sorted((where / "dist").iterdir())


@pytest.mark.static
def test_what_is_built_may_be_uploaded(built):
    checked = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *built], capture_output=True, text=True)
    assert checked.returncode == 0 and checked.stdout.count("PASSED") == 2, checked.stdout
    wheel, source = built
    assert (wheel.name, source.name) == (f"lockstock-{lockstock.__version__}-py3-none-any.whl", f"lockstock-{lockstock.__version__}.tar.gz")
    modules = {path.name for path in (HERE / "lockstock").glob("*.py")}
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.rpartition("/")[2] for name in names if name.startswith("lockstock/")} == modules | {"py.typed"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    with tarfile.open(source) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.getnames())
    [metadata] = [name for name in names if name.endswith("METADATA")]
    said = email.message_from_bytes(zipfile.ZipFile(wheel).read(metadata))
    assert said["License-Expression"] == "MIT" and said["Author"] and said["Requires-Python"] == ">=3.10"
    assert "Distributed locks" in said.get_payload()


def test_versions_and_licences_agree():
    workspace = re.search(r'\[workspace.package\]\nversion = "(.*?)"', (ROOT / "Cargo.toml").read_text())[1]
    assert lockstock.__version__ == importlib.metadata.version("lockstock") == workspace
    assert (HERE / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_names_are_documented():
    for name in set(lockstock.__all__) - {"State", "Status"}:
        assert getattr(lockstock, name).__doc__, name
        assert re.search(rf"\b{name}\b", (HERE / "README.md").read_text()), name


def test_a_lock_that_is_free_costs_no_more_than_one_of_redis_py(key):
    """In turns, so that what else the machine does counts for both; processor time of this process, for that is what the package adds."""

    def cost(make):
        begun = time.process_time()
        for _ in range(200):
            with make():
                pass
        return time.process_time() - begun

    with redis.Redis.from_url(URL) as client:
        ours, theirs = lambda: Lock(client, key), lambda: client.lock(key + "a", timeout=30)
        cost(ours), cost(theirs)
        pairs = [(cost(ours), cost(theirs)) for _ in range(10)]
    print([sum(times) / 2000 * 1e6 for times in zip(*pairs)])
    assert statistics.median(one / other for one, other in pairs) < 1.1, pairs
