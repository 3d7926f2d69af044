"""What tests of studied programs share."""

from collections.abc import Iterator
from typing import Any

import pytest

from recovery.spark import programs


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session of Spark Connect that nobody answers: plans are made, and nothing is asked."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:9")
    monkeypatch.setattr("pyspark.errors.utils.is_debugging_enabled", lambda: False)
    monkeypatch.setattr(programs, "_set", lambda *_: None)
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection="sc://127.0.0.1:9")
    yield session
    session.client._channel.close()
