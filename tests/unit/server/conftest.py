"""A server without Spark: its requests are answered, its updates cannot start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery.server.instance import ServerInstance, set_current
from tests.unit.server.api import Asker


@pytest.fixture
def asker(tmp_path: Path, db: None) -> Iterator[Asker]:
    (tmp_path / "workspace").mkdir()
    set_current(ServerInstance(tmp_path))
    yield Asker(tmp_path)
    set_current(None)
