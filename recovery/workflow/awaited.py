"""Which act of a person a step waits for: the start or the stop of a stream that no command starts or stops."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from recovery.contracts import codec
from recovery.contracts.results import StoppedResult
from recovery.models import Step, Stream, StreamStart
from recovery.workflow.probe_questions import started_update

BEFORE_A_RUN: Final = ("", "WAITING_FOR_RESOURCES")
"""What the looks at a start have seen last, while nothing of a run was seen."""


class PersonAct(StrEnum):
    START = "start-stream"
    STOP = "stop-stream"


@dataclass(frozen=True)
class AwaitedAct:
    """`batch`: the one whose commit shows that the start came; None for a stop. `asked_at`: None where not known."""

    act: PersonAct
    checkpoint: str
    asked_at: datetime | None = None
    batch: int | None = None
    has_log: bool = False


def awaited_act(step: Step | None) -> AwaitedAct | None:
    """None where no person is waited for: a command does it, it was done and seen, or the step does not run."""
    if step is None or step.state != "running":
        return None
    stream = Stream.objects.filter(pipeline__flows=step.recovery.flow_id).first()
    if stream is None:
        return None
    if step.kind == "stop":
        return _awaited_stop(step, stream)
    update_id, watched = started_update(step), step.notes.watched
    if not update_id or (watched is not None and watched.state not in BEFORE_A_RUN):
        return None
    start = StreamStart.find_by_hand(update_id)
    if start is None or start.ended:
        return None
    return AwaitedAct(
        PersonAct.START, stream.checkpoint, start.asked_at, start.next_batch, bool(stream.event_log)
    )


def _awaited_stop(step: Step, stream: Stream) -> AwaitedAct | None:
    stop = codec.read(StoppedResult, step.result)
    if stop.stopped is None or stop.was is not None or stream.has_stop_command:
        return None
    return AwaitedAct(PersonAct.STOP, stream.checkpoint, step.started_at, None, bool(stream.event_log))
