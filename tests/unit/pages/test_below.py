"""The flow page names what stands below, in every pipeline that the reader of the page may see."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.presenters import flow as presenter
from console.presenters.pipelines import BEHIND
from recovery.models import Flow, Pipeline, Recovery, RoleIn
from recovery.pipelines.behind import node_of
from tests import factories as f
from tests.pages import parse
from tests.unit.pages.reading import signed_in, text

pytestmark = pytest.mark.django_db


def two_pipelines(environment: str = "development") -> tuple[Flow, Flow]:
    """A healthy flow, and a stale view over its table that another pipeline writes."""
    source = f.flow()
    other = f.pipeline(source.pipeline.workspace, "report", environment=environment)
    stale = {"state": "stale", "behind_why": "renewed", "behind_since": f.ago(minutes=5)}
    return source, f.view(other, "daily", inputs=[source.dataset], **stale)


def test_a_stale_view_of_another_pipeline_shows_below_the_flow(responder: Client) -> None:
    source, view = two_pipelines()
    page = text(responder, reverse("flow", args=[source.pk]))
    assert f'<tr data-code="stale" data-value="{view.dataset}">' in page
    graph = presenter.draw_graph(source, source.pipeline.flows.all(), [(node_of(view), view)])
    assert {n.name: n.kind for n in graph.nodes} == {
        "customers_snapshot_flow": "ok", "customers_snapshot": "ok", "daily (view)": "stale",
    }  # fmt: skip


def test_who_may_not_see_the_other_pipeline_is_not_told_of_it() -> None:
    source, view = two_pipelines("production")
    person = f.person("none", "limited")
    RoleIn.objects.create(person=person.person, environment="development", role="viewer")
    answer = signed_in(person).get(reverse("flow", args=[source.pk]))
    assert (answer.status_code, view.dataset.encode() in answer.content) == (200, False)


def test_the_flow_s_page_says_that_readers_outside_are_not_known(responder: Client) -> None:
    page = parse(text(responder, f"/flows/{f.failed_flow().pk}"))
    assert len(page.all("p", data_code="readers-outside-not-known")) == 1


@pytest.mark.parametrize("state", ["ok", "failed"])
def test_a_view_that_is_behind_leads_to_the_flow_that_feeds_it(responder: Client, state: str) -> None:
    source, view = two_pipelines()
    Flow.objects.filter(pk=source.pk).update(state=state, failing_since=f.ago(minutes=5))
    page = parse(text(responder, f"/flows/{view.pk}"))
    assert page.one(f"feeder-{state}").attributes["href"] == f"/flows/{source.pk}"
    assert page.primary() == page.one(f"feeder-{state}").attributes


def test_a_view_that_is_right_leads_nowhere(responder: Client) -> None:
    _, view = two_pipelines()
    Flow.objects.filter(pk=view.pk).update(state="ok", behind_why="", behind_since=None)
    page = parse(text(responder, f"/flows/{view.pk}"))
    assert not [code for code in page.codes if code.startswith("feeder-")]


def test_it_leads_to_its_own_pipeline_where_others_write_the_table_too(responder: Client) -> None:
    source, view = two_pipelines()
    own = f.flow(view.pipeline, "own_flow", dataset=source.dataset)
    page = parse(text(responder, f"/flows/{view.pk}"))
    assert [a for a in page.links() if a == f"/flows/{own.pk}"]
    assert page.one("feeder-ok").attributes["href"] == f"/flows/{own.pk}"


def test_a_pipeline_is_not_well_while_a_dataset_of_it_is_behind(responder: Client) -> None:
    _, view = two_pipelines()
    Pipeline.objects.filter(pk=view.pipeline_id).update(judged="ok", judged_since=f.ago(minutes=5))
    address = reverse("pipeline", args=[view.pipeline_id])
    page = text(responder, address)
    assert (BEHIND.word in page, f"{view.short} is stale" in page) == (True, True)
    Flow.objects.filter(pk=view.pk).update(state="ok", behind_why="", behind_since=None)
    assert BEHIND.word not in text(responder, address)


NAMES_IT = {"job_id": 7, "name": "crm_export", "by": "trigger", "task": "", "parameter": ""}


def with_stop(made: Recovery, **told: object) -> None:
    made.steps.filter(kind="stop", plan=None).update(result={"begun": f.ago(minutes=4).isoformat(), **told})


@pytest.mark.parametrize("page", ["/recoveries/{recovery}/review", "/flows/{flow}"])
@pytest.mark.parametrize(
    ("told", "code", "jobs"),
    [
        ({}, "jobs-not-asked", 0),
        ({"jobs": [], "jobs_unknown": "The token of this workspace may not read jobs."}, "jobs-not-known", 0),
        ({"jobs": [], "jobs_below": []}, "jobs-none-named", 0),
        ({"jobs": [], "jobs_below": [NAMES_IT]}, "jobs-named", 1),
    ],
    ids=["not asked", "not known", "none", "one"],
)
def test_jobs_that_name_the_table_are_told_as_far_as_the_workspace_says(
    responder: Client, page: str, told: dict[str, Any], code: str, jobs: int
) -> None:
    made = f.planned()
    named = [{**job, "dataset": made.flow.dataset} for job in told.get("jobs_below", ())]
    with_stop(made, **{**told, **({"jobs_below": named} if "jobs_below" in told else {})})
    shown = parse(text(responder, page.format(recovery=made.pk, flow=made.flow_id))).one(code)
    assert len(shown.all("li")) == jobs
    assert ("crm_export" in shown.text) is bool(jobs)


def test_a_job_that_names_a_dataset_one_may_not_see_is_not_shown_on_the_flow_s_page(
    responder: Client,
) -> None:
    made = f.planned()
    with_stop(made, jobs=[], jobs_below=[{**NAMES_IT, "dataset": "other.secret.table"}])
    page = parse(text(responder, f"/flows/{made.flow_id}"))
    assert page.one("jobs-none-named").all("li") == []
