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
        home=stack.home,
    )


@pytest.fixture(scope="session")
def api(pipelines_server: PipelinesServer) -> Iterator[Api]:
    """Bare HTTP calls to the shared server."""
    api = Api(pipelines_server)
    yield api
    api.session.close()


@pytest.fixture(scope="module", autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A module's pipelines go with it: the console of the shared instance would ask for each of them for ever.

    Only those that this worker made: another one is at work on the same server.
    """
    mine = [item for item in request.session.items if getattr(item, "module", None) is request.module]
    if not any("pipelines_server" in getattr(item, "fixturenames", ()) for item in mine):
        yield
        return
    api: Api = request.getfixturevalue("api")
    before = set(api.made)
    yield
    for pipeline_id in api.made - before - api.lasting:
        api.send("DELETE", f"/pipelines/{pipeline_id}")
