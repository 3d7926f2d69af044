"""What is read besides a step's own probe while no one knows how it ended, and when it is read again. Reads only.

Each question is asked whatever became of the others; one that is not answered is *not known*, never a no.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.utils import timezone

from recovery import reach
from recovery.checkpoints import inspect_checkpoint
from recovery.contracts import codec
from recovery.contracts.probes import Asked, EvidenceLine, Probe, ProbeAnswer, read_evidence
from recovery.errors import RepriseError
from recovery.models import Step
from recovery.pipelines.events import when
from recovery.pipelines.workspaces import client_for, questions_service
from recovery.spark.api import whereabouts
from recovery.workflow.places import checkpoint_of
from recovery.workflow.steps.stop import active_update

AGAIN: Final = timedelta(seconds=30)
"""After so long a probe that left a question open reads again."""
SPARK_SECONDS: Final = 15.0


def leaves_open(step: Step) -> bool:
    """Of an unknown step: has its probe left a question open, or not answered at all?"""
    return not step.evidence or any(line.proven is None for line in read_evidence(step.evidence))


def is_answered(step: Step) -> bool:
    """Is enough known of a step for a person to go on? Of an unknown one, what its probe or somebody has seen."""
    return step.state != "unknown" or bool(step.evidence or step.result.get("statements"))


def newest_probe(step: Step) -> Probe | None:
    """The newest probe of a step; None before the first, and for steps that an older version probed."""
    stored = step.result.get("probe")
    return codec.read(Probe, stored) if stored else None


def is_due(probe: Probe) -> bool:
    """Is it time for the next one?"""
    at = when(probe.following)
    return at is not None and at <= timezone.now()


def probe_of(step: Step, began: datetime, evidence: Sequence[EvidenceLine]) -> Probe:
    """What was read now: the evidence of the step's own probe, then every other question."""
    at = timezone.now().isoformat()
    effect = tuple(
        ProbeAnswer(asked=Asked.EFFECT, proven=line.proven, says=line.says, at=at) for line in evidence
    )
    readings = (*effect, *(_asked(asked, ask, step) for asked, ask in QUESTIONS))
    before, ended = newest_probe(step), timezone.now()
    open_ones = any(r.proven is None for r in readings)
    return Probe(
        number=before.number + 1 if before else 1,
        began=began.isoformat(),
        ended=ended.isoformat(),
        readings=readings,
        following=(ended + AGAIN).isoformat() if open_ones else "",
    )


def _asked(asked: Asked, ask: Callable[[Step], str], step: Step) -> ProbeAnswer:
    proven: bool | None
    try:
        says, proven = ask(step), True
    except RepriseError as problem:
        says, proven = problem.sentence, None
    return ProbeAnswer(asked=asked, proven=proven, says=says, at=timezone.now().isoformat())


def _worker(step: Step) -> str:
    if step.heartbeat_at is None:
        return "No worker has given a sign of life."
    return f"{step.worker or 'Its worker'} gave its last sign of life at {step.heartbeat_at:%H:%M:%S} UTC."


def _active(step: Step) -> str:
    pipeline = step.recovery.flow.pipeline
    run = pipeline.workspace.run_noun
    active = active_update(client_for(pipeline.workspace, timeout=10.0).get_pipeline(pipeline.pipeline_id))
    return f"No {run} is active." if active is None else f"{run.capitalize()} {active} is active."


def _checkpoint(step: Step) -> str:
    flow = step.recovery.flow
    with reach.reading(flow.pipeline.workspace):
        report = inspect_checkpoint(checkpoint_of(flow))
    version = "" if report.version is None else f"Version {report.version}: "
    committed = "no batch" if report.last_committed is None else f"batch {report.last_committed}"
    ahead = report.last_planned is not None and report.last_planned != report.last_committed
    planned = f", batch {report.last_planned} planned and not committed" if ahead else ""
    return f"{version}{committed} committed last{planned}."


def _spark(step: Step) -> str:
    answers = questions_service(
        step.recovery.flow.pipeline.workspace, step.recovery.flow.pipeline.environment
    )
    whereabouts(answers, [], timeout=SPARK_SECONDS)
    return "It answers. Which queries it runs cannot be asked from here."


QUESTIONS: Final[tuple[tuple[Asked, Callable[[Step], str]], ...]] = (
    (Asked.WORKER, _worker),
    (Asked.ACTIVE, _active),
    (Asked.CHECKPOINT, _checkpoint),
    (Asked.SPARK, _spark),
)
