"""What every test stands on: a home of its own, set before Django reads its settings."""

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import hypothesis
import pytest
from django.conf import settings

from recovery.checkpoints import access, location_checks
from tests import databases, order, shared

# PostgreSQL in place of SQLite, when bin/test gives one: see tests/databases.py.
_GIVEN = os.environ.get(databases.VARIABLE, "")
# A short path, since a Unix socket's may not be longer than about 100 characters. Every REPRISE_* of the
# caller is dropped: a test must never speak to an instance that somebody runs.
for _name in [name for name in os.environ if name.startswith("REPRISE_")]:
    del os.environ[_name]
HOME = Path(tempfile.mkdtemp(prefix="reprise-test-"))
os.environ["REPRISE_HOME"] = str(HOME)
os.environ["REPRISE_OUTBOUND_ALLOW"] = "127.0.0.1,localhost"  # where the tests' own servers listen
os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
# Playwright's event loop stays in this thread once a browser was used; a test with a database may come after it.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
databases.use(_GIVEN)
django.setup()
# A password hash is slow on purpose. In this process only: the instance that `stack` runs hashes as people's do.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# No example may fail for being slow: how long something takes says nothing about the product on a busy machine.
hypothesis.settings.register_profile(
    "reprise", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("reprise")

# Tests keep their checkpoints below the temporary directory, where a real one draws a warning.
location_checks.TEMPORARY = tuple(
    t for t in location_checks.TEMPORARY if not tempfile.gettempdir().startswith(t)
)

# Stores that only tests have: in this process, and one that fails as told.
access.OPENED |= {"memory", "odd"}

pytest_plugins = ["tests.stack", "tests.s3", "tests.kafka", "tests.connected_spark"]


def pytest_configure(config: pytest.Config) -> None:
    shared.begin(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist where the run keeps what all workers share."""
    node.workerinput["shared"] = str(node.config.stash[shared.FOLDER])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    is_ours = config.getvalue("dist") == "loadgroup"
    return order.Groups(config, log, config.stash[shared.FOLDER]) if is_ours else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """What collection makes stays to the end: to search it for garbage takes a fifth of its time, and more later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    # pytest does not ask for a file that its arguments name
    return databases.is_left_out(collection_path) or None


@pytest.hookimpl(wrapper=True, tryfirst=True)  # xdist reads the groups, and another plugin may mix the order
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    databases.choose(config, items)
    order.group(items)
    yield
    order.sort(items)
    if worker := getattr(config, "workerinput", None):
        order.tell(items, config.stash[shared.FOLDER], worker["workerid"])


@pytest.hookimpl(
    wrapper=True, tryfirst=True
)  # around everything: what a test waits for others is not its own time
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with shared.using(item):
        return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    shared.finish(config)
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty home for one test, at a short path."""
    folder = Path(tempfile.mkdtemp(prefix="reprise-home-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
