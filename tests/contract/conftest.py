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
    """A module's pipelines go with it: the console of the shared instance would ask for each of them for ever."""
    mine = [item for item in request.session.items if getattr(item, "module", None) is request.module]
    if not any("pipelines_server" in getattr(item, "fixturenames", ()) for item in mine):
        yield
        return
    api: Api = request.getfixturevalue("api")
    before = pipelines(api)
    yield
    for pipeline_id in pipelines(api) - before:
        api.call("DELETE", f"/pipelines/{pipeline_id}")


def pipelines(api: Api) -> set[str]:
    """Ids of all pipelines but `clients`, whose tests with a database run at another time than those without."""
    found: set[str] = set()
    page: dict[str, str] = {}
    while True:
        answer = api.call("GET", "/pipelines", params={"max_results": 100, **page})
        found |= {
            str(entry["pipeline_id"]) for entry in answer.get("statuses", []) if entry["name"] != "clients"
        }
        if not answer.get("next_page_token"):
            return found
        page = {"page_token": answer["next_page_token"]}
