"""What tests of streams that run share."""

from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint_builder import Built
from tests.unit.eventlogs import logs


@pytest.fixture
def own_home(settings: Any, tmp_path: Path) -> None:
    """A home of the console for this test alone, which is not there yet."""
    settings.REPRISE_HOME = tmp_path / "home"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Built:
    return Built(tmp_path / "data" / "orders", query_id=logs.QUERY).write()
