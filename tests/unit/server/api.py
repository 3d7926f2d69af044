"""The Pipelines API asked without a network and without Spark: only what answers without a driver."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.test import RequestFactory

from recovery.server.auth import digest_token
from recovery.server.http import ApiHandler
from recovery.server.models import ApiToken, Pipeline, Update

TOKEN = "good-token"


@dataclass(frozen=True)
class Asked:
    """One answer: its status, and its JSON."""

    status: int
    body: dict[str, Any]

    @property
    def code(self) -> str:
        """The error code of a refusal; "" where there is none."""
        return str(self.body.get("error_code", ""))


class Asker:
    """Asks the server's own WSGI application, as the owner of a good token."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.handler = ApiHandler()
        ApiToken.objects.create(name="t", sha256=digest_token(TOKEN), user_name="ada")

    def send(self, method: str, path: str, body: Any = None, **more: Any) -> Asked:
        """`body`: bytes as they are, anything else as JSON; `path` begins after /api/2.0, or with /api/."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        where = path if path.startswith(("/api/", "/.")) else f"/api/2.0{path}"
        headers = {"HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}
        request = RequestFactory().generic(
            method, where, raw, content_type=more.pop("content_type", "application/json"), **headers, **more
        )
        response = self.handler.get_response(request)
        assert response["Content-Type"] == "application/json"
        return Asked(response.status_code, json.loads(response.content))  # type: ignore[attr-defined]

    def headers(self, path: str) -> dict[str, str]:
        """The headers of a GET's answer."""
        request = RequestFactory().get(f"/api/2.0{path}", HTTP_AUTHORIZATION=f"Bearer {TOKEN}")
        return dict(self.handler.get_response(request).items())

    def make(self, **settings: Any) -> Pipeline:
        """A pipeline that was made through the API."""
        asked = self.send("POST", "/pipelines", {"name": "p"} | settings)
        assert asked.status == 200, asked.body
        return Pipeline.objects.get(pk=asked.body["pipeline_id"])


def ran(pipeline: Pipeline, **options: Any) -> Update:
    """An update of it that has completed."""
    return Update.objects.create(
        pipeline=pipeline, state="COMPLETED", created_ms=1, spec=pipeline.spec, options=options
    )
