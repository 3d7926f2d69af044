"""A further plan is made in a recovery whose proof does not hold, and is given up where it did nothing."""

from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.measured import Measured
from recovery.contracts.names import Strategy
from recovery.errors import Denied
from recovery.models import AuditEntry, Plan, Recovery, Step
from recovery.planning.actions import begin_further_plan
from recovery.planning.plan_now import fits_further
from recovery.workflow import actions, backups, further, selectors, topping
from tests.factories.plans import plan_body
from tests.refusals import refused
from tests.unit.workflow.rows import RESPONDER, VIEWER, plan, recovery

pytestmark = pytest.mark.django_db

LACKS = {
    "verified": False,
    "criteria": [{"code": "EVERY_ROW_ONCE", "ok": False, "measured": {"missing": 2, "extra": 0}}],
}


def not_proven(state: str = "needs_attention", **choices: Any) -> tuple[Recovery, Plan]:
    """A recovery whose plan has run, and whose proof did not find two rows."""
    of = recovery(state, strategy="continue", measured=LACKS, choices={"strategy": "continue", **choices})
    ran = plan(of, "stop", "seed", "rerun", "verify")
    ran.body = plan_body(strategy="continue", dataset=of.flow.dataset)
    ran.save()
    of.steps.update(state="done")
    of.steps.filter(kind="verify").update(result={"measured": LACKS})
    return of, ran


STEPS: dict[str, dict[str, Any]] = {
    "top-up": {"kind": "fill", "says": "", "args": {"rows_of": "input", "rows": 2}},
    "deduplicate": {"kind": "deduplicate", "says": "", "args": {"rows": 2}},
}


def seal_further(
    of: Recovery,
    state: str = "planned",
    change: str = "pending",
    stop: str = "pending",
    strategy: str = "top-up",
) -> Plan:
    """A plan of this strategy in the same recovery. `change`: the state of the step that changes the table."""
    body = plan_body(strategy=strategy, steps=[STEPS[strategy]])
    made = Plan.objects.create(recovery=of, hash="e" * 64, body=body, sealed_by="ada")
    for number, (kind, as_it_is) in enumerate(
        (("stop", stop), (STEPS[strategy]["kind"], change), ("verify", "pending")), start=9
    ):
        Step.objects.create(
            recovery=of, plan=made, ordinal=number, kind=kind, state=as_it_is, idempotency_key=f"f-{number}"
        )
    Recovery.objects.filter(pk=of.pk).update(state=state, strategy=strategy, measured={})
    of.refresh_from_db()
    return made


@pytest.mark.parametrize("strategy", [Strategy.TOP_UP, Strategy.DEDUPLICATE])
def test_a_further_plan_takes_the_recovery_back_and_keeps_the_plan_that_ran(strategy: Strategy) -> None:
    of, ran = not_proven(patch={"/a.py": "x"}, positions={})

    begin_further_plan(recovery_id=of.pk, strategy=strategy, by=RESPONDER)

    of.refresh_from_db()
    ran.refresh_from_db()
    assert (of.state, of.measured, of.active) == ("diagnosing", {}, True)
    assert (of.chosen.strategy, of.chosen.patch) == (strategy, {})
    assert ran.voided_at is None
    assert selectors.plan_of(of) is None
    assert further.earlier_plan(of) == ran
    assert (
        AuditEntry.objects.filter(action="recovery.further", outcome="done", recovery=of.label).count() == 1
    )


@pytest.mark.parametrize("step", ["failed", "unknown", "pending"])
def test_a_proof_that_was_not_measured_to_its_end_is_no_ground_for_one(step: str) -> None:
    of, _ = not_proven()
    of.steps.filter(kind="verify").update(state=step)
    with refused("no_further"):
        begin_further_plan(recovery_id=of.pk, strategy=Strategy.TOP_UP, by=RESPONDER)


@pytest.mark.parametrize(
    "state", ["diagnosing", "planned", "running", "succeeded", "unproven", "rolled_back"]
)
def test_only_a_recovery_that_waits_for_a_person_gets_one(state: str) -> None:
    of, _ = not_proven()
    Recovery.objects.filter(pk=of.pk).update(state=state)
    with refused("wrong_state"):
        begin_further_plan(recovery_id=of.pk, strategy=Strategy.TOP_UP, by=RESPONDER)


def test_who_may_not_recover_begins_none() -> None:
    of, _ = not_proven()
    with pytest.raises(Denied):
        begin_further_plan(recovery_id=of.pk, strategy=Strategy.TOP_UP, by=VIEWER)
    of.refresh_from_db()
    assert of.state == "needs_attention"


@pytest.mark.parametrize(
    ("state", "stop", "fill"),
    [
        ("diagnosing", "skipped", "skipped"),
        ("planned", "pending", "pending"),
        ("needs_attention", "failed", "pending"),
    ],
)
def test_giving_it_up_puts_the_plan_before_and_its_proof_in_force_again(
    state: str, stop: str, fill: str
) -> None:
    of, ran = not_proven()
    made = seal_further(of, state, fill, stop)
    if state == "diagnosing":  # taken back, or never sealed
        Plan.objects.filter(pk=made.pk).update(voided_at=timezone.now())

    actions.cancel(recovery_id=of.pk, by=RESPONDER, reason="not now")

    of.refresh_from_db()
    assert (of.state, of.strategy, of.measured) == ("needs_attention", "continue", LACKS)
    assert selectors.plan_of(of) == ran
    assert not of.plans.filter(pk=made.pk, voided_at=None).exists()


@pytest.mark.parametrize("strategy", STEPS)
@pytest.mark.parametrize(("commit", "is_given_up"), [(None, True), (8, False)])
def test_one_whose_change_failed_is_given_up_where_the_table_has_no_commit_of_it(
    monkeypatch: pytest.MonkeyPatch, commit: int | None, is_given_up: bool, strategy: str
) -> None:
    of, _ = not_proven()
    made = seal_further(of, "needs_attention", "failed", "done", strategy)
    made.steps.filter(kind="stop").update(result={"others": {}, "sink_version": 7})
    monkeypatch.setattr(backups, "find_commit", lambda plan, since: commit)
    assert further.may_be_given_up(of) is is_given_up


def test_a_plan_that_its_fill_found_void_leaves_a_recovery_that_can_be_ended() -> None:
    of = recovery("diagnosing")
    made = plan(of, "stop", "fill")
    made.voided_at = timezone.now()
    made.save()
    of.steps.filter(kind="fill").update(state="failed")
    actions.cancel(recovery_id=of.pk, by=RESPONDER, reason="something else writes")
    of.refresh_from_db()
    assert of.state == "cancelled"


@pytest.mark.parametrize("strategy", STEPS)
@pytest.mark.parametrize("change", ["running", "unknown", "done"])
def test_one_that_may_have_written_is_not_given_up(change: str, strategy: str) -> None:
    of, _ = not_proven()
    seal_further(of, "needs_attention", change, "done", strategy)
    assert not further.may_be_given_up(of)
    with refused("touched"):
        actions.cancel(recovery_id=of.pk, by=RESPONDER, reason="not now")


def test_a_recovery_that_has_changed_nothing_ends_as_before() -> None:
    of = recovery("planned")
    plan(of, "stop", "seed")
    actions.cancel(recovery_id=of.pk, by=RESPONDER, reason="wrong flow")
    of.refresh_from_db()
    assert of.state == "cancelled"


def test_taking_a_sealed_one_back_leaves_the_plan_that_ran() -> None:
    of, ran = not_proven()
    made = seal_further(of)
    actions.edit_again(recovery_id=of.pk, by=RESPONDER)
    ran.refresh_from_db()
    made.refresh_from_db()
    assert (ran.voided_at, made.voided_at is None) == (None, False)


@pytest.mark.parametrize(
    ("strategy", "state", "fits"),
    [
        ("top-up", "needs_attention", True),
        ("deduplicate", "needs_attention", True),
        ("top-up", "diagnosing", False),
        ("deduplicate", "diagnosing", False),
        ("continue", "needs_attention", False),
    ],
)
def test_naming_what_corrects_a_table_asks_for_one_where_a_proof_does_not_hold(
    strategy: str, state: str, fits: bool
) -> None:
    assert fits_further(recovery(state), strategy) is fits


MEASURED: list[tuple[dict[str, Any], int | None]] = [
    (LACKS, 2),
    ({**LACKS, "verified": True}, None),
    ({}, None),
    ({"verified": False, "criteria": [{"code": "EVERY_ROW_ONCE", "ok": None, "measured": None}]}, None),
    (
        {
            "verified": False,
            "criteria": [{"code": "EVERY_ROW_ONCE", "ok": False, "measured": {"missing": 0}}],
        },
        None,
    ),
    ({"verified": False, "criteria": [{"code": "TABLE_HAS_EVERY_ROW", "measured": {"missing": 5}}]}, 5),
]


@pytest.mark.parametrize(("measured", "missing"), MEASURED)
def test_a_proof_says_how_many_rows_it_did_not_find(measured: dict[str, Any], missing: int | None) -> None:
    assert topping.missing_in(codec.read(Measured, measured)) == missing


def test_the_newest_proof_of_a_flow_counts_unless_it_was_rolled_back() -> None:
    of, _ = not_proven()
    assert topping.missing_in(topping.newest_proof(of.flow)) == 2
    Recovery.objects.filter(pk=of.pk).update(state="rolled_back", active=False)
    assert topping.newest_proof(of.flow) is None


def found(code: str, ok: bool | None, **measured: int) -> dict[str, Any]:
    return {"verified": False, "criteria": [{"code": code, "ok": ok, "measured": measured}]}


@pytest.mark.parametrize(
    ("measured", "repeated"),
    [
        (LACKS, None),
        ({}, None),
        (found("NO_KEY_TWICE", False, rows=3), 3),
        (found("NO_KEY_TWICE", True, rows=3), None),
        (found("NO_KEY_TWICE", None, rows=3), None),
        (found("TABLE_HAS_EVERY_ROW", False, missing=0, extra=2), 2),
        (found("EVERY_ROW_ONCE", False, missing=1, extra=1), None),
    ],
)
def test_a_proof_says_how_many_rows_it_found_too_often(
    measured: dict[str, Any], repeated: int | None
) -> None:
    """Rows that are wrong in another column are none that repeat, and repeats that a plan accepted are no fault."""
    assert topping.repeated_in(codec.read(Measured, measured)) == repeated
