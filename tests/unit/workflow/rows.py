"""Rows that the workflow's tests start from."""

from typing import Any

from django.utils import timezone

from recovery.contracts.choices import ChoicesChange
from recovery.models import Flow, Pipeline, Plan, Recovery, Step, Workspace
from recovery.people.roles import Actor, Role
from recovery.planning.actions import update_choices
from tests.factories.plans import plan_body

RESPONDER = Actor("ada", Role.RESPONDER, via="command")
VIEWER = Actor("vic", Role.VIEWER, via="command")


def flow(state: str = "failed", environment: str = "development") -> Flow:
    now = timezone.now()
    workspace, _ = Workspace.objects.get_or_create(
        name="dev", defaults={"url": "http://127.0.0.1:9", "token_ref": "env:NOTHING"}
    )
    number = Pipeline.objects.count()
    pipeline = Pipeline.objects.create(
        workspace=workspace,
        pipeline_id=f"p-{number}",
        name=f"customers{number}",
        environment=environment,
        state="IDLE",
        seen_at=now,
        spec={"storage": "memory://nothing"},
    )
    return Flow.objects.create(
        pipeline=pipeline,
        name=f"spark_catalog.shop.flow{number}",
        short=f"flow{number}",
        dataset="spark_catalog.shop.changes",
        state=state,
        updated_at=now,
    )


def recovery(state: str = "planned", **values: Any) -> Recovery:
    return Recovery.objects.create(
        flow=values.pop("flow", None) or flow(),
        state=state,
        created_by="ada",
        owner=values.pop("owner", "ada"),
        facts={"status": "none"},
        **values,
    )


def choose(of: Recovery | int, *, by: Actor = RESPONDER, **named: Any) -> None:
    """Change what is named of the recovery's choices."""
    number = of if isinstance(of, int) else of.pk
    update_choices(recovery_id=number, change=ChoicesChange(**named), by=by)


def plan(of: Recovery, *kinds: str) -> Plan:
    """A plan with one pending step of each kind."""
    made = Plan.objects.create(
        recovery=of,
        hash=f"{of.pk:064d}",
        body=plan_body(environment=of.flow.pipeline.environment),
        sealed_by="ada",
    )
    for number, kind in enumerate(kinds, start=1):
        Step.objects.create(
            recovery=of, plan=made, ordinal=number, kind=kind, idempotency_key=f"{of.pk}-{number}"
        )
    return made
