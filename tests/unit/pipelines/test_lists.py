"""The list of flows and pipelines: it follows every row it shows, and agrees with the rules that pages go by."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from recovery.models import Flow, FlowInput, Listed, ListVersion, Pipeline, Recovery, Workspace
from recovery.people.roles import Actor, Grant, Role
from recovery.pipelines import listing, lists, retention
from recovery.pipelines.behind import NOT_OK
from recovery.pipelines.lists import Filters, ListOrder, Phrase, QuickFilter
from recovery.sources import files
from tests import factories as f

VIEWER = Actor("vera", Role.VIEWER)
db = pytest.mark.django_db


def names(show: QuickFilter = QuickFilter.ALL, now: datetime | None = None, **filters: Any) -> list[str]:
    wanted = Filters(show=show, **filters)
    return [row.short for row in lists.page_of_rows(VIEWER, wanted, now or timezone.now(), start=0)]


def test_the_kind_that_retention_goes_by_is_that_of_sources_of_files() -> None:
    assert retention.FILES == files.KIND


CASES = [
    {"seen_at": seen, "readable": readable, "kind": kind, "until": until, "stands_since": stands}
    for seen, readable, kind, until, stands in product(
        (None, -0.1), (True, False, None), ("files", "kafka"), (None, -1, 3, 40), (None, -2, -50)
    )
]


@db
@pytest.mark.parametrize("state", ["ok", "running", "stopped", "failed"])
def test_a_row_is_at_risk_in_the_list_when_it_is_by_the_rule_of_retention(settings: Any, state: str) -> None:
    settings.REPRISE_RETENTION_WARN_HOURS = 24.0
    now = timezone.now()
    owner = f.pipeline()
    made = Flow.objects.bulk_create(
        Flow(pipeline=owner, name=f"{n}", short=f"{n}", state=state, updated_at=now)
        for n in range(len(CASES))
    )
    moments = [
        {name: now + timedelta(hours=v) if isinstance(v, float | int) and not isinstance(v, bool) else v
         for name, v in case.items()}
        for case in CASES
    ]  # fmt: skip
    FlowInput.objects.bulk_create(
        FlowInput(flow=flow, index=0, place="x", reader="", noted_at=now, **case)
        for flow, case in zip(made, moments, strict=True)
    )
    listing.keep_lists([owner.pk])

    for later in (now, now + timedelta(hours=2), now + timedelta(hours=20)):
        ruled = {row.flow.short for row in FlowInput.objects.select_related("flow")
                 if retention.standing(row, row.flow.state, later).at_risk}  # fmt: skip
        listed = set(Listed.objects.filter(lists.at_risk(later)).values_list("short", flat=True))
        assert listed == ruled
        assert 0 < len(ruled) < len(CASES)


@db
def test_what_needs_attention_is_counted_as_it_is_listed() -> None:
    owner = f.pipeline()
    for state in ("ok", "running", "stopped", *NOT_OK):
        f.flow(owner, f"flow_{state}", state=state)
    stuck = f.flow(owner, "stuck")
    Recovery.objects.create(flow=stuck, state="needs_attention", created_by="ada")
    f.source(f.flow(owner, "risky", state="stopped"))
    f.pipeline(name="dead", judged="failed", judged_since=f.ago(hours=1))
    f.pipeline(name="new")
    now = timezone.now()

    counts = lists.count_rows(VIEWER, Filters(), now)

    wrong = {*(f"flow_{s}" for s in NOT_OK), "stuck", "risky", "dead"}
    assert set(names(QuickFilter.ATTENTION)) == wrong
    assert counts.attention == counts.urgent == lists.count_attention(VIEWER, now) == len(wrong)
    assert counts.by_show == {show: len(names(show)) for show in QuickFilter}
    assert (names(QuickFilter.RECOVERING), names(QuickFilter.AT_RISK)) == (["stuck"], ["risky"])
    assert counts.total == len(wrong) + 4


@db
def test_the_list_follows_whoever_changes_a_row() -> None:
    flow = f.flow(short="orders")
    Flow.objects.filter(pk=flow.pk).update(state="failed", failing_since=f.ago(hours=1))
    assert names(QuickFilter.ATTENTION) == ["orders"]
    Pipeline.objects.filter(pk=flow.pipeline_id).update(environment="staging", name="renamed")
    assert Listed.objects.values_list("environment", "pipeline_name").get() == ("staging", "renamed")
    flow.refresh_from_db()
    flow.state = "stopped"
    flow.save()
    assert names(QuickFilter.ATTENTION) == []
    f.source(flow)
    assert names(QuickFilter.AT_RISK) == ["orders"]
    FlowInput.objects.update(until=f.ago(days=-90))
    assert names(QuickFilter.AT_RISK) == []
    Pipeline.objects.update(gone=True)
    assert names() == []


@db
def test_a_pipeline_is_listed_itself_only_where_no_flow_speaks_for_it() -> None:
    owner = f.pipeline(name="bronze_tax")
    assert names() == ["bronze_tax"]
    flow = f.flow(owner, "tax")
    assert names() == ["tax"]
    Pipeline.objects.update(judged="failed")
    assert sorted(names()) == ["bronze_tax", "tax"]
    Flow.objects.filter(pk=flow.pk).update(state="failed")
    assert names() == ["tax"]


@db
def test_the_poller_derives_rows_again_that_nobody_told_of() -> None:
    flow = f.flow(short="orders")
    Listed.objects.update(state="failed", broken=True)

    listing.keep_all_lists()

    assert Listed.objects.values_list("flow", "state", "broken").get() == (flow.pk, "ok", False)


@db
@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (("stateful",), ["customers_incremental_flow"]),
        (("OperatorName:", "dedupe"), ["customers_incremental_flow"]),
        (("ÜBERSICHT",), ["übersicht"]),
        (("dev-eu", "incremental"), ["customers_incremental_flow"]),
        (("broker-1.corp",), ["übersicht"]),
        (("emptied",), ["view"]),
        (("no", "rows"), ["view"]),
        (("100%",), []),
        (("_x_",), []),
        (("stateful", "nowhere"), []),
    ],
)
def test_a_search_looks_in_names_errors_places_and_sentences(
    words: tuple[str, ...], listed: list[str]
) -> None:
    owner = f.pipeline()
    f.failed_flow(owner)
    f.source(f.flow(owner, "übersicht"))
    f.flow(owner, "view", state="empty", behind_why="emptied", behind_since=f.ago(hours=1))
    phrases = (Phrase("It holds no rows. It was emptied.", state="empty", why="emptied"),)

    assert names(words=words, phrases=phrases) == listed


@db
def test_a_search_knows_recoveries_by_label_reason_and_diagnosis() -> None:
    flow = f.flow(short="orders")
    f.flow(flow.pipeline, "other")
    recovery = Recovery.objects.create(
        flow=flow, state="needs_attention", reason="The seed is unknown.", created_by="ada",
        diagnosis={"title": "The key changed"},
    )  # fmt: skip

    for word in (recovery.label.lower(), "seed", "key"):
        assert names(words=(word,)) == ["orders"]


@db
def test_what_one_may_not_see_is_neither_listed_nor_counted() -> None:
    f.failed_flow(f.pipeline(environment="production"))
    somewhere = Actor("d", Role.NONE, elsewhere={"development": Grant(Role.VIEWER)})

    assert lists.count_rows(somewhere, Filters(), timezone.now()).total == 0
    assert lists.page_of_rows(somewhere, Filters(show=QuickFilter.ALL), timezone.now(), start=0) == []
    assert lists.list_environments(somewhere) == []


@db
def test_each_order_begins_with_what_needs_attention() -> None:
    for env, short, hours in (("development", "c", 9), ("production", "b", 1), ("staging", "a", 5)):
        owner = f.pipeline(environment=env, name=env)
        f.failed_flow(owner, failing_since=f.ago(hours=hours))
        Flow.objects.filter(pipeline=owner).update(short=short)
    Flow.objects.filter(short="b").update(last_progress={"timestamp": "2026-11-21T02:40:00.000Z"})
    f.flow(short="0")

    assert names(sort=ListOrder.URGENT) == ["b", "a", "c", "0"]
    assert names(sort=ListOrder.NAME) == ["a", "b", "c", "0"]
    assert names(sort=ListOrder.SINCE) == ["c", "a", "b", "0"]
    assert names(sort=ListOrder.COMMIT)[2] == "b"


Through = Callable[[Callable[[], object]], None]


@pytest.fixture
def through(db: None, django_capture_on_commit_callbacks: Any) -> Through:
    """Does something, and then what was to happen once its transaction is through."""

    def act(change: Callable[[], object]) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            change()

    return act


def version() -> str:
    return str(lists.current_version(VIEWER, timezone.now()))


def current(told: str) -> bool:
    return lists.is_current(told, VIEWER, timezone.now())


def test_a_version_ends_with_a_change_that_the_page_shows_and_with_no_other(through: Through) -> None:
    flow = f.flow()
    recovery = Recovery.objects.create(flow=flow, created_by="ada")
    changes = (
        lambda: Flow.objects.filter(pk=flow.pk).update(last_batch=77),
        lambda: Pipeline.objects.update(environment="staging"),
        lambda: f.source(flow),
        lambda: Recovery.objects.filter(pk=recovery.pk).update(state="planned"),
        lambda: Workspace.objects.update(poll_error="It is away."),
        lambda: Pipeline.objects.update(gone=True),
    )
    for change in changes:
        before = version()
        assert current(before)
        through(change)
        assert not current(before)
    before = version()
    for quiet in (
        lambda: Flow.objects.filter(pk=flow.pk).update(code_seen_at=timezone.now()),
        lambda: Pipeline.objects.update(seen_at=timezone.now()),
        lambda: Workspace.objects.update(polled_at=timezone.now()),
        lambda: Flow.objects.filter(pk=flow.pk).update(last_batch=77),
    ):
        through(quiet)
        assert current(before)


@db
def test_a_version_ends_with_the_next_deadline() -> None:
    flow = f.flow(state="stopped")
    f.source(flow, until=timezone.now() + timedelta(seconds=90))
    told = version()

    assert current(told)
    assert not lists.is_current(told, VIEWER, timezone.now() + timedelta(seconds=91))
    assert [told for told in ("", "7", "1-x-²", "²-x-9") if current(told)] == []


@db
def test_asking_for_a_version_is_one_query_and_a_page_a_constant_number(
    django_assert_num_queries: Any,
) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as made:
            names(words=("orders", "flow"))
            lists.count_rows(VIEWER, Filters(words=("orders", "flow")), timezone.now())
        return len(made)

    owner = f.pipeline()
    f.flow(owner, "orders_flow")
    one = cost()
    for number in range(6):
        f.source(f.flow(owner, f"orders_flow_{number}"))
    assert cost() == one
    told = version()
    with django_assert_num_queries(1):
        assert current(told)


def test_changes_are_counted_in_one_row(through: Through) -> None:
    through(f.flow)
    through(lambda: f.flow(short="other"))

    assert ListVersion.objects.count() == 1
