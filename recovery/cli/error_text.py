"""The answer of `diagnose --error`: why a stream fails, by the text of its failure, from a file or from stdin."""

import codecs
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Final

from recovery.blaming import find_code_failure
from recovery.checkpoints import access
from recovery.checkpoints.report import CheckpointReport
from recovery.cli import diagnosis_text, inspection_text
from recovery.cli.answer import CommandAnswer, plain
from recovery.contracts import codec
from recovery.diagnosis.failure_text import MOST_CHARACTERS
from recovery.diagnosis.of_text import NO_CHECKPOINT, TextDiagnosis, diagnose_text, read_checkpoint
from recovery.diagnosis.row import SEVERITIES
from recovery.errors import WrongUse
from recovery.names import shown

HELP: Final = (
    "Explains why a stream failed, by the text of its failure: the end of a driver's log, or an exception. With its "
    "checkpoint, by that too. Changes nothing."
)
STDIN: Final = "-"
CHUNK: Final = 1 << 20
MOST_BYTES: Final = 2 * MOST_CHARACTERS
"""Of a longer text the end is kept: the last failure is what counts."""


def add_options(parser: ArgumentParser) -> None:
    """The options of `diagnose` where there is no console."""
    parser.add_argument(
        "--error", metavar="FILE", required=True, help="Text of the failed stream; - for stdin."
    )
    parser.add_argument(
        "place",
        nargs="?",
        metavar="CHECKPOINT",
        help="That stream's checkpoint, a path or URL. It is only read.",
    )
    parser.add_argument("--checkpoint", metavar="PATH", help="The same, as `bin/manage diagnose` names it.")


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


@access.allow_anywhere()  # who is at the machine names the places, with that machine's rights
def answer(error: str, checkpoint: str | None) -> CommandAnswer:
    """The shape of a flow's diagnosis, without a pipeline. `error`: a file, or `-` for stdin.

    Exit 1 always: a text holds a failure, or none that is recognised, and no text proves that a stream is well. Raises
    WrongUse.
    """
    text = read_text(error)
    report, problem = _read(checkpoint) if checkpoint else (None, None)
    unread = f"{problem} So this relies on the text alone." if problem else NO_CHECKPOINT
    told = diagnose_text(text, report=report, unread=unread)
    about = dict.fromkeys(("pipeline", "environment", "flow", "dataset", "state", "failing_since"))
    data = {
        **about,
        "problem": problem,
        "query_id": told.failure.query_id or None,
        "checkpoint": _summary(report),
        "diagnosis": codec.to_json(told.found),
    }
    return CommandAnswer(data, "\n".join(_lines(told, report, problem)), exit_code=1)


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
        yield f"Checkpoint {inspection_text.shown(report.location)}: {inspection_text.standing(report)}"
    elif problem:
        yield f"Checkpoint not read: {plain(problem)}"
    yield from diagnosis_text.write_body(found)
    yield ""
    yield _next(told, report, problem)


def _next(told: TextDiagnosis, report: CheckpointReport | None, problem: str | None) -> str:
    """What a person without a pipeline can do next."""
    if not told.is_recognised and (code := find_code_failure(told.failure.causes)) is not None:
        line = f", line {code.line}" if code.line else ""
        return f"Next: correct {plain(code.file)}{line}, then start the program again."
    if not told.is_recognised:
        return "Next: give the driver's log from the line `terminated with error` on, or the whole exception."
    if report is None and not problem:
        place = shown(told.failure.checkpoint) or "PATH"
        return (
            f"Next: give its checkpoint too, with --checkpoint {place}: it may say more, or something else."
        )
    return (
        "Next: where you have a console, adopt the stream (bin/manage adopt CHECKPOINT): its plan counts what each way "
        "loses and repeats. Keep a copy of the checkpoint before you change anything in it."
    )
