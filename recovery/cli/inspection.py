"""The answer of `inspect PATH`: what a checkpoint is, where it stands, what is wrong, what to do. Reads only."""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from recovery.checkpoints import access, inspect_checkpoint
from recovery.checkpoints.absent import KeepsState
from recovery.checkpoints.batches import compare_batches, read_batch
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.survey import is_storage_root, survey_root
from recovery.cli import error_text
from recovery.cli import inspection_text as texts
from recovery.cli.answer import CommandAnswer
from recovery.contracts import codec
from recovery.diagnosis.of_text import TextDiagnosis, diagnose_text, with_failure
from recovery.errors import WrongUse
from recovery.sinks.base import SinkReport
from recovery.sinks.live import tables
from recovery.sources import labels

SECONDS_BETWEEN: Final = 0.5  # two words of progress
HELP: Final = (
    "Judges the checkpoint in a directory or URL: what it is, its progress, what is wrong, what to do. Of a "
    "flow's directory, the newest version; of a pipeline's storage root, every flow and version. Changes nothing."
)


@dataclass(frozen=True)
class InspectRequest:
    """What was asked for, by the names of the options."""

    #: checkpoint, flow or storage directory: a path or a URL
    path: str
    #: location of the table whose log of batches is compared
    sink: str | None = None
    #: whether state files and older files are read too
    deep: bool = False
    #: whether the input files that the logs name are looked for
    inputs: bool = False
    #: "yes" or "no" where the person says whether the code keeps state
    keeps_state: str | None = None
    #: file with the text of the program's failure, `-` for stdin
    error: str | None = None
    #: one batch instead of the whole checkpoint
    batch: int | None = None
    #: another batch, with which `batch` is compared
    beside: int | None = None


@dataclass(frozen=True)
class KnownFlow:
    """A flow of an inventory whose checkpoint was inspected."""

    pipeline: str
    name: str
    #: the report, with what is known there of the code that runs on the checkpoint
    report: CheckpointReport


FindFlow = Callable[[CheckpointReport], KnownFlow | None]
"""How a console finds the flow of a checkpoint; None of it where there is no inventory."""


def add_options(parser: ArgumentParser) -> None:
    """The options of `inspect`."""
    parser.add_argument(
        "path", help="Checkpoint, flow or storage directory: a path, or a URL that fsspec opens."
    )
    parser.add_argument("--sink", help="Location of the table, whose log of batches is compared.")
    parser.add_argument(
        "--deep",
        action="store_true",
        help="Read older files too, which only a rewind would need, and check every state file against its "
        "checksum or by its records; says on stderr how far it is.",
    )
    parser.add_argument(
        "--inputs",
        action="store_true",
        help="Look whether the input files that the logs name are still there.",
    )
    parser.add_argument(
        "--keeps-state",
        choices=[KeepsState.YES.value, KeepsState.NO.value],
        help="Whether the code has a stateful step, where no file shows it: a checkpoint without any state "
        "may have lost it, or never had any.",
    )
    parser.add_argument(
        "--error",
        metavar="FILE",
        help="Text with which the program over this checkpoint failed, the end of a driver's log or an exception; "
        "- for stdin. It is taken into the verdict.",
    )
    parser.add_argument(
        "--batch",
        type=int,
        metavar="N",
        help="Show this batch instead: positions, files, watermark, commit.",
    )
    parser.add_argument(
        "--beside", type=int, metavar="M", help="With --batch: what differs between these two batches."
    )


def request_of(options: Mapping[str, Any]) -> InspectRequest:
    """The request in parsed options."""
    return InspectRequest(**{field.name: options[field.name] for field in fields(InspectRequest)})


@access.allow_anywhere()  # who is at the machine names the place, with that machine's rights
def answer(asked: InspectRequest, find_flow: FindFlow | None = None) -> CommandAnswer:
    """Exit 0: sound; 1: there is a blocker, or a file of the batch cannot be read.

    With `error` never 0: where its program fails, a checkpoint without damage is not all that matters. Raises WrongUse,
    Unreachable, Refused where the path cannot be read.
    """
    if asked.batch is not None:
        return _answer_batch(asked, asked.batch)
    if asked.beside is not None:
        raise WrongUse("--beside compares with another batch: give --batch N too.")
    text = None if asked.error is None else error_text.read_text(asked.error)
    if is_storage_root(asked.path):
        if text is not None:
            raise WrongUse(
                "--error is of one stream: name its own checkpoint, not a storage root with several."
            )
        return _answer_survey(asked.path)
    report = inspect_checkpoint(
        asked.path,
        sink=asked.sink,
        deep=asked.deep,
        inputs=asked.inputs,
        keeps_state=KeepsState(asked.keeps_state or KeepsState.UNKNOWN),
        progress=ProgressLine() if asked.deep else None,
    )
    known = find_flow(report) if find_flow else None
    report = known.report if known else report
    failed = None if text is None else diagnose_text(text, report=report)
    if failed is not None:
        report = replace(report, findings=with_failure(report, failed))
    sink = tables.read_table(asked.sink, query_id=report.query_id) if asked.sink else None
    return _answer_report(report, sink, failed, known, is_deep=asked.deep)


def _answer_report(
    report: CheckpointReport,
    sink: SinkReport | None,
    failed: TextDiagnosis | None,
    known: KnownFlow | None,
    *,
    is_deep: bool,
) -> CommandAnswer:
    data = report.as_dict()
    for source, progress in zip(data["sources"], report.sources, strict=True):
        source["label"] = labels.describe_progress(progress)
    data |= {
        "sink": sink.as_dict() if sink else None,
        "flow": {"pipeline": known.pipeline, "name": known.name} if known else None,
        "diagnosis": codec.to_json(failed.found) if failed else None,
    }
    is_bad = bool(report.blockers or failed)
    return CommandAnswer(
        data, "\n".join(texts.lines(report, sink, failed, is_deep=is_deep)), exit_code=int(is_bad)
    )


def _answer_batch(asked: InspectRequest, number: int) -> CommandAnswer:
    """One batch, or what differs between two."""
    for name in ("sink", "deep", "inputs", "keeps_state", "error"):
        if getattr(asked, name):
            raise WrongUse(
                f"--{name.replace('_', '-')} judges the whole checkpoint: leave it out with --batch."
            )
    if asked.beside is None:
        batch = read_batch(asked.path, number)
        data = {"batch": batch.as_dict(), "difference": None}
        return CommandAnswer(data, "\n".join(texts.batch_lines(batch)), exit_code=int(bool(batch.problems)))
    compared = compare_batches(asked.path, number, asked.beside)
    batch = compared.after if compared.after.number == number else compared.before
    is_bad = bool(compared.before.problems or compared.after.problems)
    data = {"batch": batch.as_dict(), "difference": compared.as_dict()}
    return CommandAnswer(data, "\n".join(texts.difference_lines(compared)), exit_code=int(is_bad))


def _answer_survey(path: str) -> CommandAnswer:
    """A pipeline's storage root: its flows and their versions. Exit 1 with a blocker in a newest version."""
    survey = survey_root(path)
    is_bad = any(flow.versions and flow.versions[-1].blockers for flow in survey.flows)
    return CommandAnswer(survey.as_dict(), "\n".join(texts.survey_lines(survey)), exit_code=int(is_bad))


class ProgressLine:
    """State files checked, on stderr: one line that is written over on a terminal, else one line now and then."""

    def __init__(self) -> None:
        self.said_at = time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if done < of and now - self.said_at < SECONDS_BETWEEN:
            return
        self.said_at = now
        over = sys.stderr.isatty()
        end = "\n" if done >= of or not over else ""
        start = "\r" if over else ""
        sys.stderr.write(f"{start}{done:,} of {of:,} state files checked{end}")
        sys.stderr.flush()
