"""Failures have the service's status, code and words, and are always JSON."""

from typing import Any

import pytest
import requests

from tests.contract.lab import Api, PipelinesServer
from tests.stack import Stack

GHOST = "00000000-0000-0000-0000-000000000000"
NAMED = {"name": "never made"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "words"),
    [
        (
            "GET",
            f"/pipelines/{GHOST}",
            None,
            404,
            "RESOURCE_DOES_NOT_EXIST",
            f"The specified pipeline {GHOST} was not found.",
        ),
        ("PUT", f"/pipelines/{GHOST}", NAMED, 404, "RESOURCE_DOES_NOT_EXIST", GHOST),
        ("DELETE", f"/pipelines/{GHOST}", None, 404, "RESOURCE_DOES_NOT_EXIST", GHOST),
        ("POST", f"/pipelines/{GHOST}/updates", {}, 404, "RESOURCE_DOES_NOT_EXIST", GHOST),
        ("POST", f"/pipelines/{GHOST}/stop", None, 404, "RESOURCE_DOES_NOT_EXIST", GHOST),
        ("GET", f"/pipelines/{GHOST}/events", None, 404, "RESOURCE_DOES_NOT_EXIST", GHOST),
        ("GET", f"/permissions/pipelines/{GHOST}", None, 404, "RESOURCE_DOES_NOT_EXIST", GHOST),
        ("GET", "/no/such/route", None, 404, "ENDPOINT_NOT_FOUND", "/api/2.0/no/such/route"),
        ("GET", "/pipelines/", None, 404, "ENDPOINT_NOT_FOUND", "/api/2.0/pipelines/"),
        ("PATCH", "/pipelines", {}, 405, "METHOD_NOT_ALLOWED", "GET, POST"),
        ("POST", "/pipelines", {}, 400, "INVALID_PARAMETER_VALUE", "needs a name"),
        ("POST", "/pipelines", NAMED | {"continuous": True}, 400, "INVALID_PARAMETER_VALUE", "Continuous"),
        (
            "POST",
            "/pipelines",
            NAMED | {"libraries": [{"jar": "x"}]},
            400,
            "INVALID_PARAMETER_VALUE",
            "library",
        ),
        ("POST", "/pipelines", NAMED | {"schema": "a`b"}, 400, "INVALID_PARAMETER_VALUE", "schema"),
        (
            "POST",
            "/pipelines",
            NAMED | {"configuration": {"a": {}}},
            400,
            "INVALID_PARAMETER_VALUE",
            "configuration",
        ),
        ("GET", "/pipelines?max_results=101", None, 400, "INVALID_PARAMETER_VALUE", "between 1 and 100"),
        ("GET", "/pipelines?page_token=nonsense", None, 400, "INVALID_PARAMETER_VALUE", "page token"),
        (
            "GET",
            "/pipelines?filter=state%3D'x'",
            None,
            400,
            "INVALID_PARAMETER_VALUE",
            "not allowed on 'state'",
        ),
        ("GET", "/pipelines?order_by=name", None, 400, "INVALID_PARAMETER_VALUE", "id asc"),
    ],
)
def test_an_expected_failure_has_its_status_code_and_words(
    api: Api, method: str, path: str, body: Any, status: int, code: str, words: str
) -> None:
    response = api.send(method, path, json=body)
    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/json"
    assert response.json()["error_code"] == code
    assert words in response.json()["message"]


def test_a_body_that_is_no_json_is_told_so(api: Api) -> None:
    response = api.send("POST", "/pipelines", data="{nonsense", headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["error_code"]) == (400, "MALFORMED_REQUEST")


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic dXNlcjpwYXNz", "Bearer "])
def test_without_the_right_token_nothing_is_answered(
    pipelines_server: PipelinesServer, header: str | None
) -> None:
    headers = {"Authorization": header} if header else {}
    for path in ("/api/2.0/pipelines", "/api/2.0/x-reprise/health", "/api/2.0/no/such/route"):
        response = requests.get(pipelines_server.url + path, headers=headers, timeout=30)
        assert (response.status_code, response.json()["error_code"]) == (401, "UNAUTHENTICATED")


def test_discovery_is_public(pipelines_server: PipelinesServer) -> None:
    response = requests.get(f"{pipelines_server.url}/.well-known/databricks-config", timeout=30)
    assert response.status_code == 200
    assert response.json()["oidc_endpoint"].endswith("/oidc")


def test_health_tells_of_spark(api: Api, stack: Stack) -> None:
    health = api.call("GET", "/x-reprise/health")
    assert health["spark"] == "ok"
    assert health["spark_pid"] == stack.demo["pids"]["spark"]


def test_a_second_pipeline_of_one_name_needs_to_be_allowed(api: Api) -> None:
    first = api.call("POST", "/pipelines", json={"name": "twice"})["pipeline_id"]
    refused = api.send("POST", "/pipelines", json={"name": "twice"})
    assert (refused.status_code, refused.json()["error_code"]) == (409, "RESOURCE_CONFLICT")
    second = api.call("POST", "/pipelines", json={"name": "twice", "allow_duplicate_names": True})[
        "pipeline_id"
    ]
    assert first != second


def test_an_edit_of_settings_that_somebody_else_changed_is_a_conflict(api: Api) -> None:
    pipeline_id = api.call("POST", "/pipelines", json={"name": "edited"})["pipeline_id"]
    seen = api.call("GET", f"/pipelines/{pipeline_id}")
    mine = seen["spec"] | {"expected_last_modified": seen["last_modified"], "development": True}
    assert api.call("PUT", f"/pipelines/{pipeline_id}", json=mine) == {}
    stale = api.send("PUT", f"/pipelines/{pipeline_id}", json=mine)
    assert (stale.status_code, stale.json()["error_code"]) == (409, "RESOURCE_CONFLICT")
    assert api.call("GET", f"/pipelines/{pipeline_id}")["spec"]["development"] is True


def test_a_dry_run_of_create_keeps_nothing(api: Api) -> None:
    answer = api.call("POST", "/pipelines", json={"name": "only asked", "dry_run": True})
    assert answer["effective_settings"]["catalog"] == "spark_catalog"
    listed = api.call("GET", "/pipelines", params={"filter": "name LIKE 'only asked'"})
    assert listed["statuses"] == []


def test_tokens_are_kept_as_hashes_and_secrets_are_private(pipelines_server: PipelinesServer) -> None:
    home = pipelines_server.home
    for name in ("pipelines.json", "pipelines.token", "spark.token", "spark.remote"):
        assert (home / name).stat().st_mode & 0o777 == 0o600, name
    stored = b"".join(file.read_bytes() for file in home.glob("pipelines.sqlite3*"))
    assert pipelines_server.token.encode() not in stored
    assert (home / "spark.remote").read_text().startswith("sc://localhost:")
