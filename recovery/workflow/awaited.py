"""Which act of a person a step waits for: the start or the stop of a stream that no command starts or stops."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from recovery.contracts import codec
from recovery.contracts.results import StoppedResult, UpdateResult, VerifyResult
from recovery.models import Step, Stream, StreamStart
from recovery.streams.client import COMMAND

UNSEEN: Final = ("", "WAITING_FOR_RESOURCES")
"""What the looks at a start have seen last, while nothing of a run was seen."""


class PersonAct(StrEnum):
    START = "start-stream"
    STOP = "stop-stream"


@dataclass(frozen=True)
class Awaited:
    """`batch`: the one whose commit shows that the start came; None for a stop. `asked_at`: None where not known."""

    act: PersonAct
    checkpoint: str
    asked_at: datetime | None = None
    batch: int | None = None
    has_log: bool = False


def awaited_act(step: Step | None) -> Awaited | None:
    """None where no person is waited for: a command does it, it was done and seen, or the step does not run."""
    if step is None or step.state != "running":
        return None
    stream = Stream.objects.filter(pipeline__flows=step.recovery.flow_id).first()
    if stream is None:
        return None
    if step.kind == "stop":
        return _awaited_stop(step, stream)
    if step.kind == "verify":
        update_id = codec.read(VerifyResult, step.result).further
    elif step.kind == "rerun":
        update_id = codec.read(UpdateResult, step.result).update_id
    else:
        return None
    if not update_id or (step.result.get("watched") or {}).get("state", "") not in UNSEEN:
        return None
    start = StreamStart.objects.filter(
        stream=stream, update_id=update_id, by_hand=True, is_look=False, ended=""
    ).first()
    if start is None:
        return None
    batch = 0 if start.batch_before is None else start.batch_before + 1
    return Awaited(PersonAct.START, stream.checkpoint, start.asked_at, batch, bool(stream.event_log))


def _awaited_stop(step: Step, stream: Stream) -> Awaited | None:
    stop = codec.read(StoppedResult, step.result)
    if stop.stopped is None or stop.was is not None or (stream.runner == COMMAND and stream.stop):
        return None
    return Awaited(PersonAct.STOP, stream.checkpoint, step.started_at, None, bool(stream.event_log))
