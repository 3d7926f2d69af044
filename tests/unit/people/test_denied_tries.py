"""A denied try names what it was aimed at, and stands in the story of its recovery; its refusal names who may."""

import json

import pytest
from django.test import Client

from recovery.errors import Denied
from recovery.models import AuditEntry, Recovery
from recovery.people.roles import RIGHTS, Actor, Right, Role
from tests import factories as f
from tests.unit.people.run import run, token_of

pytestmark = pytest.mark.django_db


def newest() -> AuditEntry:
    found = AuditEntry.objects.order_by("-seq").first()
    assert found is not None
    return found


@pytest.fixture
def recovery() -> Recovery:
    flow = f.failed_flow(f.pipeline(environment="staging"))
    return f.opened(flow)


@pytest.mark.parametrize(
    "arguments",
    [
        ("approve", "{label}", "--reason", "no"),
        ("stop", "{label}"),
        ("stop", "{pipeline}"),
        ("stop", "customers", "--flow", "customers_incremental_flow"),
        ("recover", "{id}"),
    ],
)
def test_a_denied_command_names_pipeline_recovery_and_environment(
    monkeypatch: pytest.MonkeyPatch, recovery: Recovery, arguments: tuple[str, ...]
) -> None:
    pipeline = recovery.flow.pipeline
    names = {"label": recovery.label, "pipeline": pipeline.name, "id": pipeline.pipeline_id}
    token = token_of("vic", Role.VIEWER)

    code, _, _ = run(monkeypatch, token, *(a.format(**names) for a in arguments))

    entry = newest()
    assert (code, entry.code, entry.recovery, entry.environment) == (
        1, "command.denied.denied", recovery.label, "staging",
    )  # fmt: skip
    assert entry.target.startswith(f"{arguments[0]}: ")
    assert pipeline.name in entry.target


def test_what_is_not_there_is_named_as_it_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, token_of("vic", Role.VIEWER), "stop", "nowhere")
    assert (newest().target, newest().recovery, newest().environment) == ("stop: pipeline nowhere", "", "")


def test_a_denied_page_and_api_call_are_in_the_story_of_the_recovery(
    client: Client, recovery: Recovery
) -> None:
    client.force_login(f.person("none"))
    client.get(f"/recoveries/{recovery.pk}/diagnose")
    api = client.post(
        f"/api/v1/recoveries/{recovery.label}/plan",
        json.dumps({}),
        content_type="application/json",
        headers={"Authorization": f"Bearer {token_of('vic', Role.VIEWER)}"},
    )
    story = AuditEntry.objects.filter(recovery=recovery.label, outcome="denied")
    assert api.status_code == 403
    assert list(story.order_by("seq").values_list("action", "environment")) == [
        ("page.denied", "staging"),
        ("api.denied", "staging"),
    ]


@pytest.mark.parametrize("right", [r for r in Right if r is not Right.PROVISION])
def test_a_refusal_names_a_role_that_can(right: Right) -> None:
    with pytest.raises(Denied) as refused:
        Actor(name="ada", role=Role.NONE).check(right)
    asked = refused.value.sentence.rsplit("Ask ", 1)[1]
    named = [role for role in Role if f" {role.value}" in f" {asked}"]
    assert named
    assert all(right in RIGHTS[role] for role in named)
