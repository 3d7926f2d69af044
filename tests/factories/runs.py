"""Recoveries that ran: void, running, unknown, failed, proven, not proven, rolled back."""

from copy import deepcopy
from datetime import timedelta
from typing import Any

from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.measured import (
    AcceptedRows,
    ChangedFile,
    ChangedFiles,
    FileMark,
    Measured,
    MeasuredOutcome,
    RowOrigin,
    WholeComparison,
)
from recovery.models import Flow, Plan, Recovery, Step
from recovery.spark.api import FROM_OLD_CODE
from recovery.verification.evidence import WholeFlow
from recovery.verification.outcome import compared_whole
from tests.factories.flows import PATH, ago
from tests.factories.judged import CRITERIA, amount
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
    at = timezone.now().isoformat()
    readings = [
        {"asked": asked, "proven": proven, "says": says, "at": at}
        for asked, proven, says in (
            ("effect", None, "Whether update 7c1f02d4 still runs could not be read."),
            ("worker", True, "host:4711 gave its last sign of life at 03:24:02 UTC."),
            (
                "lock",
                True,
                f"{made.label} holds the flow: no other recovery of it begins. Fence 7: a worker with an "
                "older one changes nothing.",
            ),
            ("active", None, "The Pipelines API at https://dev-eu.example does not answer in time."),
            (
                "query",
                None,
                "Not asked: The Pipelines API at https://dev-eu.example does not answer in time.",
            ),
            (
                "last_event",
                None,
                "Not asked: The Pipelines API at https://dev-eu.example does not answer in time.",
            ),
            (
                "others",
                None,
                "Not asked: The Pipelines API at https://dev-eu.example does not answer in time.",
            ),
            ("checkpoint", True, "Version 1: batch 2 committed last, batch 3 planned and not committed."),
            ("old_version", True, "Version 0 is as the plan sealed it: 91b00000."),
            ("table", True, "The table's log ends at batch 2."),
            ("spark", None, "Spark does not answer."),
            ("rows", None, "Not asked: Spark does not answer."),
        )
    ]
    following = ago(seconds=-22).isoformat()
    probe = {"number": 1, "began": at, "ended": at, "readings": readings, "following": following}
    advance(
        made,
        "rerun",
        "unknown",
        result={"update_id": "7c1f02d4", "probe": probe},
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


def measured(verified: bool = True, *, repeats: int = 0) -> dict[str, Any]:
    """`repeats`: rows that the plan accepted to be there twice."""
    new = 8 if verified else 6
    found: dict[str, dict[str, Any]] = {
        "FIRST_BATCH_AT_POSITION": {"batch": 3, "offsets": ['{"logOffset":2}']},
        "EACH_FILE_ONCE": {"files": 7, "missing": 0, "more_than_once": 0},
        "ROWS_OF_BEFORE_UNTOUCHED": {"rows": 12, "files": 4, "touched": 0, "rewritten": 0},
        "TABLE_GREW_BY_NEW_BATCHES": {"before": 12, "after": 12 + new, "new_batches": new},
        "EVERY_ROW_ONCE": {
            "expected": 8,
            "found": new,
            "missing": 8 - new,
            "extra": 0,
            "repeats_added": repeats,
        },
        "NO_KEY_TWICE": {"rows": repeats, "keys": repeats, "accepted": repeats, "table_keys": 20 - repeats},
        "COUNTS_EQUAL_FORECAST": {"new_rows": new},
        "FURTHER_UPDATE_ADDS_NOTHING": {"rows_before": 12 + new, "rows_after": 12 + new, "data_files": 0},
    }
    why = {
        "EVERY_ROW_ONCE": "8 new rows, identified by customer_id, sequence_num.",
        "NO_KEY_TWICE": "Every key that the new rows have was looked for in the whole table.",
        "COUNTS_EQUAL_FORECAST": "Counted on Spark, equal to the plan.",
        "TABLE_GREW_BY_NEW_BATCHES": f"The table grew from 12 to {12 + new} rows.",
    }
    wrong = () if verified else ("EVERY_ROW_ONCE", "COUNTS_EQUAL_FORECAST")
    return {
        "verified": verified,
        "at": timezone.now().isoformat(),
        "criteria": [
            {
                **_accepting(c, repeats),
                "measured": found[str(c["code"])],
                "ok": c["code"] not in wrong,
                "why": "2 expected rows are not in the table."
                if c["code"] in wrong
                else why.get(str(c["code"]), ""),
            }
            for c in CRITERIA
        ],
        **codec.to_json(_outcome(verified=verified, repeats=repeats)),
    }


def proof(verified: bool = True, *, repeats: int = 0, **changes: Any) -> Measured:
    """The same as a value, but for what is named: as it is stored."""
    return codec.read(Measured, {**measured(verified, repeats=repeats), **changes})


def _accepting(criterion: dict[str, Any], repeats: int) -> dict[str, Any]:
    """The criterion of a plan that accepts so many repeats."""
    if criterion["code"] != "NO_KEY_TWICE":
        return criterion
    return {
        **criterion,
        "expected": {**criterion["expected"], "accepted": {"rows": repeats, "bound": "exact"}},
    }


def _outcome(*, verified: bool, repeats: int) -> MeasuredOutcome:
    missing = [
        {"key": {"customer_id": c, "sequence_num": n}, "times": 1} for c, n in (("1004", "3"), ("1007", "2"))
    ]
    keys, lost = (20 if verified else 18) - repeats, 0 if verified else 2
    whole = WholeComparison(21, keys + lost, 20 - lost, keys, lost, repeats, 0)
    flow = WholeFlow(files=7, gone=1 if repeats else 0, size=4_812)
    return MeasuredOutcome(
        new_rows=8 - lost, expected_rows=8, before_rows=12, table_rows=20 - lost, table_keys=keys,
        lost=lost, lost_bound=Bound.EXACT, lost_before=0, doubled=repeats, doubled_bound=Bound.EXACT, doubled_before=0,
        doubled_accepted=AcceptedRows(rows=repeats), key=("customer_id", "sequence_num"), key_from=FROM_OLD_CODE,
        samples={} if verified else {"missing": missing}, whole=compared_whole(flow, whole),
        **({} if verified else _written_again()),
    )  # fmt: skip


def _written_again() -> dict[str, Any]:
    """The missing rows come from a file that was written again after it was read."""
    path = "file:///data/crm/changes/changes-0006.json"
    read = int(ago(minutes=63).timestamp() * 1000)
    changed = ChangedFile(path, FileMark(702, read), FileMark(None, read), FileMark(702, read + 3_777_000))
    return {
        "origins": (RowOrigin(0, path, (2,), 3), RowOrigin(1, path, (1, 3), 3)),
        "changed_files": ChangedFiles(1, 3, (changed,)),
        "owners": {path: "svc-crm-export"},
    }


def verified(of: Flow | None = None, strategy: str = "continue") -> Recovery:
    made = planned(of, strategy)
    advance(made, "verify", "done", result={"measured": measured()})
    return into(made, "succeeded", measured=measured(), reason="Every criterion of the plan holds.")


def within_limits(of: Flow | None = None) -> Recovery:
    """Proven, on a table whose keys were not all counted, as it is larger than a limit."""
    made = planned(of)
    told = {"by": "grouping", "size": 9_000_000_000, "limit": 134_217_728, "seconds": None}
    found = {
        **measured(),
        "bounded": [told],
        "doubled_bound": "at least",
        "doubled_before": None,
        "table_keys": None,
    }
    advance(made, "verify", "done", result={"measured": found})
    return into(made, "succeeded", measured=found, reason="Every criterion of the plan holds.")


def repeated(of: Flow | None = None) -> Recovery:
    """Proven, with rows that are there twice, as the plan accepted."""
    made, found = planned(of), measured(repeats=6)
    plan = made.plans.get()
    body = deepcopy(plan.body)
    body["forecast"]["doubled"] = amount(6, why="Source 0 starts before its committed position.")
    body["accepted"] = {
        "loss": False,
        "repeats": True,
        "by": "responder",
        "reason": "Twice is better than missing.",
    }
    next(c for c in body["criteria"] if c["code"] == "NO_KEY_TWICE")["expected"]["accepted"]["rows"] = 6
    Plan.objects.filter(pk=plan.pk).update(body=body)
    advance(made, "verify", "done", result={"measured": found})
    says = "Every criterion of the plan holds. 8 new rows are in the table."
    return into(made, "succeeded", measured=found, reason=says)


def not_proven(of: Flow | None = None) -> Recovery:
    made = planned(of)
    advance(made, "verify", "done", result={"measured": measured(False)})
    return into(
        made,
        "needs_attention",
        measured=measured(False),
        reason="Not proven: EVERY_ROW_ONCE, COUNTS_EQUAL_FORECAST.",
    )


def rows_missing(
    of: Flow | None = None, *, kind: str = "delta", key: tuple[str, ...] = ("customer_id", "sequence_num")
) -> Recovery:
    """A proof that did not find rows in a table of this kind."""
    made = not_proven(of)
    plan = made.plans.get()
    sink = {**plan.body["sink"], "kind": kind}
    Plan.objects.filter(pk=plan.pk).update(body={**plan.body, "sink": sink, "key": list(key)})
    Step.objects.filter(recovery=made, state="pending").update(state="skipped")
    return made


def rows_repeated(of: Flow | None = None, *, missing: int = 0) -> Recovery:
    """A proof that found 3 rows too often in a Delta table, each with a key of a new row."""
    made = rows_missing(of)
    samples = {
        "extra": [{"key": {"customer_id": c, "sequence_num": n}, "times": t} for c, n, t in
                  (("1004", "3", 2), ("1007", "2", 1))],
    }  # fmt: skip
    numbers: dict[str, dict[str, Any]] = {
        "TABLE_GREW_BY_NEW_BATCHES": {"before": 12, "after": 23, "new_batches": 11},
        "EVERY_ROW_ONCE": {"expected": 8, "found": 11, "missing": missing, "extra": 3, "repeats_added": 3},
        "NO_KEY_TWICE": {"rows": 3, "keys": 2, "accepted": 0, "table_keys": 20},
        "COUNTS_EQUAL_FORECAST": {"new_rows": 11},
        "FURTHER_UPDATE_ADDS_NOTHING": {"rows_before": 23, "rows_after": 23, "data_files": 0},
    }
    fails = ("EVERY_ROW_ONCE", "NO_KEY_TWICE", "COUNTS_EQUAL_FORECAST")
    says = {
        "TABLE_GREW_BY_NEW_BATCHES": "The table grew from 12 to 23 rows.",
        "EVERY_ROW_ONCE": "3 rows are in the table that the code does not yield.",
        "NO_KEY_TWICE": "3 rows repeat a key (customer_id, sequence_num): 2 keys of new rows are in the table more "
        "than once. The plan accepts 0 rows.",
        "COUNTS_EQUAL_FORECAST": "Not as forecast: new rows: 11 instead of 8.",
    }
    proven = measured()
    proven["criteria"] = [
        {**c, "measured": numbers.get(c["code"], c["measured"]), "ok": c["code"] not in fails,
         "why": says.get(c["code"], c["why"])}
        for c in proven["criteria"]
    ]  # fmt: skip
    proven |= {
        "verified": False,
        "new_rows": 11,
        "table_rows": 23,
        "doubled": 3,
        "lost": missing,
        "samples": samples,
        "whole": {**proven["whole"], "table_rows": 23, "doubled": 3},
    }
    Step.objects.filter(recovery=made, kind="verify").update(result={"measured": proven})
    return into(
        made,
        "needs_attention",
        measured=proven,
        reason="Not proven: EVERY_ROW_ONCE, NO_KEY_TWICE, COUNTS_EQUAL_FORECAST.",
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
