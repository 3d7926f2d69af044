"""The text of a failed stream from a file or from stdin, and what is said of it; shared by `diagnose` and `inspect`."""

import codecs
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Final

from recovery.checkpoints.report import CheckpointReport
from recovery.contracts import codec
from recovery.diagnosis.failure_text import MOST_CHARACTERS
from recovery.diagnosis.of_text import NO_CHECKPOINT, TextDiagnosis, diagnose_text, read_checkpoint
from recovery.diagnosis.row import SEVERITIES
from recovery.errors import WrongUse
from recovery.management.commands import _diagnosis, _inspecting
from recovery.management.commands._base import Answer, plain
from recovery.names import shown

STDIN: Final = "-"
CHUNK: Final = 1 << 20
MOST_BYTES: Final = 2 * MOST_CHARACTERS
"""Of a longer text the end is kept: the last failure is what counts."""


def read_text(place: str) -> str:
    """What a file or stdin (`-`) holds, its end where that is very long. Raises WrongUse."""
    try:
        if place == STDIN:
            data = _end_of_stream(sys.stdin.buffer)
        else:
            with Path(place).expanduser().open("rb") as stream:
                stream.seek(0, 2)
                stream.seek(max(0, stream.tell() - MOST_BYTES))
                data = stream.read(MOST_BYTES)
    except OSError as error:
        raise WrongUse(
            f"The text {place} cannot be read: {error.strerror or error}. Check its path."
        ) from error
    text = data.decode(
        "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8", "replace"
    )
    if not text.strip():
        raise WrongUse(f"{'stdin' if place == STDIN else place} is empty: give the text of the error.")
    return text


def _end_of_stream(stream: BinaryIO) -> bytes:
    """The last of a stream of any length, in bounded memory."""
    held = bytearray()
    while chunk := stream.read(CHUNK):
        held += chunk
        if len(held) > 2 * MOST_BYTES:
            del held[:-MOST_BYTES]
    return bytes(held[-MOST_BYTES:])


def answer_of_text(text: str, checkpoint: str | None) -> Answer:
    """The answer of `diagnose --error`: the shape of a flow's, without a pipeline."""
    report, problem = _read(checkpoint) if checkpoint else (None, None)
    unread = f"{problem} So this rests on the text alone." if problem else NO_CHECKPOINT
    told = diagnose_text(text, report=report, unread=unread)
    about = dict.fromkeys(("pipeline", "environment", "flow", "dataset", "state", "failing_since"))
    data = {
        **about,
        "problem": problem,
        "query_id": told.failure.query_id or None,
        "checkpoint": _summary(report),
        "diagnosis": codec.to_json(told.found),
    }
    return Answer(data, "\n".join(_lines(told, report, problem)), exit_code=1)


def _read(checkpoint: str) -> tuple[CheckpointReport | None, str | None]:
    """The report, or why there is none. Raises WrongUse: a command names a wrong argument and stops."""
    report, problem = read_checkpoint(checkpoint, nullcontext())
    if isinstance(problem, WrongUse):
        raise problem
    return report, problem.sentence if problem else None


def _summary(report: CheckpointReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    return {
        "location": report.location,
        "format": report.format,
        "query_id": report.query_id,
        "last_committed": report.last_committed,
        "last_planned": report.last_planned,
        "findings": [f.as_dict() for f in report.findings],
    }


def _lines(told: TextDiagnosis, report: CheckpointReport | None, problem: str | None) -> Iterator[str]:
    found, failure = told.found, told.failure
    yield plain(found.title)
    yield ""
    yield f"Query id   {failure.query_id or 'not named in the text'}"
    yield f"Condition  {shown(found.condition or 'none that Spark names')}"
    yield f"Damaged    {plain(found.damaged)}"
    yield f"Severity   {found.severity} of 5, {SEVERITIES[found.severity]}"
    if report is not None:
        yield f"Checkpoint {_inspecting.shown(report.location)}: {_inspecting.standing(report)}"
    elif problem:
        yield f"Checkpoint not read: {plain(problem)}"
    yield from _diagnosis.write_body(found)
    yield ""
    yield _next(told, report, problem)


def _next(told: TextDiagnosis, report: CheckpointReport | None, problem: str | None) -> str:
    """What a person without a pipeline can do next."""
    if not told.is_recognised:
        return "Next: give the driver's log from the line `terminated with error` on, or the whole exception."
    if report is None and not problem:
        place = shown(told.failure.checkpoint) or "PATH"
        return (
            f"Next: give its checkpoint too, with --checkpoint {place}: it may say more, or something else."
        )
    return "Next: as above. Keep a copy of the checkpoint before you change anything in it."
