"""What recoveries say of a table is kept with its flow: lists and metrics go by it, and people are told once."""

from datetime import datetime
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.names import DoubtCode
from recovery.health.metrics import measure_doubts
from recovery.models import Flow, Listed, Message, Plan, Recovery, Step, Workspace
from recovery.people.roles import Actor, Role
from recovery.pipelines import lists
from recovery.pipelines.follow import _on_migrate
from recovery.workflow import moves
from recovery.workflow.doubting import PROVING, doubts_of, keep_table_doubts
from tests import factories as f
from tests.factories.plans import plan_body

pytestmark = pytest.mark.django_db
SIX = {"rows": 6, "bound": "exact"}
CLEAN = codec.to_json(f.proof())
DIFFERS = codec.to_json(f.proof(doubled=5, doubled_before=5))
ACCEPTED = codec.to_json(f.proof(doubled=6, doubled_accepted=SIX))


def prove(flow: Flow, measured: Any) -> Recovery:
    """A recovery of the flow, moved to its proof as the engine does it."""
    made = Recovery.objects.create(flow=flow, state="verifying", created_by="ada")
    moves.move(made, "succeeded", measured=measured)
    return made


def fail_proof(flow: Flow) -> Recovery:
    made = Recovery.objects.create(flow=flow, state="verifying", created_by="ada")
    moves.move(made, "needs_attention", reason="Not proven.")
    return made


def kept(flow: Flow) -> tuple[str, bool]:
    flow.refresh_from_db()
    return flow.table_doubt, flow.differs_since is not None


def attention() -> int:
    return lists.count_attention(Actor("vera", Role.VIEWER), timezone.now())


def told() -> list[str]:
    return [m.event for m in Message.objects.filter(event="flow.table_differs")]


@pytest.mark.parametrize(
    ("measured", "code", "differs", "needs"),
    [(CLEAN, "", False, 0), (ACCEPTED, "as-accepted", False, 0), (DIFFERS, "table-differs", True, 1)],
    ids=["clean", "accepted", "differs"],
)
def test_what_a_proof_says_of_the_table_is_kept_and_counts_where_someone_has_to_look(
    measured: Any, code: str, differs: bool, needs: int
) -> None:
    flow = f.flow()
    prove(flow, measured)
    assert kept(flow) == (code, differs)
    assert Listed.objects.get().doubt == code
    assert (attention(), len(told())) == (needs, needs)


def test_a_proof_that_fails_is_kept_as_not_proven_until_the_recovery_is_rolled_back() -> None:
    flow = f.flow()
    failed = fail_proof(flow)
    assert (kept(flow), attention()) == (("not-proven", False), 1)
    failed.refresh_from_db()
    moves.move(failed, "rolled_back")
    assert (kept(flow), attention(), told()) == (("", False), 0, [])


@pytest.mark.parametrize(
    ("changes", "cost"),
    [
        ({}, "2 rows lost"),
        ({"doubled": 149, "doubled_bound": "at most"}, "2 rows lost, at most 149 rows doubled"),
        ({"lost": 2, "lost_bound": "unknown"}, ""),
        ({"lost": 0, "lost_bound": "exact"}, ""),
    ],
    ids=["lost", "and doubled", "of a bound that is not known", "none"],
)
def test_a_proof_that_failed_names_the_rows_that_it_counted(changes: dict[str, Any], cost: str) -> None:
    flow = f.flow()
    made = Recovery.objects.create(flow=flow, state="verifying", created_by="ada")
    measured = codec.to_json(f.proof(verified=False, **changes))
    moves.move(made, "needs_attention", measured=measured, reason="Not proven.")
    [doubt] = doubts_of([flow.pk], timezone.now()).values()
    assert (doubt.code, doubt.cost) == (DoubtCode.NOT_PROVEN, cost)
    assert doubt.word == (f"not proven, {cost}" if cost else "not proven")


def test_a_further_plan_or_a_second_measurement_ends_no_doubt_before_it_has_proven_the_table() -> None:
    flow = f.flow()
    made = Recovery.objects.create(flow=flow, state="verifying", created_by="ada")
    plan = Plan.objects.create(recovery=made, hash="1" * 64, body=plan_body(), sealed_by="ada")
    Step.objects.create(
        recovery=made, plan=plan, ordinal=1, kind="verify", state="done", idempotency_key="verify"
    )
    moves.move(made, "needs_attention", measured=codec.to_json(f.proof(verified=False)), reason="Not proven.")
    assert kept(flow) == ("not-proven", False)
    moves.move(made, "diagnosing", measured={}, reason="")  # as a further plan begins
    for state in ("diagnosing", "planned", "awaiting_approval", "approved", "running", "verifying"):
        Recovery.objects.filter(pk=made.pk).update(state=state)
        keep_table_doubts([flow.pk])
        assert (kept(flow), attention()) == (("not-proven", False), 1), state
        assert {d.code for d in doubts_of([flow.pk], timezone.now()).values()} == {DoubtCode.NOT_PROVEN}
    made.refresh_from_db()
    moves.move(made, "succeeded", measured=CLEAN)
    assert (kept(flow), attention()) == (("", False), 0)


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("ok", "table-differs"),
        ("running", "table-differs"),
        ("failed", ""),
        ("stopped", ""),
        ("stale", ""),
    ],
)
def test_a_list_shows_a_doubt_of_flows_that_are_ok_or_run(state: str, shown: str) -> None:
    """A stream that runs for weeks is never *ok* meanwhile."""
    flow = f.flow(state=state)
    prove(flow, DIFFERS)
    assert (kept(flow)[0], Listed.objects.get().doubt) == ("table-differs", shown)
    assert len(doubts_of([flow.pk], timezone.now())) == int(bool(shown))
    Flow.objects.update(state="ok")
    assert Listed.objects.get().doubt == "table-differs"


def test_people_are_told_once_that_a_table_differs_whatever_later_proofs_say_of_the_same() -> None:
    flow = f.flow()
    first = prove(flow, DIFFERS)
    message = Message.objects.get(event="flow.table_differs")
    assert message.body["facts"]["rows"] == "5 rows doubled"
    assert message.body["facts"]["shown_by"] == first.label
    prove(flow, DIFFERS)
    failed = fail_proof(flow)
    failed.refresh_from_db()
    moves.move(failed, "rolled_back")
    prove(flow, DIFFERS)
    Message.objects.filter(event="flow.table_differs").delete()  # as by age
    keep_table_doubts([flow.pk])
    assert told() == []


def test_a_table_that_was_right_in_between_is_told_of_again() -> None:
    flow = f.flow()
    for measured in (DIFFERS, CLEAN, DIFFERS):
        prove(flow, measured)
    assert len(told()) == 2


def test_an_upgrade_keeps_what_is_known_and_tells_nobody() -> None:
    flow = f.flow()
    Recovery.objects.create(
        flow=flow,
        state="succeeded",
        active=False,
        measured=DIFFERS,
        ended_at=timezone.now(),
        created_by="ada",
    )
    assert kept(flow) == ("", False)
    _on_migrate(type("Recovery", (), {"label": "recovery"}))
    assert (kept(flow), attention(), told()) == (("table-differs", True), 1, [])


def test_what_is_kept_is_what_pages_show() -> None:
    for state in PROVING:
        for measured in ({}, CLEAN, DIFFERS, ACCEPTED):
            flow = f.flow()
            Recovery.objects.create(
                flow=flow, state=state, active=state == "needs_attention", measured=measured, created_by="ada"
            )
    keep_table_doubts(Flow.objects.values_list("pk", flat=True))
    shown = doubts_of(Flow.objects.values_list("pk", flat=True), timezone.now())
    assert {pk: d.code for pk, d in shown.items()} == {
        pk: code for pk, code in Flow.objects.values_list("pk", "table_doubt") if code
    }


def numbers(now: datetime) -> dict[str, float]:
    (made,) = measure_doubts(now)
    assert made.name == "reprise_flows_in_doubt"
    return {s.labels["code"]: s.value for s in made.samples if s.value}


def test_a_monitor_reads_how_many_flows_are_in_doubt_by_the_gravest_of_each() -> None:
    now = timezone.now()
    assert {s.labels["code"] for made in measure_doubts(now) for s in made.samples} == set(DoubtCode)
    prove(f.flow(), DIFFERS)
    prove(f.flow(short="accepted"), ACCEPTED)
    prove(f.flow(short="clean"), CLEAN)
    prove(f.flow(short="failing", state="failed"), DIFFERS)
    gone = f.flow(short="gone")
    prove(gone, DIFFERS)
    f.source(gone, readable=False, until=None)
    f.source(f.flow(short="passed"), kind="files", readable=False, until=None)
    assert numbers(now) == {"table-differs": 1, "as-accepted": 1, "input-gone": 1, "passed-over": 1}
    Workspace.objects.update(poll_error="away")
    assert numbers(now) == {
        "table-differs": 1, "as-accepted": 1, "input-gone": 1, "passed-over": 1, "not-asked": 1
    }  # fmt: skip


def below_of(flow: Flow, **of_dataset: Any) -> tuple[Flow, Recovery]:
    """A streaming table that reads the flow's, and a recovery whose update has run, not proven yet."""
    below = f.flow(flow.pipeline, "below_flow", name="main.db.below")
    return below, rerun_above(flow, below, **of_dataset)


def rerun_above(flow: Flow, below: Flow, **of_dataset: Any) -> Recovery:
    dataset = {
        "dataset": below.dataset,
        "kind": "table",
        "effect": "unknown",
        "reason": "table_anew",
        **of_dataset,
    }
    made = Recovery.objects.create(flow=flow, state="verifying", created_by="ada")
    body = plan_body(forecast={"downstream": [dataset]})
    plan = Plan.objects.create(recovery=made, hash=f"{made.pk:064}", body=body, sealed_by="ada")
    Step.objects.create(
        recovery=made, plan=plan, ordinal=1, kind="rerun", state="done", idempotency_key=f"rerun {made.pk}",
        started_at=timezone.now(),
    )  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("of_dataset", "code"),
    [
        ({}, "fed-again"),
        ({"reason": "table_put_back"}, "fed-again"),
        ({"effect": "doubled", "reason": None, "rows": 4}, "fed-again"),
        ({"effect": "refreshed", "reason": None}, ""),
        ({"reason": "not_seen"}, ""),
        ({"kind": "view"}, ""),
    ],
    ids=["written again", "put back", "doubled", "refreshed", "never ran", "a view"],
)
def test_a_streaming_table_below_is_in_doubt_once_its_input_was_written_again(
    of_dataset: dict[str, Any], code: str
) -> None:
    below, made = below_of(f.flow(), **of_dataset)
    moves.move(made, "succeeded", measured=CLEAN)
    assert (kept(below), attention()) == ((code, False), 1 if code else 0)
    found = doubts_of([below.pk], timezone.now())
    assert [doubt.code.value for doubt in found.values()] == ([code] if code else [])


def test_the_doubt_below_ends_when_the_table_is_written_from_scratch_or_compared_whole() -> None:
    below, made = below_of(f.flow())
    moves.move(made, "succeeded", measured=CLEAN)
    Flow.objects.filter(pk=below.pk).update(rewritten_at=timezone.now())
    keep_table_doubts([below.pk])
    assert kept(below) == ("", False)
    Flow.objects.filter(pk=below.pk).update(rewritten_at=None)
    keep_table_doubts([below.pk])
    assert kept(below) == ("fed-again", False)
    prove(below, CLEAN)
    assert kept(below) == ("", False)


def test_the_doubt_below_goes_with_the_rollback_of_what_made_it() -> None:
    below, made = below_of(f.flow())
    moves.move(made, "needs_attention", reason="Not proven.")
    assert kept(below) == ("fed-again", False)
    made.refresh_from_db()
    moves.move(made, "rolled_back")
    assert kept(below) == ("", False)


def test_the_rollback_of_one_recovery_leaves_the_doubt_that_an_earlier_one_made() -> None:
    flow = f.flow()
    below, first = below_of(flow)
    moves.move(first, "succeeded", measured=CLEAN)
    second = rerun_above(flow, below)
    moves.move(second, "needs_attention", reason="Not proven.")
    below.refresh_from_db()
    assert below.fed_again_by == second.pk
    second.refresh_from_db()
    moves.move(second, "rolled_back")
    assert kept(below) == ("fed-again", False)
    assert below.fed_again_by == first.pk


def test_a_run_that_goes_on_after_the_table_below_was_written_from_scratch_is_a_new_doubt() -> None:
    below, made = below_of(f.flow())
    moves.move(made, "needs_attention", reason="Not proven.")
    Flow.objects.filter(pk=below.pk).update(rewritten_at=timezone.now())
    Step.objects.filter(recovery=made).update(started_at=timezone.now())
    made.refresh_from_db()
    moves.move(made, "running")
    assert kept(below) == ("fed-again", False)


def test_a_proof_of_the_whole_table_settles_what_its_updates_passed_over_and_a_rollback_opens_it() -> None:
    flow = f.flow(state="running")
    loss = {"condition": "SINK_PASSED_OVER", "since": "", "update": "u-1"}
    Flow.objects.filter(pk=flow.pk).update(sink_memory={"update": "u-1", "loss": loss})
    keep_table_doubts([flow.pk])
    assert kept(flow) == ("rows-lost", False)
    Flow.objects.filter(pk=flow.pk).update(state="failed", condition="SINK_PASSED_OVER")
    proven = prove(flow, CLEAN)
    flow.refresh_from_db()
    assert (kept(flow), flow.state, flow.condition) == (("", False), "ok", "")
    proven.refresh_from_db()
    moves.move(proven, "rolled_back")
    assert kept(flow) == ("rows-lost", False)
