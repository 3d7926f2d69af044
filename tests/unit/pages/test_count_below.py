"""Rows below a flow: counted because a person asks, shown with their time, and no longer once they may differ."""

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from recovery.errors import Denied, Refused, Unreachable
from recovery.models import AuditEntry, Flow, Pipeline
from recovery.people.roles import Actor, Role
from recovery.pipelines import across
from recovery.spark.api import DefinitionMeasure
from recovery.workflow import broker, counting_below
from recovery.workflow.counting_below import BelowCount, CountPhase, StoredCount, UncountedReason
from tests import factories as f
from tests.pages import asked
from tests.unit.pages.reading import signed_in
from tests.unit.workflow.rows import RESPONDER

pytestmark = pytest.mark.django_db
VIEW, COPY, OUTSIDE = (
    "spark_catalog.crm.customers", "spark_catalog.crm.customers_copy", "spark_catalog.crm.signups_today",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What would be sent to workers."""
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(broker, "send_on_commit", lambda task, *args: sent.append((task.name, *args)))
    return sent


def counted(flow: Flow, *counts: StoredCount, phase: CountPhase = CountPhase.COUNTED) -> Flow:
    kept = BelowCount("t", "responder", timezone.now().isoformat(), phase, counts)
    Flow.objects.filter(pk=flow.pk).update(below_count=kept.as_json())
    flow.refresh_from_db()
    return flow


def cells(client: Client, flow: Flow, dataset: str) -> list[tuple[str, str]]:
    """Code and value of *now* and *should be* in the row of that dataset."""
    row = next(r for r in asked(client, f"/flows/{flow.pk}").all("tr", data_value=dataset))
    found = [e for e in row.all("div") if e.attributes.get("data-code", "").startswith(("now-", "should-"))]
    return [(e.attributes["data-code"], e.attributes["data-value"]) for e in found]


def at(minutes: float = 0) -> str:
    return f.ago(minutes=minutes).isoformat()


def test_nothing_is_claimed_that_nobody_counted_but_that_an_emptied_view_is_empty(responder: Client) -> None:
    flow = f.right_above()
    assert cells(responder, flow, VIEW) == [("now-known", "0"), ("should-not_counted", "")]
    assert cells(responder, flow, COPY) == [("now-not_counted", ""), ("should-not_counted", "")]


def test_counted_rows_stand_beside_those_that_should_be_there(responder: Client) -> None:
    flow = counted(f.right_above(), StoredCount(COPY, at(), rows=12, should=20, missing=8, extra=0))
    assert cells(responder, flow, COPY) == [("now-known", "12"), ("should-known", "20")]
    assert asked(responder, f"/flows/{flow.pk}").one("differs")


def test_other_rows_of_the_same_number_are_no_agreement(responder: Client) -> None:
    flow = counted(f.right_above(), StoredCount(COPY, at(), rows=20, should=20, missing=3, extra=3))
    assert asked(responder, f"/flows/{flow.pk}").one("differs")


@pytest.mark.parametrize(
    ("changed", "now", "should"),
    [
        ("reader", "changed", "known"),
        ("input", "known", "changed"),
        ("input running", "known", "changed"),
        ("input running, as of before the count", "known", "known"),
        ("input running, as of before the count, of another pipeline", "known", "changed"),
        ("", "known", "known"),
    ],
)
def test_a_number_that_an_update_may_have_changed_is_no_longer_shown(
    responder: Client, changed: str, now: str, should: str
) -> None:
    flow = counted(f.right_above(), StoredCount(COPY, at(5), rows=12, should=20, missing=8, extra=0))
    Flow.objects.update(last_progress={})
    later = {"good_at": f.ago(minutes=1)}
    if changed == "reader":
        Flow.objects.filter(dataset=COPY).update(**later)
    elif changed:
        Flow.objects.filter(pk=flow.pk).update(**({"state": "running"} if "running" in changed else later))
    if "before the count" in changed:
        Pipeline.objects.update(seen_at=f.ago(minutes=6))
    if "another pipeline" in changed:
        other = f.pipeline(flow.pipeline.workspace, "feeds")
        Pipeline.objects.filter(pk=other.pk).update(seen_at=f.ago(minutes=6))
        f.view(other, "fed", dataset=flow.dataset, state="running")
        Flow.objects.filter(pk=flow.pk).update(state="ok")
    found = [code.partition("-")[2] for code, _ in cells(responder, flow, COPY)]
    assert found == [now, should]


def test_the_proof_of_a_recovery_tells_the_rows_below(responder: Client) -> None:
    flow = f.right_above()
    proven = f.verified(flow)
    told = {"dataset": COPY, "status": "COMPLETED", "rows": 20, "expected_rows": 20, "missing": 0, "extra": 0}
    proven.measured = {**proven.measured, "at": at(), "downstream": [told]}
    proven.save()
    assert cells(responder, flow, COPY) == [("now-known", "20"), ("should-known", "20")]


@pytest.mark.parametrize(("minutes", "rows"), [(5, "20"), (-5, "12")], ids=["older", "newer"])
def test_of_a_count_and_a_proof_the_newer_one_is_shown(responder: Client, minutes: float, rows: str) -> None:
    flow = f.right_above()
    proven = f.verified(flow)
    told = {"dataset": COPY, "status": "COMPLETED", "rows": 20, "expected_rows": 20, "missing": 0, "extra": 0}
    proven.measured = {**proven.measured, "at": at(), "downstream": [told]}
    proven.save()
    counted(flow, StoredCount(COPY, at(minutes), rows=12, should=12, missing=0, extra=0))
    assert cells(responder, flow, COPY)[0] == ("now-known", rows)


class Spark:
    """Answers what each dataset holds, or fails; keeps of which it was asked. The workspace knows one idle pipeline."""

    def __init__(self, answers: dict[str, DefinitionMeasure]) -> None:
        self.answers, self.asked = answers, list[str]()
        self.updates: list[dict[str, str]] = []
        self.comes: dict[str, str] = {}  # an update that begins with the first question

    def __call__(self, request: Any, *, timeout: float) -> DefinitionMeasure:
        self.asked.append(request.table)
        if self.comes and self.comes not in self.updates:
            self.updates = [self.comes, *self.updates]
        if request.table not in self.answers:
            raise Unreachable("Spark does not answer.")
        return self.answers[request.table]

    def get_pipeline(self, pipeline_id: str) -> dict[str, Any]:
        return {"spec": {}, "latest_updates": self.updates}


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    spark = Spark({VIEW: DefinitionMeasure(0, 9, 9, 0), COPY: DefinitionMeasure(12, 20, 8, 0)})
    monkeypatch.setattr(counting_below, "defined", spark)
    monkeypatch.setattr(counting_below, "client_for", lambda workspace: spark)
    monkeypatch.setattr(counting_below, "read_code", lambda client, spec: ((), {}))
    monkeypatch.setattr(counting_below, "questions_service", lambda *_: None)
    return spark


def ask(flow: Flow, sent: list[tuple[Any, ...]]) -> BelowCount:
    """What the row keeps after a worker was woken twice."""
    counting_below.request_count(flow_id=flow.pk, by=RESPONDER)
    for _ in range(2):
        counting_below.carry_out(*sent[-1][1:])
    flow.refresh_from_db()
    kept = BelowCount.from_json(flow.below_count)
    assert kept is not None
    return kept


def test_a_worker_counts_once_what_was_asked_for(no_broker: list[tuple[Any, ...]], spark: Spark) -> None:
    kept = ask(f.right_above(), no_broker)
    told = {c.dataset: (c.rows, c.should, c.missing, c.extra, c.why) for c in kept.counts}
    assert (kept.phase, kept.by, sorted(spark.asked)) == (CountPhase.COUNTED, RESPONDER.name, [VIEW, COPY])
    assert told == {
        VIEW: (0, 9, 9, 0, None), COPY: (12, 20, 8, 0, None),
        OUTSIDE: (None, None, None, None, UncountedReason.ELSEWHERE),
    }  # fmt: skip


def test_what_a_late_input_yields_is_not_what_should_be_there(
    no_broker: list[tuple[Any, ...]], spark: Spark
) -> None:
    flow = f.right_above()
    Flow.objects.filter(dataset=COPY).update(inputs=[flow.dataset, VIEW])  # it reads the empty view too
    copy = next(c for c in ask(flow, no_broker).counts if c.dataset == COPY)
    assert (copy.rows, copy.should, copy.why) == (12, None, UncountedReason.INPUT_BEHIND)


def test_one_dataset_that_cannot_be_counted_leaves_the_others(
    no_broker: list[tuple[Any, ...]], spark: Spark
) -> None:
    del spark.answers[COPY]
    found = {c.dataset: (c.rows, c.why, c.problem) for c in ask(f.right_above(), no_broker).counts}
    assert found[COPY][:2] == (None, UncountedReason.PROBLEM)
    assert "Spark" in found[COPY][2]
    assert found[VIEW][0] == 0


def test_nothing_is_counted_while_an_update_runs(
    no_broker: list[tuple[Any, ...]], spark: Spark, responder: Client
) -> None:
    spark.updates = [{"update_id": "u-9", "state": "RUNNING"}]
    flow = f.right_above()
    assert ask(flow, no_broker).phase is CountPhase.FAILED
    assert spark.asked == []
    assert asked(responder, f"/flows/{flow.pk}").one("count-failed")


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETED"])
def test_what_was_counted_while_an_update_began_is_not_shown(
    no_broker: list[tuple[Any, ...]], spark: Spark, responder: Client, state: str
) -> None:
    """It may have been read half before it and half after it; when a dataset was counted does not tell."""
    spark.updates = [{"update_id": "u-1", "state": "FAILED"}]
    spark.comes = {"update_id": "u-2", "state": state}
    flow = f.right_above()
    Flow.objects.update(last_progress={})
    kept = ask(flow, no_broker)
    found = {c.dataset: (c.rows, c.should, c.missing, c.why) for c in kept.counts}
    assert found[COPY] == (None, None, None, UncountedReason.CHANGED)
    assert found[OUTSIDE][3] is UncountedReason.ELSEWHERE
    assert [code for code, _ in cells(responder, flow, COPY)] == ["now-changed", "should-changed"]


def test_a_count_that_waits_is_not_asked_for_twice() -> None:
    flow = f.right_above()
    counting_below.request_count(flow_id=flow.pk, by=RESPONDER)
    with pytest.raises(Refused) as refused:
        counting_below.request_count(flow_id=flow.pk, by=RESPONDER)
    assert refused.value.code == "already_asked"
    entries = AuditEntry.objects.filter(action=counting_below.ASK).order_by("seq")
    assert [e.outcome for e in entries] == ["done", "failed"]


def test_a_viewer_cannot_ask_and_the_page_says_why() -> None:
    flow = f.right_above()
    with pytest.raises(Denied):
        counting_below.request_count(flow_id=flow.pk, by=Actor("vera", Role.VIEWER))
    assert asked(signed_in(f.person("viewer")), f"/flows/{flow.pk}").disabled("count")


def test_the_page_asks_and_shows_that_it_is_counted(responder: Client) -> None:
    flow = f.right_above()
    assert responder.post(f"/flows/{flow.pk}", {"act": "count"}).status_code == 302
    part = asked(responder, f"/flows/{flow.pk}?part=below")
    assert part.disabled("count")
    assert part.one("count-asked")


def test_a_number_that_differs_at_each_run_is_not_what_should_be_there() -> None:
    unsure = counting_below._as_count(
        StoredCount(VIEW, at()), DefinitionMeasure(3, 4, 1, 2, unsure=("rand",)), behind=False
    )
    assert (unsure.should, unsure.missing) == (4, None)
    other = counting_below._as_count(
        StoredCount(VIEW, at()), DefinitionMeasure(3, 4, 1, 2, rows_unsure=True), behind=False
    )
    assert (other.should, other.why) == (None, UncountedReason.UNSURE)


def test_what_is_kept_is_read_back_as_it_was() -> None:
    flow = f.right_above()
    kept = BelowCount(
        "t",
        "ada",
        at(),
        CountPhase.COUNTED,
        (StoredCount(VIEW, at(), 1, why=UncountedReason.PROBLEM, problem="x"),),
    )
    assert BelowCount.from_json(kept.as_json()) == kept
    assert not replace(kept, phase=CountPhase.COUNTING, at=at(60)).waits
    assert counting_below.held_below(flow, across.flows_below(flow))
