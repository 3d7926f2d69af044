"""Celery's wake-ups. Each takes ids; the database says what is to be done."""

from datetime import timedelta

from celery import shared_task
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from recovery.models import Step
from recovery.pipelines.locks import only_study
from recovery.workflow import counting_below, engine, holds, learning, refreshing, studies, unknowns, watches
from recovery.workflow.probing import is_due


@shared_task(name="recovery.workflow.tasks.run_step")
def run_step(step_id: int, fence: int) -> None:
    engine.run_step(step_id, fence)


@shared_task(name="recovery.workflow.tasks.look_at_step")
def look_at_step(step_id: int, fence: int) -> None:
    engine.look_at_step(step_id, fence)


@shared_task(name="recovery.workflow.tasks.go_on_with_step")
def go_on_with_step(step_id: int, fence: int) -> None:
    engine.go_on_with_step(step_id, fence)


@shared_task(name="recovery.workflow.tasks.sweep_looks")
def sweep_looks() -> None:
    """Looks whose message was lost are woken again."""
    watches.wake_overdue()


@shared_task(name="recovery.workflow.tasks.probe_step")
def probe_step(step_id: int, fence: int) -> None:
    engine.probe_step(step_id, fence)


@shared_task(name="recovery.workflow.tasks.stop_and_prove")
def stop_and_prove(step_id: int, fence: int) -> None:
    unknowns.carry_out(step_id, fence)


@shared_task(name="recovery.workflow.tasks.refresh_below")
def refresh_below(flow_id: int, ticket: str) -> None:
    refreshing.carry_out(flow_id, ticket)


@shared_task(name="recovery.workflow.tasks.count_below")
def count_below(flow_id: int, ticket: str) -> None:
    counting_below.carry_out(flow_id, ticket)


@shared_task(name="recovery.workflow.tasks.gather_facts")
def gather_facts(recovery_id: int, ticket: str) -> None:
    studies.gather_facts(recovery_id, ticket)


@shared_task(name="recovery.workflow.tasks.look_positions")
def look_positions(recovery_id: int, ticket: str) -> None:
    studies.look_positions(recovery_id, ticket)


@shared_task(name="recovery.workflow.tasks.validate_patch")
def validate_patch(recovery_id: int, ticket: str) -> None:
    studies.validate_patch(recovery_id, ticket)


@shared_task(name="recovery.workflow.tasks.seal_plan")
def seal_plan(recovery_id: int, ticket: str) -> None:
    studies.seal_plan(recovery_id, ticket)


@shared_task(name="recovery.workflow.tasks.reap")
def reap() -> None:
    """Silent steps become unknown; wake-ups that a dead broker lost are given again."""
    now = timezone.now()
    silent = now - timedelta(seconds=settings.REPRISE_SILENCE_SECONDS)
    quiet = Q(heartbeat_at__lt=silent, look_at=None)  # one that waits for an update has no worker
    for step in Step.objects.filter(state="running").filter(quiet | Q(deadline__lt=now)):
        late = step.deadline is not None and step.deadline < now
        engine.to_unknown(
            step,
            "It ran past its deadline."
            if late
            else f"Its worker ({step.worker}) has given no sign of life since {step.heartbeat_at:%H:%M:%S} UTC.",
        )
    for step in Step.objects.filter(state="unknown", evidence=[]):
        probe_step.delay(step.pk, step.fence)
    for step in Step.objects.filter(state="unknown").exclude(evidence=[]):
        if (probe := step.notes.probe) is not None and is_due(probe):
            probe_step.delay(step.pk, step.fence)
    for step in Step.objects.filter(state="pending", woken_at__lt=silent):
        run_step.delay(step.pk, step.fence)
    studies.reap(older_than=silent)


@shared_task(name="recovery.workflow.tasks.learn_sources")
def learn_sources() -> None:
    """Study the code of one flow whose sources are not known, or may be others, unless one is being studied."""
    with only_study() as mine:
        if mine:
            learning.learn_round()


@shared_task(name="recovery.workflow.tasks.restore_holds")
def restore_holds() -> None:
    """Jobs that were paused for a recovery are given back once it has ended."""
    holds.restore_due()
