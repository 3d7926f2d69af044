"""Search finds what its box promises: flow, error text, recovery, plan, person; bounded, and only what one may see."""

import re

import pytest
from django.test import Client

from recovery import search as searching
from recovery.contracts.diagnosis import ChainedError
from recovery.models import Pipeline, Recovery, RoleIn
from recovery.people.actions import actor_for_user
from recovery.people.roles import Actor, Role
from recovery.pipelines.failures import FailurePhase, UpdateFailure
from recovery.search import FoundBy, search
from tests import factories
from tests.pages import asked

pytestmark = pytest.mark.django_db
VIEWER = Actor("vera", Role.VIEWER, via="page")


@pytest.fixture
def ended() -> Recovery:
    """An ended recovery: the inventory's own filter knows open ones alone."""
    one = factories.verified(factories.failed_flow())
    Recovery.objects.filter(pk=one.pk).update(active=False, owner="grace.hopper")
    one.refresh_from_db()
    return one


@pytest.mark.parametrize(
    "text", ["customers_incremental", "CUSTOMERS_INCR", "crm.customers_changes", "customers dev-eu"]
)
def test_a_flow_by_any_part_of_its_names(text: str) -> None:
    flow = factories.failed_flow()
    assert [f.pk for f in search(text, VIEWER).flows] == [flow.pk]


@pytest.mark.parametrize(
    "text", ["operator name does not match", "OPERATOR NAME", "SQLSTATE: 42K03", "für alle"]
)
def test_an_error_by_its_text(text: str) -> None:
    flow = factories.failed_flow()
    flow.error = [*flow.error, {"class_name": "x", "message": 'is "wrong" für alle'}]
    flow.save()
    factories.flow(flow.pipeline)
    assert [f.pk for f in search(text, VIEWER).errors] == [flow.pk]


@pytest.fixture
def failed_at_import() -> Pipeline:
    """A pipeline that failed before it had a flow."""
    one = factories.pipeline(name="ledger")
    failure = UpdateFailure(
        "u2", FailurePhase.BEFORE, condition="PIPELINE_CODE_FAILED",
        causes=(ChainedError(class_name="ModuleNotFoundError", message='No module "nosuch"'),),
    )  # fmt: skip
    Pipeline.objects.filter(pk=one.pk).update(judged="failed", failure=failure.as_json())
    one.refresh_from_db()
    return one


@pytest.mark.parametrize(
    "text", ["ledger", "LEDG", "ledger dev-eu", 'module "nosuch"', "ModuleNotFoundError"]
)
def test_a_pipeline_without_flows_by_its_name_or_the_text_of_its_failure(
    failed_at_import: Pipeline, text: str
) -> None:
    found = search(text, VIEWER)
    assert ([p.pk for p in found.pipelines], found.flows) == ([failed_at_import.pk], ())
    assert not found.nothing


def test_a_pipeline_that_is_gone_or_of_another_environment_is_not_found(failed_at_import: Pipeline) -> None:
    Pipeline.objects.filter(pk=failed_at_import.pk).update(gone=True)
    assert search("ledger", VIEWER).nothing
    Pipeline.objects.filter(pk=failed_at_import.pk).update(gone=False)
    user = factories.person("none", "staging-only")
    RoleIn.objects.create(person=user.person, environment="staging", role="viewer")  # type: ignore[attr-defined]
    by = actor_for_user(user, via="page")
    assert [search(text, by).nothing for text in ("ledger", "nosuch")] == [True, True]


def test_the_page_leads_to_the_pipeline_with_what_is_wrong(
    responder: Client, failed_at_import: Pipeline
) -> None:
    page = asked(responder, "/search?q=nosuch")
    assert page.value("pipeline") == "ledger"
    assert f"/pipelines/{failed_at_import.pk}" in page.links()


def test_quotes_in_an_error_are_found() -> None:
    flow = factories.failed_flow(error=[{"class_name": "x", "message": 'is "wrong"'}])
    assert [f.pk for f in search('is "wrong"', VIEWER).errors] == [flow.pk]


@pytest.mark.parametrize("text", ["R-{}", "r-{}", "R{}", "{}"])
def test_a_recovery_by_its_label_ended_or_not(ended: Recovery, text: str) -> None:
    found = search(text.format(ended.pk), VIEWER)
    assert (found.recoveries[0].recovery.pk, found.recoveries[0].by) == (ended.pk, FoundBy.LABEL)


def test_a_label_leads_straight_to_its_recovery(responder: Client, ended: Recovery) -> None:
    answer = responder.get("/search", {"q": ended.label})
    assert answer.headers["Location"] == f"/recoveries/{ended.pk}"


@pytest.mark.parametrize("length", [4, 8, 64])
def test_a_plan_by_its_hash(ended: Recovery, length: int) -> None:
    plan = ended.plans.get()
    found = search(plan.hash[:length].upper(), VIEWER)
    hits = [(f.recovery.pk, f.plan_hash) for f in found.recoveries if f.by is FoundBy.PLAN]
    assert hits == [(ended.pk, plan.hash)] or re.fullmatch(r"\d+", plan.hash[:length])


def test_a_person_by_their_name_with_what_they_own(ended: Recovery) -> None:
    found = search("grace", VIEWER)
    assert [(p.name, p.account) for p in found.people] == [("grace.hopper", None)]
    assert [(f.recovery.pk, f.by) for f in found.recoveries] == [(ended.pk, FoundBy.PERSON)]


def test_an_account_without_a_recovery_is_found_by_who_manages_people_alone() -> None:
    person = factories.person("viewer", "katherine")
    admin = Actor("ada", Role.ADMIN, via="page")
    assert [p.account for p in search("kather", admin).people] == [person.person.pk]  # type: ignore[attr-defined]
    assert search("kather", VIEWER).nothing


def test_a_past_error_leads_to_its_recovery(ended: Recovery) -> None:
    Recovery.objects.filter(pk=ended.pk).update(diagnosis={"title": "A broker was away"})
    assert [(f.recovery.pk, f.by) for f in search("broker was", VIEWER).recoveries] == [
        (ended.pk, FoundBy.ERROR)
    ]


def test_nobody_finds_what_they_may_not_see(ended: Recovery) -> None:
    user = factories.person("none", "staging-only")
    RoleIn.objects.create(person=user.person, environment="staging", role="viewer")  # type: ignore[attr-defined]
    by = actor_for_user(user, via="page")
    for text in (ended.label, "customers", "operator name", ended.plans.get().hash, "grace"):
        assert search(text, by).nothing, text


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: object) -> None:
    monkeypatch.setattr(searching, "MOST", 2)
    pipeline = factories.pipeline()
    for number in range(4):
        factories.flow(pipeline, f"many_{number}_flow")
    with django_assert_max_num_queries(18):  # type: ignore[operator]
        found = search("many " + "x" * 1000, VIEWER)
        assert (found.nothing, len(found.asked)) == (True, searching.LONGEST)
        found = search("many", VIEWER)
    assert (len(found.flows), found.more) == (2, {"flows"})


def test_what_fails_is_shown_before_anything_is_cut_off(
    responder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MOST", 2)
    pipeline = factories.pipeline()
    for number, state in enumerate(("ok", "running", "failed")):
        factories.flow(pipeline, f"many_{number}_flow", state=state)
    assert [flow.state for flow in search("many", VIEWER).flows] == ["failed", "ok"]
    page = asked(responder, "/search?q=many")
    assert page.one("all-flows").attributes["href"] == "/?show=all&q=many"


def test_the_page_shows_each_kind_and_says_when_nothing_fits(responder: Client, ended: Recovery) -> None:
    page = responder.get("/search", {"q": "customers"}).content.decode()
    assert 'data-code="flow"' in page
    page = " ".join(responder.get("/search", {"q": "grace"}).content.decode().split())
    assert f'data-code="person" data-value="{ended.owner}"' in page
    assert 'href="/audit?who=grace.hopper"' in page
    assert 'class="empty"' in responder.get("/search", {"q": "zzz"}).content.decode()
    assert responder.get("/search").status_code == 200
    assert 'action="/search"' in responder.get("/").content.decode()
