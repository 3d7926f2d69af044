"""What is read while no one knows how a step ended, what that leaves open, and when it is read again. Reads only."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.utils import timezone

from recovery.contracts.probes import EvidenceLine, Probe, ProbeAnswer, ProbeQuestion, read_evidence
from recovery.models import Step
from recovery.pipelines.events import when
from recovery.workflow import probe_questions

AGAIN: Final = timedelta(seconds=30)
"""After so long a probe that left a question open reads again."""
NEEDED: Final = (ProbeQuestion.EFFECT, ProbeQuestion.QUERY)
"""Questions without whose answers it is not known what a step did: while one is open, a person is asked."""


def leaves_open(step: Step) -> bool:
    """Of an unknown step: has its probe left a question open, or not answered at all?"""
    if not step.evidence or any(line.proven is None for line in read_evidence(step.evidence)):
        return True
    probe = step.notes.probe
    return probe is not None and any(r.proven is None for r in probe.readings if r.asked in NEEDED)


def is_answered(step: Step) -> bool:
    """Is enough known of a step for a person to go on? Of an unknown one, what its probe or somebody has seen."""
    return step.state != "unknown" or bool(step.evidence or step.notes.statements)


def is_due(probe: Probe) -> bool:
    """Is it time for the next one?"""
    at = when(probe.following)
    return at is not None and at <= timezone.now()


def probe_of(step: Step, began: datetime, evidence: Sequence[EvidenceLine]) -> Probe:
    """What was read now: the evidence of the step's own probe, then every other question."""
    at = timezone.now().isoformat()
    effect = tuple(
        ProbeAnswer(asked=ProbeQuestion.EFFECT, proven=line.proven, says=line.says, at=at)
        for line in evidence
    )
    readings = (*effect, *probe_questions.ask_all(step, timezone.now))
    before, ended = step.notes.probe, timezone.now()
    open_ones = any(r.proven is None for r in readings)
    return Probe(
        number=before.number + 1 if before else 1,
        began=began.isoformat(),
        ended=ended.isoformat(),
        readings=readings,
        following=(ended + AGAIN).isoformat() if open_ones else "",
    )
