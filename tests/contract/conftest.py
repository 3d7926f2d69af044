"""What contract tests speak to: the Pipelines API server of the instance that all tests share."""

from collections.abc import Iterator

import pytest

from tests.contract.lab import Api, PipelinesServer
from tests.stack import Stack


@pytest.fixture(scope="session")
def pipelines_server(stack: Stack) -> PipelinesServer:
    """The server that the shared instance runs: a second Spark for these tests would show nothing more."""
    told = stack.demo
    return PipelinesServer(
        url=told["pipelines_url"],
        token=told["pipelines_token"],
        spark_remote=told["spark_remote"],
        home=stack.home,
        pid=told["pids"]["pipelines"],
        spark_pid=told["pids"]["spark"],
    )


@pytest.fixture(scope="session")
def api(pipelines_server: PipelinesServer) -> Iterator[Api]:
    """Bare HTTP calls to the shared server."""
    api = Api(pipelines_server)
    yield api
    api.session.close()
