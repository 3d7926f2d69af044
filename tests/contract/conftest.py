"""One running Pipelines API server for all contract tests of a session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.lab import Api, PipelinesServer, running


@pytest.fixture(scope="session")
def pipelines_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PipelinesServer]:
    """A server in a temporary home: url, token, spark_remote, home, pid."""
    home: Path = tmp_path_factory.mktemp("pipelines-server") / "home with space"
    home.mkdir(mode=0o700)
    with running(home) as server:
        yield server


@pytest.fixture(scope="session")
def api(pipelines_server: PipelinesServer) -> Iterator[Api]:
    """Bare HTTP calls to the shared server."""
    api = Api(pipelines_server)
    yield api
    api.session.close()
