"""Both APIs publish what they are, and answer as they say, whatever they are asked."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.test import override_settings

from console.api.base import acts_of
from console.api.urls import ROUTES as ROUTES_OF_CONSOLE
from recovery.server.http import ApiHandler
from recovery.server.instance import ServerInstance, set_current
from recovery.server.models import Pipeline
from recovery.server.urls import ROUTES
from recovery.workflow import broker, tasks
from tests.factories.joint import joined
from tests.openapi import Named, hold, operations
from tests.unit.people.run import token_of
from tests.unit.server.api import TOKEN, Asker
from tests.unit.workflow.rows import recovery

pytestmark = [
    pytest.mark.django_db(databases=["default", "pipelines"]),
    pytest.mark.filterwarnings("default"),
]
examples = pytest.mark.parametrize("examples", [6, 60])  # of each operation; every day, and in a proof
STARTS = ("POST", "/api/2.0/pipelines/{pipeline_id}/updates")  # what it would start needs Spark
QUESTIONS = ("POST", "/api/2.0/x-reprise/questions")  # a good one needs Spark: here each has too little time


@pytest.fixture
def asker(tmp_path: Path, db: None) -> Asker:
    (tmp_path / "workspace").mkdir()
    set_current(ServerInstance(tmp_path))
    return Asker(tmp_path)


@pytest.fixture
def console(db: None, tmp_path: Path) -> Iterator[str]:
    """The token of an administrator, where the folder of static files is there."""
    with override_settings(STATIC_ROOT=tmp_path):
        yield token_of("ada", "admin")  # type: ignore[arg-type]


@examples
def test_the_pipelines_api_answers_as_its_document_says(asker: Asker, examples: int) -> None:
    kept = asker.make(name="kept")
    asker.send("POST", "/workspace/mkdirs", {"path": "/kept"})

    def real() -> Named:
        Pipeline.objects.get_or_create(
            pk=kept.pk, defaults={"name": "kept", "spec": kept.spec, "creator": "ada", "last_modified_ms": 1}
        )
        return {"pipeline_id": kept.pk, "path": "/kept/a.py"}

    found = {}
    for operation in operations(ApiHandler(), "/api/openapi.json", TOKEN):
        name = (operation.method.upper(), operation.path)
        if name == QUESTIONS:
            found[name] = hold(operation, TOKEN, lambda: {"seconds": 0}, examples, always=True)
        else:
            found[name] = hold(operation, TOKEN, dict if name == STARTS else real, examples)
    itself = ("GET", "/api/openapi.json")
    assert {*found, itself} == {(route.method, route.path) for route in ROUTES}
    assert min(found.values()) > 0


@examples
def test_the_consoles_api_answers_as_its_document_says(
    console: str, monkeypatch: pytest.MonkeyPatch, examples: int
) -> None:
    """With every right: what may be acted upon is asked too. No worker is at work, and no workspace answers."""
    row = recovery("diagnosing")
    joint, _ = joined()
    monkeypatch.setattr(tasks.look_positions, "delay", lambda *args: None)
    monkeypatch.setattr(tasks.seal_plan, "delay", lambda *args: None)
    monkeypatch.setattr(broker, "check", lambda: None)
    place = row.flow.pipeline.workspace.name

    found = {}
    for operation in operations(WSGIHandler(), "/api/v1/openapi.json", console):
        name = (operation.method.upper(), operation.path)
        real = (
            {}
            if name[0] == "DELETE"
            else {
                "label": row.label,
                "joint": joint.label,
                "plan_hash": joint.hash,
                "workspace": place,
                "pipeline": "customers",
            }
        )
        found[name] = hold(operation, console, lambda real=real: real, examples)
    assert len(found) == sum(len(acts_of(route)) for route in ROUTES_OF_CONSOLE) - 1
    assert min(found.values()) > 0
