"""Recoveries that ran: void, running, unknown, failed, proven, not proven, rolled back."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from recovery.models import Flow, Recovery, Step
from tests.factories.flows import PATH, ago
from tests.factories.judged import CRITERIA
from tests.factories.wizard import opened, planned, step


def void(of: Flow | None = None) -> Recovery:
    """A plan that drift voided when it was started: nothing ran."""
    made = planned(of)
    plan = made.plans.get()
    drift = [
        {
            "what": "code",
            "planned": "7d20b91c",
            "now": "03aa1f77",
            "says": f"{PATH} was edited since the plan was made.",
        }
    ]
    plan.voided_at, plan.drift = ago(seconds=40), drift
    plan.save()
    made.steps.filter(plan=plan).update(state="skipped")
    first = made.steps.filter(plan=plan, kind="stop")
    first.update(state="failed", problem="The plan is void.", attempt=1)
    return into(made, "diagnosing", reason="The plan is void.")


def into(of: Recovery, state: str, **values: Any) -> Recovery:
    active = state not in ("succeeded", "unproven", "cancelled", "expired", "rolled_back", "failed")
    Recovery.objects.filter(pk=of.pk).update(
        state=state, active=active, ended_at=None if active else timezone.now(), **values
    )
    of.refresh_from_db()
    return of


def advance(of: Recovery, until: str, state: str, **values: Any) -> None:
    """Steps of the plan before `until` are done; `until` is in `state`."""
    begun = ago(seconds=14)
    log = {
        "stop": "Still stopped: no update is active. Checkpoint, code and table are as sealed.",
        "backup": "Kept and read back: 1 source file, 301 bytes. The checkpoint goes back to version 0, batch 2.",
        "seed": "Renamed to version 1. Version 0 is untouched.",
        "patch": "1 file written and read back.",
        "rerun": "Update 7c1f02d4 is COMPLETED. COMPLETED is not yet proof.",
    }
    for one in of.steps.filter(plan__isnull=False).order_by("ordinal"):
        if one.kind == until:
            given = {
                "state": state,
                "attempt": 1,
                "started_at": begun,
                "heartbeat_at": timezone.now(),
                "worker": "host:4711",
                "deadline": ago(minutes=-10),
                "log": [[begun.isoformat(), "Update 7c1f02d4 accepted. Accepted is not yet success."]],
                "result": {"update_id": "7c1f02d4"},
                **values,
            }
            if state in ("done", "failed"):
                given["ended_at"] = timezone.now()
            Step.objects.filter(pk=one.pk).update(**given)
            return
        Step.objects.filter(pk=one.pk).update(
            state="done",
            attempt=1,
            started_at=begun,
            ended_at=begun + timedelta(seconds=0.4),
            log=[[begun.isoformat(), log.get(one.kind, "Done.")]],
            result={"version": 1, "from_version": 0, "last_committed": 2} if one.kind == "seed" else {},
        )


def running(of: Flow | None = None, strategy: str = "continue") -> Recovery:
    made = planned(of, strategy)
    advance(made, "rerun", "running")
    return into(made, "running")


def unknown(of: Flow | None = None) -> Recovery:
    made = planned(of)
    advance(
        made,
        "rerun",
        "unknown",
        problem="Its worker (host:4711) has given no sign of life since 03:24:02 UTC.",
        evidence=[
            {"proven": True, "says": "Batch 3 is not in the table: its log ends at 2."},
            {"proven": True, "says": "Version 1 is in use; version 0 is untouched."},
            {"proven": None, "says": "Whether update 7c1f02d4 still runs could not be read."},
            {"proven": False, "says": "Update 7c1f02d4 did not end."},
        ],
    )
    return into(made, "needs_attention", reason="Step rerun is unknown.")


def failed_step(of: Flow | None = None) -> Recovery:
    made = planned(of)
    advance(
        made,
        "seed",
        "failed",
        problem="There is no space left in the checkpoint's storage. Free some, then resume.",
    )
    return into(made, "needs_attention", reason="There is no space left in the checkpoint's storage.")


def halted(of: Flow | None = None) -> Recovery:
    """Somebody stopped the run; the step after the reset did not begin."""
    made = planned(of)
    advance(made, "rerun", "pending", attempt=0, started_at=None, heartbeat_at=None, log=[], result={})
    halt = {"by": "responder", "at": ago(seconds=20).isoformat()}
    says = "responder stopped the run before step rerun. That step and those after it did not begin."
    return into(made, "needs_attention", reason=says, choices={**made.choices, "halt": halt})


def paused(of: Flow | None = None) -> Recovery:
    """Somebody paused the run; its rerun goes on to its end."""
    halt = {"by": "responder", "at": ago(seconds=5).isoformat(), "when": "step"}
    made = running(of)
    return into(made, "running", choices={**made.choices, "halt": halt})


def measured(verified: bool = True) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {
        "FIRST_BATCH_AT_POSITION": {"batch": 3, "offsets": ['{"logOffset":2}']},
        "EACH_FILE_ONCE": {"files": 7, "twice": 0, "missing": 0},
        "TABLE_GREW_BY_NEW_BATCHES": {"before": 12, "after": 20 if verified else 18},
        "EVERY_ROW_ONCE": {"missing": 0 if verified else 2, "extra": 0},
        "COUNTS_EQUAL_FORECAST": {"new_rows": 8 if verified else 6},
        "FURTHER_UPDATE_ADDS_NOTHING": {"rows": 0},
    }
    wrong = () if verified else ("EVERY_ROW_ONCE", "COUNTS_EQUAL_FORECAST")
    return {
        "verified": verified,
        "at": timezone.now().isoformat(),
        "criteria": [
            {
                **c,
                "measured": found[str(c["code"])],
                "ok": c["code"] not in wrong,
                "why": "2 expected rows are not in the table." if c["code"] in wrong else "Equal.",
            }
            for c in CRITERIA
        ],
        "new_rows": 8 if verified else 6,
        "table_rows": 20 if verified else 18,
        "samples": {}
        if verified
        else {
            "missing": [{"customer_id": 1004, "sequence_num": 3}, {"customer_id": 1007, "sequence_num": 2}]
        },
    }


def verified(of: Flow | None = None, strategy: str = "continue") -> Recovery:
    made = planned(of, strategy)
    advance(made, "verify", "done", result={"measured": measured()})
    return into(made, "succeeded", measured=measured(), reason="Every criterion of the plan holds.")


def not_proven(of: Flow | None = None) -> Recovery:
    made = planned(of)
    advance(made, "verify", "done", result={"measured": measured(False)})
    return into(
        made,
        "needs_attention",
        measured=measured(False),
        reason="Not proven: EVERY_ROW_ONCE, COUNTS_EQUAL_FORECAST.",
    )


def unproven(of: Flow | None = None) -> Recovery:
    """A proof that did not hold, given up by a person."""
    made = not_proven(of)
    told = {"by": "responder", "reason": "Two rows were mended by hand.", "at": ago(seconds=30).isoformat()}
    line = [told["at"], f"Skipped by responder: {told['reason']}"]
    step(made, "verify", "skipped", plan=made.plans.get(), result={"skipped": told}, log=[line])
    says = (
        "When last measured, not proven were: EVERY_ROW_ONCE, COUNTS_EQUAL_FORECAST. "
        f"Step verify was skipped by responder: {told['reason']}"
    )
    return into(made, "unproven", reason=says)


def rolled_back(of: Flow | None = None) -> Recovery:
    made = failed_step(of)
    step(made, "rollback", "done", plan=made.plans.get(), says="Undo the reset and write the source back.")
    return into(made, "rolled_back", reason="Rolled back: what could be undone was undone.")


def cancelled(of: Flow | None = None) -> Recovery:
    return into(opened(of), "cancelled", reason="Opened for the wrong flow.")
