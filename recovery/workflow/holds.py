"""What would start the pipeline again (jobs, its own continuous mode and retries) is paused for a recovery and given
back when it has ended.

Crash order: the hold is written down (`noted`, with the setting as found) before anything is touched; so whatever dies,
the beat finds the hold once no recovery of the pipeline is open, looks at the setting, and gives back what is still
paused. What somebody changed meanwhile is theirs: it is left as it is, and that is said.
"""

from collections.abc import Callable
from contextlib import closing
from typing import Final

from django.db import transaction
from django.utils import timezone

from recovery.errors import Refused, RepriseError
from recovery.models import Hold, Recovery
from recovery.pipelines import starters
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.starters import AWAKE, ITSELF, PAUSED, KnownStarters, Starter
from recovery.pipelines.workspaces import client_for
from recovery.workflow.journal import note

OPEN: Final = ("noted", "paused")
Say = Callable[[str], None]


def pause(
    recovery: Recovery, client: PipelinesClient, *, guard: Callable[[], None], log: Say
) -> KnownStarters:
    """Pause everything that starts the pipeline by itself, each read back. What could not be asked is said.

    Raises Refused when something does not read back as paused, Unreachable, ApiDenied, ApiError, OutcomeUnknown.
    """
    known = starters.known(client, recovery.flow.pipeline.pipeline_id)
    if known.why:
        log(f"Whether anything starts it again is not known. {known.why}")
    for starter in known.awake:
        hold, _ = Hold.objects.get_or_create(
            pipeline=recovery.flow.pipeline,
            job_id=starter.job_id,
            way=starter.way,
            state__in=OPEN,
            defaults={
                "recovery": recovery,
                "name": starter.name[:300],
                "was": dict(starter.setting),
                "state": "noted",
            },
        )
        guard()
        starters.put(client, starter, starter.paused())
        _paused(hold, recovery, starter)
        log(f"Paused {starter.says}; read back. It is restored when the recovery has ended.")
    return known


def _paused(hold: Hold, recovery: Recovery, starter: Starter) -> None:
    with transaction.atomic():
        Hold.objects.filter(pk=hold.pk).update(state="paused")
        note(
            "pipeline.pause" if starter.itself else "job.pause",
            recovery,
            f"Paused {starter.says}, so that it does not start the pipeline meanwhile.",
            before={starter.way: hold.was},
            after={starter.way: starter.paused()},
        )


def prove(recovery: Recovery, client: PipelinesClient) -> None:
    """Raise Refused when something that starts the pipeline is awake (again), or a job's run has not ended."""
    known = starters.known(client, recovery.flow.pipeline.pipeline_id)
    held = {(h.job_id, h.way) for h in Hold.objects.filter(pipeline=recovery.flow.pipeline, state__in=OPEN)}
    again = [s.says for s in known.awake if (s.job_id, s.way) in held]
    if again:
        raise Refused(
            f"Someone switched on again what this recovery had paused: {', '.join(again)}. Stop the pipeline again, "
            "or talk to whoever did that.",
            code="switched_on_again",
        )
    if known.awake:
        raise Refused(
            f"The pipeline can be started at any time by {', '.join(s.says for s in known.awake)}. Stop it again: "
            "that pauses what starts it.",
            code="can_be_started",
        )
    if running := starters.active_runs(client, known.starters):
        raise Refused(
            f"{', '.join(running)} has not ended and may start the pipeline. Stop the pipeline again.",
            code="run_not_ended",
        )


def restore_due() -> None:
    """Give back what is paused of pipelines that have no open recovery. A failure is kept, and tried again."""
    waiting = Hold.objects.filter(state__in=OPEN).select_related("pipeline__workspace", "recovery__flow")
    for hold in waiting:
        if Recovery.objects.filter(flow__pipeline=hold.pipeline, active=True).exists():
            continue
        try:
            with closing(client_for(hold.pipeline.workspace)) as client:
                _give_back(hold, client)
        except RepriseError as failure:
            if failure.sentence != hold.problem:  # said once, not at every try
                _failed(hold, failure.sentence)


def _failed(hold: Hold, problem: str) -> None:
    with transaction.atomic():
        Hold.objects.filter(pk=hold.pk, state__in=OPEN).update(problem=problem)
        note(_restore(hold), hold.recovery, f"{hold} could not be restored yet: {problem}", outcome="failed")


def _give_back(hold: Hold, client: PipelinesClient) -> None:
    of = Starter(hold.job_id, hold.name, hold.way, hold.was, hold.pipeline.pipeline_id)
    found = starters.now(client, of)
    if found is None:
        _ended(hold, "left", f"{hold} is gone, so there is nothing to restore.")
    elif found.get("pause_status", AWAKE) != PAUSED:
        _ended(hold, "left", f"{hold} runs already: it was never paused, or someone switched it on.")
    else:
        # of a job, an edit that somebody made meanwhile stays; only the pause is taken back
        given = hold.was if of.itself else {**found, "pause_status": hold.was.get("pause_status", AWAKE)}
        starters.put(client, of, given)
        _ended(hold, "restored", f"{hold} is switched on again, as it was before {hold.recovery.label}.")


def _restore(hold: Hold) -> str:
    return "pipeline.restore" if hold.job_id == ITSELF else "job.restore"


def _ended(hold: Hold, state: str, says: str) -> None:
    with transaction.atomic():
        changed = Hold.objects.filter(pk=hold.pk, state__in=OPEN).update(
            state=state, problem="" if state == "restored" else says, ended_at=timezone.now()
        )
        if changed:
            note(_restore(hold), hold.recovery, says, after={"state": state, hold.way: hold.was})
