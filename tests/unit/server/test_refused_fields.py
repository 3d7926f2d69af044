"""What a request asks for and this server does not do is refused, never left out in silence."""

from typing import Any

import pytest

from recovery.server.models import Pipeline
from tests.unit.server.api import Asker, ran

pytestmark = pytest.mark.django_db(databases=["default", "pipelines"])
WRONG = (400, "INVALID_PARAMETER_VALUE")

NOT_DONE: dict[str, Any] = {
    "run_as": {"user_name": "else@x"},
    "filters": {"include": ["com.a"]},
    "ingestion_definition": {"connection_name": "c"},
    "gateway_definition": {"connection_name": "c"},
    "environment": {"dependencies": ["pandas"]},
    "parameters": {"day": "monday"},
    "trigger": {"cron": {"quartz_cron_schedule": "0 0 * * * ?"}},
    "notifications": [{"email_recipients": ["a@b.c"], "alerts": ["on-update-failure"]}],
    "event_log": {"catalog": "c", "schema": "s", "name": "n"},
    "continuous": True,
    "configuration": {"key": "{{secrets/scope/name}}"},
    "clusters": [{"label": "default", "spark_env_vars": {"KEY": "{{secrets/scope/name}}"}}],
    "bogus": 1,
    "libraries": [{"file": {"path": "/a.py"}, "whl": "x.whl"}],
}
SAID_BY_CLIENTS: dict[str, Any] = {
    "allow_duplicate_names": True,
    "budget_policy_id": "b",
    "catalog": "spark_catalog",
    "channel": "CURRENT",
    "clusters": [{"label": "default", "num_workers": 1}],
    "configuration": {"a": "b"},
    "continuous": False,
    "deployment": {"kind": "BUNDLE", "metadata_file_path": "/x/metadata.json"},
    "development": True,
    "edition": "ADVANCED",
    "environment": {},
    "filters": {"include": [], "exclude": []},
    "libraries": [{"glob": {"include": "/a/**"}}],
    "notifications": [],
    "parameters": {},
    "photon": True,
    "root_path": "/a",
    "run_as": {"user_name": "ada"},
    "schema": "s",
    "serverless": True,
    "tags": {"environment": "test"},
}


@pytest.mark.parametrize("field", NOT_DONE)
def test_a_setting_that_cannot_be_honoured_makes_and_changes_nothing(asker: Asker, field: str) -> None:
    kept = asker.make(name="kept")
    before = dict(kept.spec)
    body = {"name": "new", field: NOT_DONE[field]}
    for method, path in (("POST", "/pipelines"), ("PUT", f"/pipelines/{kept.id}")):
        asked = asker.send(method, path, body)
        assert (asked.status, asked.code) == WRONG, (method, asked.body)
    kept.refresh_from_db()
    assert (kept.spec, Pipeline.objects.count()) == (before, 1)


def test_what_official_clients_send_of_themselves_is_taken(asker: Asker) -> None:
    made = asker.make(**SAID_BY_CLIENTS)
    edit = SAID_BY_CLIENTS | {"name": "q", "id": made.id, "pipeline_id": made.id}
    again = asker.send(
        "PUT", f"/pipelines/{made.id}", edit | {"expected_last_modified": made.last_modified_ms}
    )
    assert (again.status, again.body) == (200, {})
    seen = asker.send("GET", f"/pipelines/{made.id}").body
    assert {key: seen["spec"][key] for key in ("name", "channel", "edition", "photon", "serverless")} == {
        "name": "q", "channel": "CURRENT", "edition": "ADVANCED", "photon": True, "serverless": True
    }  # fmt: skip
    assert asker.send("PUT", f"/pipelines/{made.id}", seen["spec"]).status == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("development", "yes"),
        ("photon", 1),
        ("channel", 3),
        ("clusters", {}),
        ("clusters", ["x"]),
        ("deployment", []),
        ("tags", {"a": {}}),
        ("tags", {"a": "\u0000"}),
        ("name", "half \ud800"),
        ("dry_run", 1),
        ("expected_last_modified", "soon"),
        ("libraries", [{"file": {"path": "/a.py", "bogus": 1}}]),
    ],
)
def test_a_field_of_another_kind_is_refused(asker: Asker, field: str, value: Any) -> None:
    made = asker.make(name="kept")
    asked = asker.send("PUT", f"/pipelines/{made.id}", {"name": "kept", field: value})
    assert (asked.status, asked.code) == WRONG, asked.body


@pytest.mark.parametrize(
    "body",
    [
        {"refresh_flow_selection": ["some.flow"]},
        {"parameters": {"day": "monday"}},
        {"rewind_spec": {"rewind_timestamp": "2026-01-01"}},
        {"replace_where_overrides": [{"flow_name": "f"}]},
        {"refresh_selection_by_path": ["/a.py"]},
        {"full_graph_nonsense": 1},
        {"cause": 7},
        {"full_refresh": "true"},
    ],
)
def test_an_update_that_cannot_be_as_asked_does_not_start(asker: Asker, body: dict[str, Any]) -> None:
    pipeline = asker.make()
    asked = asker.send("POST", f"/pipelines/{pipeline.id}/updates", body)
    assert (asked.status, asked.code) == WRONG, asked.body
    assert pipeline.updates.count() == 0


BOGUS = {"bogus": 1}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/pipelines/{id}/stop", BOGUS),
        ("POST", "/workspace/mkdirs", {"path": "/made"} | BOGUS),
        ("POST", "/workspace/delete", {"path": "/kept"} | BOGUS),
        ("POST", "/workspace/import", {"path": "/made", "format": "RAW", "content": ""} | BOGUS),
    ],
)
def test_a_field_that_nobody_knows_is_refused_on_every_route(
    asker: Asker, method: str, path: str, body: dict[str, Any]
) -> None:
    pipeline = asker.make()
    asker.send("POST", "/workspace/mkdirs", {"path": "/kept"})
    asked = asker.send(method, path.format(id=pipeline.id), body)
    assert (asked.status, asked.code) == WRONG, asked.body
    assert "bogus" in asked.body["message"]
    assert asker.send("GET", "/workspace/get-status?path=/kept").status == 200
    assert asker.send("GET", "/workspace/get-status?path=/made").status == 404


def test_the_storage_of_a_pipeline_that_ran_stays(asker: Asker) -> None:
    pipeline = asker.make(storage="file:/data/one")
    settings = {"name": "p", "storage": "file:/data/two"}
    assert asker.send("PUT", f"/pipelines/{pipeline.id}", settings).status == 200

    ran(pipeline, validate_only=True)  # a dry run writes no checkpoint
    assert asker.send("PUT", f"/pipelines/{pipeline.id}", settings | {"storage": "/data/one"}).status == 200

    ran(pipeline)
    for change in (settings, {"name": "p"}):  # what is not sent would be the default one: another change
        asked = asker.send("PUT", f"/pipelines/{pipeline.id}", change)
        assert (asked.status, asked.code) == WRONG, asked.body
    assert asker.send("PUT", f"/pipelines/{pipeline.id}", settings | {"storage": "/data/one/"}).status == 200


def test_permissions_that_already_hold_are_answered_and_others_refused(asker: Asker) -> None:
    pipeline = asker.make()
    path = f"/permissions/pipelines/{pipeline.id}"
    now = asker.send("GET", path).body

    def asked(method: str, **entry: Any) -> Any:
        return asker.send(method, path, {"access_control_list": [entry]})

    for method in ("PUT", "PATCH"):
        held = asked(method, user_name="ada", permission_level="IS_OWNER")
        assert (held.status, held.body) == (200, now)
        for entry in (
            {"user_name": "bob", "permission_level": "CAN_VIEW"},
            {"group_name": "users", "permission_level": "CAN_RUN"},
            {"user_name": "ada", "permission_level": "CAN_VIEW"},
            {"user_name": "ada", "permission_level": "CAN_DANCE"},
            {"permission_level": "IS_OWNER"},
            {"user_name": "ada", "permission_level": []},
        ):
            refused = asked(method, **entry)
            assert (refused.status, refused.code) == WRONG, (method, entry, refused.body)
    ghost = asker.send("PUT", "/permissions/pipelines/none", {"access_control_list": []})
    assert (ghost.status, ghost.code) == (404, "RESOURCE_DOES_NOT_EXIST")


@pytest.mark.parametrize("act", ["clone", "environment/apply"])
def test_what_the_api_knows_and_this_server_does_not_is_refused_by_name(asker: Asker, act: str) -> None:
    pipeline = asker.make()
    asked = asker.send("POST", f"/pipelines/{pipeline.id}/{act}", {})
    assert (asked.status, asked.code) == WRONG
    assert asker.send("POST", f"/pipelines/none/{act}", {}).code == "RESOURCE_DOES_NOT_EXIST"
    assert Pipeline.objects.count() == 1


@pytest.mark.parametrize("name", ["\x1b\U000fbf73LN", "a\nb", "a\u202eb", "a\x7f", "\t"])
def test_a_name_that_cannot_be_seen_is_refused(asker: Asker, name: str) -> None:
    made = asker.make(name="kept")
    for method, path in (("POST", "/pipelines"), ("PUT", f"/pipelines/{made.id}")):
        asked = asker.send(method, path, {"name": name})
        assert (asked.status, asked.code) == WRONG
