"""What integration tests share beside the running instance."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recovery.spark.session import fresh
from tests.connected_spark import connect_server
from tests.delta_room import DeltaRoom
from tests.integration.rehearsed_flow import WINDOWED, Flow
from tests.integration.spark_room import SCHEMA, Room, Written
from tests.stack import Stack


@pytest.fixture
def spark_remote(stack: Stack) -> str:
    """Address, with token, of the shared instance's warm driver, as it is now: the demo's tests kill it between
    modules, and the next one listens elsewhere."""
    remote: str = stack.demo["spark_remote"]
    return remote


@pytest.fixture(scope="module")
def spark(stack: Stack) -> Iterator[Any]:
    """A Spark Connect session of the shared instance's driver: no second JVM is needed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        from pyspark.sql import SparkSession

        session = SparkSession.builder.remote(stack.demo["spark_remote"]).create()
        yield session
        session.stop()


@pytest.fixture
def room(spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    for side in ("a", "b"):
        (tmp_path / "in" / side).mkdir(parents=True)
    return Room(spark_remote, tmp_path)


@pytest.fixture(scope="module")
def connect(stack: Stack) -> Iterator[Any]:
    """A session of the test's own, to make tables the way streams make them."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(stack.demo["spark_remote"]).create()
    yield session
    session.stop()


@pytest.fixture
def written(room: Room, connect: Any) -> Written:
    name = f"spark_catalog.default.t_{abs(hash(room.folder)) % 10**8}"
    return Written(name, room.folder, connect, SCHEMA, room.folder / "in" / "a", room.remote)


@pytest.fixture(scope="module")
def bare_remote() -> Iterator[str]:
    """Address of a Spark with the connectors and nothing around it."""
    with connect_server() as address:
        yield address


@pytest.fixture(scope="module")
def bare_session(bare_remote: str) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        from pyspark.sql.connect.session import SparkSession

        found = SparkSession.builder.remote(bare_remote).create()
        yield found
        found.stop()


@pytest.fixture
def bare(bare_remote: str, bare_session: Any, tmp_path: Path) -> Room:
    """As `room`, on that Spark."""
    (tmp_path / "in" / "a").mkdir(parents=True)
    return Room(bare_remote, tmp_path)


@pytest.fixture(scope="module")
def one_partition() -> Iterator[tuple[Any, str]]:
    """A session on a Spark with the connectors that keeps its state in one partition, and the address."""
    with (
        connect_server(**{"spark.sql.shuffle.partitions": "1"}) as address,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        opened = fresh(address, {})
        yield opened, address
        opened.stop()


@pytest.fixture
def flow(one_partition: tuple[Any, str], tmp_path: Path) -> Flow:
    """A flow with windows over two folders that are empty yet."""
    for side in ("a", "b"):
        (tmp_path / "in" / side).mkdir(parents=True)
    found = Flow(one_partition[0], Room(one_partition[1], tmp_path))
    found.query(WINDOWED)
    return found


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaRoom]:
    """A Spark with the Delta connector for plain streams; one for all tests."""
    room = DeltaRoom(tmp_path_factory.mktemp("delta"))
    yield room
    room.close()


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
