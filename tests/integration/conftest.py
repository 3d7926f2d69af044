"""What integration tests share beside the running instance."""

import atexit
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import shared
from tests.answering import Beside, service
from tests.delta_room import DeltaRoom
from tests.integration.rehearsed_flow import WINDOWED, Flow
from tests.integration.spark_room import SCHEMA, Room, Written
from tests.stack import Stack


@pytest.fixture
def spark_remote(stack: Stack) -> str:
    """Address, with token, of the shared instance's warm driver, as it is now: a test that kills it is followed by
    another one, which listens elsewhere."""
    remote: str = stack.demo["spark_remote"]
    return remote


@pytest.fixture(scope="session")
def sessions() -> Iterator[dict[str, Any]]:
    """This worker's Spark Connect session of each driver that it has met, by address."""
    opened: dict[str, Any] = {}
    yield opened
    # Left open, and not asked at exit: where its driver was killed, that tries again for ten minutes, and gRPC's
    # `Channel.close` did not return twice (`release_session`). The worker ends next.
    for session in opened.values():
        atexit.unregister(session.client._on_exit)


def session_at(address: str, sessions: dict[str, Any]) -> Any:
    from pyspark.sql.connect.session import SparkSession

    if address not in sessions:
        sessions[address] = SparkSession.builder.remote(address).create()
    return sessions[address]


@pytest.fixture
def connect_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pyspark.sql.functions` are those of Spark Connect, for this test only: another one has a JVM of its own."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")


@pytest.fixture
def connect(spark_remote: str, sessions: dict[str, Any], connect_mode: None) -> Any:
    """A session of the shared instance's driver, to make tables the way streams make them."""
    return session_at(spark_remote, sessions)


@pytest.fixture
def bare_session(bare_remote: str, sessions: dict[str, Any], connect_mode: None) -> Any:
    """A session on the run's Spark with connectors."""
    return session_at(bare_remote, sessions)


@pytest.fixture(scope="module")
def spark(bare_remote: str) -> Iterator[Any]:
    """The same for one module, which may change its settings: no second JVM is needed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        opened = session_at(bare_remote, {})
        opened.conf.set("spark.sql.shuffle.partitions", "2")  # as an instance's driver
        yield opened
        opened.stop()


@pytest.fixture
def room(stack: Stack, spark_remote: str, tmp_path: Path, connect_mode: None) -> Room:
    for side in ("a", "b"):
        (tmp_path / "in" / side).mkdir(parents=True)
    return Room(spark_remote, tmp_path, service(stack))


@pytest.fixture
def written(room: Room, connect: Any) -> Written:
    name = f"spark_catalog.default.t_{abs(hash(room.folder)) % 10**8}"
    return Written(name, room.folder, connect, SCHEMA, room.folder / "in" / "a", room.answers)


@pytest.fixture
def bare(bare_remote: str, bare_session: Any, tmp_path: Path) -> Room:
    """As `room`, on that Spark."""
    (tmp_path / "in" / "a").mkdir(parents=True)
    return Room(bare_remote, tmp_path, Beside(bare_remote))


@pytest.fixture
def flow(bare_remote: str, bare_session: Any, tmp_path: Path) -> Flow:
    """A flow with windows over two folders that are empty yet; its state is in one partition, as that Spark's is."""
    for side in ("a", "b"):
        (tmp_path / "in" / side).mkdir(parents=True)
    found = Flow(bare_session, Room(bare_remote, tmp_path, Beside(bare_remote)))
    found.query(WINDOWED)
    return found


@pytest.fixture(scope="session")
def lake(request: pytest.FixtureRequest) -> Iterator[DeltaRoom]:
    """A session of this worker's own for plain streams of Delta tables."""
    with contextlib.closing(DeltaRoom(shared.reach(request.config, "spark")["place"])) as opened:
        yield opened


@pytest.fixture(scope="session")
def lake_model(lake: DeltaRoom, tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = tmp_path_factory.mktemp("model") / "source"
    for first, files in ((0, 1), (100, 4), (200, 2)):
        lake.add(table, first, files)
    return table


@pytest.fixture
def source(lake_model: Path, tmp_path: Path) -> Path:
    """A Delta table for streams to read, in three versions: one file, four files, two files, two rows each.

    A copy, with an id that is another's too.
    """
    return Path(shutil.copytree(lake_model, tmp_path / "source"))
