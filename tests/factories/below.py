"""What stands below the incident's flow: an empty view, a stale table, and what a plan says of both."""

from typing import Any

from recovery.contracts import codec
from recovery.contracts.refreshed import NotCompared, RefreshedDataset
from recovery.models import Flow, Plan, Recovery
from recovery.verification.below import DONE
from recovery.workflow.counting_below import BelowCount, CountPhase, StoredCount, UncountedReason
from tests.factories.flows import ago, failed_flow, flow, pipeline, view
from tests.factories.runs import verified
from tests.factories.wizard import at_review, step

BELOW: list[dict[str, Any]] = [
    {
        "dataset": "spark_catalog.crm.customers",
        "effect": "refreshed",
        "rows": None,
        "reason": None,
        "kind": "view",
        "fewer": {
            "rows": 3,
            "files": 0,
            "from": None,
            "to": None,
            "exact": True,
            "why": "",
            "bound": "exact",
        },
    },
    {
        "dataset": "spark_catalog.crm.copy",
        "effect": "doubled",
        "rows": 60,
        "reason": "repeats",
        "kind": "table",
        "fewer": {
            "rows": None,
            "files": 0,
            "from": None,
            "to": None,
            "exact": False,
            "why": "",
            "bound": "unknown",
        },
    },
]


def below(of: Flow) -> tuple[Flow, Flow]:
    """A view that the failing update emptied, and a streaming table that it did not reach."""
    since = ago(minutes=32)
    told = {"behind_since": since, "behind_update": "u-4"}
    copy = flow(
        of.pipeline,
        "customers_copy_flow",
        state="stale",
        inputs=[of.dataset],
        behind_why="not_reached",
        **told,
    )
    return view(of.pipeline, state="empty", inputs=[of.dataset], behind_why="emptied", **told), copy


def right_above(of: Flow | None = None) -> Flow:
    """A flow that is right again, over what is not."""
    found = of or failed_flow()
    Flow.objects.filter(pk=found.pk).update(state="ok", failing_since=None, error=[], condition="")
    found.refresh_from_db()
    below(found)
    outside = {
        "inputs": [found.dataset],
        "state": "stale",
        "behind_why": "renewed",
        "behind_since": ago(minutes=12),
    }
    view(pipeline(found.pipeline.workspace, "board"), "signups_today", **outside)
    return found


def count_below(of: Flow) -> Flow:
    """What somebody had counted below it: a view without its rows, a table that lacks some, one not asked for."""
    at = ago(minutes=3).isoformat()
    counts = (
        StoredCount("spark_catalog.crm.customers", at, rows=0, should=9, missing=9, extra=0),
        StoredCount("spark_catalog.crm.customers_copy", at, rows=12, should=20, missing=8, extra=0),
        StoredCount("spark_catalog.crm.signups_today", at, why=UncountedReason.ELSEWHERE),
    )
    kept = BelowCount("t", "responder", at, CountPhase.COUNTED, counts)
    Flow.objects.filter(pk=of.pk).update(below_count=kept.as_json())
    of.refresh_from_db()
    return of


def review_below(of: Flow | None = None) -> Recovery:
    """The options of the facts, each with two datasets below."""
    made = at_review(of)
    options = [{**o, "forecast": {**o["forecast"], "downstream": BELOW}} for o in made.facts["options"]]
    Recovery.objects.filter(pk=made.pk).update(facts={**made.facts, "options": options})
    made.refresh_from_db()
    return made


def verified_below(of: Flow | None = None) -> Recovery:
    """A proof over a plan that leaves one of them behind, and refreshed one that nobody compared."""
    made = verified(of)
    for plan in Plan.objects.filter(recovery=made):
        body = {**plan.body, "forecast": {**plan.body["forecast"], "downstream": BELOW}}
        Plan.objects.filter(pk=plan.pk).update(body=body)
    view = RefreshedDataset(
        dataset="spark_catalog.crm.customers",
        status=DONE,
        compared=True,
        rows=9,
        expected_rows=9,
        missing=0,
        extra=0,
    )
    sums = RefreshedDataset(
        dataset="spark_catalog.crm.sums", status=DONE, not_compared=NotCompared.DEFINED_IN_SQL
    )
    told = {**made.measured, "downstream": [codec.to_json(view), codec.to_json(sums)]}
    Recovery.objects.filter(pk=made.pk).update(measured=told)
    made.refresh_from_db()
    return made


def reported(of: Flow | None = None) -> Recovery:
    """The same, refreshed at a known time; the last good batch and how far the input was read are noted."""
    made = verified_below(of or failed_flow())
    at = ago(seconds=3)
    step(made, "refresh", "done", plan=made.plans.get(), started_at=at, ended_at=at)
    last_good = {"batch": 2, "at": ago(minutes=58).isoformat()}
    reached = [{"source": 0, "offset_json": '{"logOffset":3}'}]
    Recovery.objects.filter(pk=made.pk).update(
        diagnosis={**made.diagnosis, "last_good": last_good},
        measured={**made.measured, "reached": reached, "last_batch": 3},
        choices={**made.choices, "meant": "yes", "meant_by": "responder"},
    )
    made.refresh_from_db()
    return made
