"""Plans of several flows of one pipeline that are sealed together."""

from typing import Any

from django.utils import timezone

from recovery.models import Flow, JointPlan, Plan, Recovery, Step
from recovery.people.roles import Actor
from recovery.planning.actions import join_plans
from recovery.workflow.selectors import plan_of
from tests.factories.plans import plan_body
from tests.unit.workflow.rows import RESPONDER, flow, recovery

KINDS = ("stop", "backup", "patch", "seed", "rerun", "verify")


def second_flow(first: Flow, name: str = "other") -> Flow:
    """Another failed flow of the same pipeline, with a table of its own."""
    return Flow.objects.create(
        pipeline=first.pipeline,
        name=f"spark_catalog.shop.{name}",
        short=name,
        dataset=f"spark_catalog.shop.{name}_changes",
        state="failed",
        updated_at=timezone.now(),
    )


def planned_flows(
    *, kinds: tuple[str, ...] = KINDS, environment: str = "development", count: int = 2
) -> list[Recovery]:
    """Recoveries of as many flows of one pipeline, each with a plan that waits."""
    first = flow(environment=environment)
    flows = [first, *(second_flow(first, f"other{n}") for n in range(1, count))]
    made = [recovery("planned", flow=one, choices={"strategy": "continue", "patch": {}}) for one in flows]
    for row in made:
        seal_plan_of(row, kinds)
    return made


def seal_plan_of(row: Recovery, kinds: tuple[str, ...] = KINDS, **changes: Any) -> Plan:
    """A plan with one pending step of each kind, which its own body names too."""
    of = row.flow
    steps = [
        {"kind": kind, "says": "", "args": {"refresh": [of.dataset]} if kind == "rerun" else {}}
        for kind in kinds
    ]
    body = plan_body(
        recovery=row.label,
        environment=of.pipeline.environment,
        pipeline={"id": of.pipeline.pipeline_id, "name": of.pipeline.name},
        flow=of.name,
        dataset=of.dataset,
        steps=steps,
        **changes,
    )
    number = Plan.objects.count()
    made = Plan.objects.create(recovery=row, hash=f"{number:08d}{row.pk:056d}", body=body, sealed_by="ada")
    first = row.steps.count() + 1
    for place, step in enumerate(steps, start=first):
        Step.objects.create(
            recovery=row, plan=made, ordinal=place, kind=step["kind"], args=step["args"],
            idempotency_key=f"{row.pk}-{place}",
        )  # fmt: skip
    return made


def joined(
    *, by: Actor = RESPONDER, kinds: tuple[str, ...] = KINDS, environment: str = "development", count: int = 2
) -> tuple[JointPlan, list[Recovery]]:
    """The same, sealed together."""
    made = planned_flows(kinds=kinds, environment=environment, count=count)
    return join_plans(recovery_ids=[row.pk for row in made], by=by), made


def joined_emptying() -> tuple[JointPlan, list[Recovery]]:
    """Two flows sealed together: the first reads on, the second is refreshed in full, with neither patch nor seed."""
    made = planned_flows(count=1)
    other = recovery("planned", flow=second_flow(made[0].flow))
    plan = seal_plan_of(other, ("stop", "backup", "rerun", "verify"), strategy="full-refresh")
    args = {"full_refresh": [other.flow.dataset]}
    next(step for step in plan.body["steps"] if step["kind"] == "rerun")["args"] = args
    plan.save()
    other.steps.filter(kind="rerun").update(args=args)
    rows = [*made, other]
    return join_plans(recovery_ids=[row.pk for row in rows], by=RESPONDER), rows


def states(*rows: Recovery) -> list[str]:
    """The state of each, as it is stored now."""
    for row in rows:
        row.refresh_from_db()
    return [row.state for row in rows]


def step_of(row: Recovery, kind: str) -> Step:
    """The newest step of that kind of its plan in force."""
    found = row.steps.filter(kind=kind, plan=plan_of(row)).last()
    assert found is not None
    return found
