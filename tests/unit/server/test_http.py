"""Requests become JSON answers, whatever happens, without the console's middleware or URLs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from recovery.server import views_misc
from recovery.server.auth import digest_token, provide_token
from recovery.server.http import ApiHandler
from recovery.server.models import ApiToken, Pipeline, Update
from recovery.server.updates import fail_left_active

pytestmark = pytest.mark.django_db(databases=["default", "pipelines"])
Ask = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def ask() -> Ask:
    ApiToken.objects.create(name="t", sha256=digest_token("good-token"))
    handler = ApiHandler()

    def send(method: str, path: str, **more: Any) -> tuple[int, dict[str, Any]]:
        headers = {"HTTP_AUTHORIZATION": "Bearer good-token"} | more
        response = handler.get_response(RequestFactory().generic(method, path, **headers))
        assert response["Content-Type"] == "application/json"
        return response.status_code, json.loads(response.content)  # type: ignore[attr-defined]

    return send


def test_an_unknown_route_is_json(ask: Ask) -> None:
    status, body = ask("GET", "/sign-in")
    assert (status, body["error_code"]) == (404, "ENDPOINT_NOT_FOUND")


def test_a_bug_is_json_and_tells_no_secret(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(request: HttpRequest) -> HttpResponse:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(views_misc.Update.objects, "filter", broken)
    status, body = ask("GET", "/api/2.0/x-reprise/health")
    assert (status, body["error_code"]) == (500, "INTERNAL_ERROR")
    assert "secret" not in json.dumps(body)


def test_a_length_that_is_no_number_is_refused(ask: Ask) -> None:
    status, body = ask("POST", "/api/2.0/pipelines", CONTENT_LENGTH="²")
    assert (status, body["error_code"]) == (400, "INVALID_PARAMETER_VALUE")


def test_a_deleted_token_opens_nothing(ask: Ask) -> None:
    ApiToken.objects.all().delete()
    assert ask("GET", "/api/2.0/pipelines")[0] == 401


def test_a_token_file_is_made_once_and_kept_private(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = provide_token(file)
    assert provide_token(file) == token
    assert file.stat().st_mode & 0o777 == 0o600
    assert [known.sha256 for known in ApiToken.objects.all()] == [digest_token(token)]
    file.unlink()
    assert provide_token(file) != token
    assert ApiToken.objects.count() == 1


def test_updates_that_a_former_server_left_are_failed_with_a_sentence() -> None:
    pipeline = Pipeline.objects.create(name="p", spec={}, creator="c", last_modified_ms=1)
    done = Update.objects.create(pipeline=pipeline, state="COMPLETED", created_ms=1, spec={})
    left = Update.objects.create(pipeline=pipeline, state="RUNNING", created_ms=2, spec={})
    assert fail_left_active() == 1
    left.refresh_from_db()
    done.refresh_from_db()
    assert (left.state, done.state) == ("FAILED", "COMPLETED")
    event = pipeline.events.get(update_id=left.id)
    assert "server stopped" in event.body["message"]
    assert event.body["details"] == {"update_progress": {"state": "FAILED"}}
    assert fail_left_active() == 0
