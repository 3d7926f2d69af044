"""Recoveries on their way through the wizard, up to a sealed plan."""

import hashlib
from datetime import timedelta
from typing import Any

from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.acceptance import Acceptance, Accepted, Cost, Effect
from recovery.contracts.amounts import Bound
from recovery.contracts.codec import seal
from recovery.models import Flow, Hold, Plan, Recovery, Step
from recovery.pipelines.listing import together
from recovery.workflow.accepting import NotAccepted
from tests.factories.flows import CODE, OLD_CODE, PATH, ago, incident
from tests.factories.judged import STORED_DIAGNOSIS, facts, options
from tests.factories.plans import plan_body


@together()
def opened(of: Flow | None = None, **values: Any) -> Recovery:
    """A recovery just opened: diagnosed, nothing else."""
    given = {
        "diagnosis": STORED_DIAGNOSIS,
        "facts": {"status": "none"},
        "created_by": "responder",
        "owner": "responder",
        **values,
    }
    return Recovery.objects.create(flow=of or incident(), **given)


def step(of: Recovery, kind: str, state: str = "pending", **values: Any) -> Step:
    number = of.steps.count() + 1
    begun = state not in ("pending", "skipped")
    given = {
        "says": {"stop": "Stop the pipeline and prove that nothing runs."}.get(kind, f"Step {kind}."),
        "attempt": 1 if begun else 0,
        "fence": 1 if begun else 0,
        "started_at": ago(seconds=9) if begun else None,
        "heartbeat_at": ago(seconds=1) if begun else None,
        "ended_at": ago(seconds=7) if state in ("done", "failed") else None,
        "deadline": ago(minutes=-5) if state == "running" else None,
        "worker": "host:4711" if begun else "",
        **values,
    }
    return Step.objects.create(
        recovery=of,
        ordinal=number,
        kind=kind,
        state=state,
        idempotency_key=f"{of.pk}-{number}-{kind}",
        **given,
    )


def stopped(of: Recovery) -> Step:
    """The early stop, done."""
    at = ago(minutes=4)
    return step(
        of,
        "stop",
        "done",
        started_at=at,
        ended_at=at + timedelta(seconds=1.8),
        result={"was": "running", "update_id": "u-4", "ended": "CANCELED", "seconds": 1.8},
        log=[
            [at.isoformat(), "Stop of update u-4 accepted. Accepted is not yet stopped."],
            [at.isoformat(), "Read back: update u-4 is CANCELED, no update is active. 1.8 s."],
        ],
    )


def hold(of: Recovery, state: str = "paused", **values: Any) -> Hold:
    """A nightly job that was paused for this recovery."""
    was = {"quartz_cron_expression": "0 0 3 * * ?", "timezone_id": "UTC", "pause_status": "UNPAUSED"}
    return Hold.objects.create(
        pipeline=of.flow.pipeline,
        recovery=of,
        job_id=7,
        name="nightly",
        way="schedule",
        was=was,
        state=state,
        **values,
    )


def with_jobs(of: Flow | None = None) -> Recovery:
    """Stopped, with a job paused for it."""
    made = at_offset(of)
    hold(made)
    return made


def at_offset(of: Flow | None = None, **values: Any) -> Recovery:
    """Stopped, facts gathered, nothing chosen."""
    made = opened(of, **{"facts": facts(), **values})
    stopped(made)
    return made


def choices(strategy: str = "continue", **values: Any) -> dict[str, Any]:
    return {"strategy": strategy, "key": [], **values}


def at_patch(of: Flow | None = None, strategy: str = "continue", **values: Any) -> Recovery:
    return at_offset(of, **{"choices": choices(strategy), **values})


def at_review(of: Flow | None = None, strategy: str = "continue", **values: Any) -> Recovery:
    """The patch is kept; no plan yet."""
    return at_offset(of, **{"choices": choices(strategy, patch={}), **values})


STATE_ROWS = Cost(
    effect=Effect.LOSS,
    rows=9,
    bound=Bound.EXACT,
    why="9 groups of windows that end after 2026-11-22 19:04:10.000 UTC, the watermark, are in the state of operator 0 "
    "and in no table.",
)


def to_accept(of: Flow | None = None, *costs: Cost) -> Recovery:
    """No plan was sealed: it would lose rows, and that is not accepted."""
    refused = NotAccepted(costs or (STATE_ROWS,))
    told = {"status": "failed", "problem": refused.sentence, "code": refused.code}
    sealing = {**told, "costs": [codec.to_json(c) for c in refused.costs]}
    found = facts()
    counted = [
        {**o, "forecast": {**o["forecast"], "lost": _lost()}} if o["strategy"] == "continue" else o
        for o in found["options"]
    ]
    return at_offset(of, facts={**found, "options": counted}, choices=choices(patch={}, sealing=sealing))


def _lost() -> dict[str, Any]:
    """Nine groups of three open windows."""
    windows: list[dict[str, Any]] = [
        {"start_ms": start, "end_ms": start + 3_600_000, "groups": 3}
        for start in range(1_795_374_000_000, 1_795_374_000_000 + 3 * 3_600_000, 3_600_000)
    ]
    windows[0]["first"] = [_group("Berlin", 14), _group("Lyon", 5)]
    said = {"rows": 9, "files": 0, "from": None, "to": None, "exact": True, "why": STATE_ROWS.why}
    return {**said, "windows": windows}


def _group(city: str, count: int) -> dict[str, Any]:
    return {"key": [{"name": "city", "text": city}], "so_far": [{"name": "count", "text": str(count)}]}


def losing(of: Flow | None = None) -> Recovery:
    """A sealed plan that loses rows, as somebody has accepted."""
    made = at_review(of)
    lost = _lost()
    held = Accepted(
        loss=Acceptance(
            effect=Effect.LOSS,
            by="responder",
            reason="The windows are counted by hand.",
            rows=9,
            bound=Bound.EXACT,
        )
    )
    written = body(made)
    written |= {"forecast": {**written["forecast"], "lost": lost}, "accepted": codec.to_json(held)}
    written |= {"watermark_ms": 1_795_373_050_000}
    Plan.objects.create(recovery=made, hash=seal(written), body=written, sealed_by="responder")
    Recovery.objects.filter(pk=made.pk).update(state="planned", strategy="continue")
    made.refresh_from_db()
    return made


def body(of: Recovery, strategy: str = "continue") -> dict[str, Any]:
    chosen = next(o for o in options() if o["strategy"] == strategy)
    patch = []
    if strategy == "revert":
        patch = [
            {
                "path": PATH,
                "before_sha256": hashlib.sha256(CODE.encode()).hexdigest(),
                "after_sha256": hashlib.sha256(OLD_CODE.encode()).hexdigest(),
                "diff": "",
                "before": CODE,
                "after": OLD_CODE,
            }
        ]
    return plan_body() | {
        "recovery": of.label,
        "workspace": of.flow.pipeline.workspace.name,
        "environment": of.flow.pipeline.environment,
        "pipeline": {"id": of.flow.pipeline.pipeline_id, "name": of.flow.pipeline.name},
        "flow": of.flow.name,
        "dataset": of.flow.dataset,
        "checkpoint_place": "file:/nowhere/storage/_checkpoints/customers_incremental_flow",
        "table_place": "file:/nowhere/warehouse/crm.db/customers_changes",
        "diagnosis": {k: STORED_DIAGNOSIS[k] for k in ("condition", "title", "damaged", "severity")},
        "strategy": strategy,
        "key": ["customer_id", "sequence_num"],
        "key_from": "the columns of dropDuplicates in the last good code",
        "positions": chosen["positions"],
        "numbering": {
            "next_batch": 0 if strategy == "full-refresh" else 3,
            "query_id": "kept" if strategy == "revert" else "new",
        },
        "state": "keep" if strategy == "revert" else "drop",
        "state_held": "12 keys",
        "patch": patch,
        "forecast": chosen["forecast"],
        "table_rows": 12,
        "preconditions": {
            "checkpoint": {"version": 0, "last_committed": 2, "fingerprint": "91b0" + "0" * 60},
            "code": {PATH: hashlib.sha256(CODE.encode()).hexdigest()},
            "sink": {"head": 2, "fingerprint": "02ce" + "0" * 60},
            "active_update": None,
        },
        "waiting_files": facts()["waiting_files"],
        "gathered_at": timezone.now().isoformat(),
        "steps": chosen["steps"],
        "criteria": chosen["criteria"],
        "rollback": chosen["rollback"],
        "findings": chosen["findings"],
    }


def sealed(of: Recovery, strategy: str = "continue", **values: Any) -> Plan:
    """Seal a plan with its pending steps; the recovery becomes planned."""
    written = body(of, strategy)
    plan = Plan.objects.create(recovery=of, hash=seal(written), body=written, sealed_by="responder", **values)
    for one in written["steps"]:
        step(of, one["kind"], says=one["says"], plan=plan)
    Recovery.objects.filter(pk=of.pk).update(
        state="planned", strategy=strategy, choices=choices(strategy, patch={}, sealing={"status": "ready"})
    )
    of.refresh_from_db()
    return plan


@together()
def planned(of: Flow | None = None, strategy: str = "continue") -> Recovery:
    made = at_review(of, strategy)
    sealed(made, strategy)
    return made
