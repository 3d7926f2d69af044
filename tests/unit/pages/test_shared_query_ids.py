"""Two flows of different pipelines under one query id, as pages, commands and metrics show them: none of them green."""

import pytest
from django.test import Client

from console.presenters.flow import NOTHING_WRONG
from recovery.contracts.updates import CONDITIONS_WITHOUT_ERROR
from recovery.diagnosis.judgement import title_by_error
from recovery.diagnosis.table import ROWS
from recovery.health import metrics
from recovery.models import Flow, Recovery, RoleIn
from recovery.people.roles import Role
from tests import factories as f
from tests.pages import parse
from tests.unit.pages.reading import signed_in, text
from tests.unit.people.run import run_json, token_of

pytestmark = pytest.mark.django_db
SHARED = {"state": "unknown", "condition": "QUERY_ID_SHARED", "query_id": "q-1", "failing_since": None}


@pytest.fixture
def twins() -> tuple[Flow, Flow]:
    one = f.flow(f.pipeline(name="one"), "one_flow", **SHARED)
    return one, f.flow(f.pipeline(one.pipeline.workspace, "other"), "other_flow", **SHARED)


def test_each_flow_s_page_names_the_other_and_says_that_nothing_is_known(
    responder: Client, twins: tuple[Flow, Flow]
) -> None:
    for one, other in (twins, twins[::-1]):
        page = parse(text(responder, f"/flows/{one.pk}"))
        assert [p.attributes["data-value"] for p in page.all("p", data_code="shares-query-id")] == [
            other.name
        ]
        assert f"/flows/{other.pk}" in page.links()
        assert NOTHING_WRONG not in page.text


def test_a_recovery_can_be_opened_that_gives_one_of_them_an_id_of_its_own(
    responder: Client, twins: tuple[Flow, Flow]
) -> None:
    one, _ = twins
    assert "Diagnose and recover" in text(responder, f"/flows/{one.pk}")
    assert responder.post(f"/flows/{one.pk}").status_code == 302
    opened = Recovery.objects.get(flow=one)
    assert opened.diagnosis_value.condition == "QUERY_ID_SHARED"


def test_the_diagnosis_names_it_without_being_told_which_flow(
    monkeypatch: pytest.MonkeyPatch, twins: tuple[Flow, Flow]
) -> None:
    one, other = twins
    code, said = run_json(monkeypatch, token_of("ada", Role.VIEWER), "diagnose", one.pipeline.pipeline_id)
    assert (code, said["flow"], said["state"]) == (1, one.name, "unknown")
    assert said["shares_query_id"] == [{"pipeline": "other", "flow": other.name}]
    assert said["diagnosis"]["condition"] == "QUERY_ID_SHARED"


def test_the_list_by_command_has_the_id_that_they_share(
    monkeypatch: pytest.MonkeyPatch, twins: tuple[Flow, Flow]
) -> None:
    _, said = run_json(monkeypatch, token_of("ada", Role.VIEWER), "flows", "--failing")
    assert [(r["state"], r["condition"], r["query_id"]) for r in said["flows"]] == [
        ("unknown", "QUERY_ID_SHARED", "q-1")
    ] * 2


@pytest.mark.parametrize("condition", CONDITIONS_WITHOUT_ERROR)
def test_a_condition_of_which_no_error_tells_is_a_number_of_its_own(condition: str) -> None:
    f.flow(condition=condition, state="unknown")
    lines = metrics.metrics_text().decode().splitlines()
    assert f'reprise_flows_silently_wrong{{condition="{condition}"}} 1.0' in lines
    assert sum(line.startswith("reprise_flows_silently_wrong{") for line in lines) == len(
        CONDITIONS_WITHOUT_ERROR
    )


def test_who_may_not_see_the_other_pipeline_is_not_told_its_name() -> None:
    one = f.flow(f.pipeline(name="one"), "one_flow", **SHARED)
    other = f.flow(
        f.pipeline(one.pipeline.workspace, "other", environment="production"), "other_flow", **SHARED
    )
    person = f.person("none", "limited")
    RoleIn.objects.create(person=person.person, environment=one.pipeline.environment, role="viewer")
    page = text(signed_in(person), f"/flows/{one.pk}")
    title = title_by_error(one.error, one.condition).split(",")[0]
    assert (title in page, other.short in page) == (True, False)


def test_a_stream_without_its_checkpoint_is_shown_with_what_to_do_first(responder: Client) -> None:
    flow = f.flow(f.pipeline(), "gone_flow", state="unknown", condition="CHECKPOINT_GONE")
    row = next(row for row in ROWS if row.code == "CHECKPOINT_GONE")
    page = text(responder, f"/flows/{flow.pk}")
    assert (row.title in page, str(row.do[1]) in page) == (True, True)
