"""The official command line deploys, changes and destroys a bundle: every call of it, as recorded."""

import pytest

from recovery.server.models import Pipeline
from tests.cli_bundle import Call, recorded, replay
from tests.unit.server.api import Asker

pytestmark = pytest.mark.django_db(databases=["default", "pipelines"])


def test_a_bundle_is_deployed_changed_and_destroyed(asker: Asker) -> None:
    def send(call: Call) -> tuple[int, dict[str, str]]:
        raw = call.uri.split("?")[1].startswith("direct_download") if "?" in call.uri else False
        if raw:
            return 200, {}  # bytes, not JSON
        asked = asker.send(call.method, call.uri, call.body.encode())
        return asked.status, asked.body

    calls = recorded()
    gone = next(n for n, call in enumerate(calls) if call.method == "DELETE")
    made = replay(calls[:gone], send)
    stored = Pipeline.objects.get(pk=made).spec
    assert stored["libraries"] == [
        {"glob": {"include": "/Workspace/Users/reprise/.bundle/outside/dev/files/src/**"}}
    ]
    assert stored["configuration"] == {"spark.sql.pipelines.maxFlowRetryAttempts": "0"}
    replay(calls[gone:], send, made)
    assert not Pipeline.objects.exists()


def test_a_folders_permissions_are_refused_by_name(asker: Asker) -> None:
    body = {"access_control_list": [{"group_name": "users", "permission_level": "CAN_READ"}]}
    for method in ("PUT", "PATCH"):
        asked = asker.send(method, "/permissions/directories/85208509799754", body)
        assert (asked.status, asked.code) == (400, "INVALID_PARAMETER_VALUE")


def test_who_am_i_tells_the_number_of_the_workspace(asker: Asker) -> None:
    assert asker.headers("/preview/scim/v2/Me")["X-Databricks-Org-Id"].isdigit()
