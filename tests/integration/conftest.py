"""What integration tests share beside the running instance."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.stack import Stack


@pytest.fixture(scope="module")
def spark(stack: Stack) -> Iterator[Any]:
    """A Spark Connect session of the shared instance's driver: no second JVM is needed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        from pyspark.sql import SparkSession

        session = SparkSession.builder.remote(stack.demo["spark_remote"]).create()
        yield session
        session.stop()
