"""`manage.py inspect PATH`: what a checkpoint is, where it stands, what is wrong, what to do. Reads only."""

import sys
import time
from argparse import ArgumentParser
from dataclasses import replace
from typing import Any

from recovery.checkpoints import access, inspect_checkpoint
from recovery.checkpoints.absent import UNTOLD, KeepsState
from recovery.checkpoints.batches import compare_batches, read_batch
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.survey import is_storage_root, survey_root
from recovery.contracts import codec
from recovery.diagnosis.of_text import diagnose_text, with_failure
from recovery.errors import WrongUse
from recovery.management.commands import _error_text
from recovery.management.commands import _inspecting as texts
from recovery.management.commands._base import Answer, RepriseCommand
from recovery.models import Flow
from recovery.sinks.base import SinkReport
from recovery.sources import labels

SECONDS_BETWEEN = 0.5  # two words of progress


class Command(RepriseCommand):
    """Exit 0: sound; 1: there is a blocker, or a file of the batch cannot be read; 2: the path cannot be read.

    With `--error` never 0: where its program fails, a checkpoint without damage is not all that matters.
    """

    help = (
        "Judges the checkpoint in a directory or URL: what it is, its progress, what is wrong, what to do. Of a "
        "flow's directory, the newest version; of a pipeline's storage root, every flow and version. Changes nothing."
    )

    def add_options(self, parser: ArgumentParser) -> None:
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

    @access.allow_anywhere()  # who is at the machine names the place, with that machine's rights
    def answer(self, options: dict[str, Any]) -> Answer:
        if options["batch"] is not None:
            return _batch(options)
        if options["beside"] is not None:
            raise WrongUse("--beside compares with another batch: give --batch N too.")
        text = None if options["error"] is None else _error_text.read_text(options["error"])
        if is_storage_root(options["path"]):
            if text is not None:
                raise WrongUse(
                    "--error is of one stream: name its own checkpoint, not a storage root with several."
                )
            return _survey(options["path"])
        report = inspect_checkpoint(
            options["path"],
            sink=options["sink"],
            deep=options["deep"],
            inputs=options["inputs"],
            keeps_state=KeepsState(options["keeps_state"] or KeepsState.UNKNOWN),
            progress=Progress() if options["deep"] else None,
        )
        from recovery.workflow import verdicts  # late: with it comes what works on recoveries

        known = verdicts.known_flow(report)
        if known is not None:  # with what the instance knows of the code that runs on it
            report = _of_flow(*known, report)
        failed = None if text is None else diagnose_text(text, report=report)
        if failed is not None:
            report = replace(report, findings=with_failure(report, failed))
        sink = _read_sink(options["sink"], report.query_id) if options["sink"] else None
        told = report.as_dict()
        for source, progress in zip(told["sources"], report.sources, strict=True):
            source["label"] = labels.words(progress)
        name = None if known is None else {"pipeline": known[0].pipeline.name, "name": known[0].name}
        found = codec.to_json(failed.found) if failed else None
        data = {**told, "sink": sink.as_dict() if sink else None, "flow": name, "diagnosis": found}
        bad = bool(report.blockers or failed)
        return Answer(data, "\n".join(texts.lines(report, sink, failed)), exit_code=int(bad))


def _read_sink(location: str, query_id: str | None) -> SinkReport:
    """What the table remembers of the query."""
    from recovery.sinks.live import reading  # late: with it comes Kafka's client

    return reading.read(location, query_id=query_id)


def _of_flow(flow: Flow, root: str, report: CheckpointReport) -> CheckpointReport:
    """The report with what the flow's code adds to it; whether that keeps state hangs on no file where it is known."""
    from recovery.workflow import verdicts
    from recovery.workflow.selectors import open_recovery_of

    recovery = open_recovery_of(flow.pk)
    found = verdicts.verdict_on(flow, report, recovery=recovery, root=root).findings
    if verdicts.code_operators(flow, recovery) is not None:
        found = tuple(f for f in found if f.code not in UNTOLD)
    return replace(report, findings=found)


def _batch(options: dict[str, Any]) -> Answer:
    """One batch, or what differs between two."""
    for given in ("sink", "deep", "inputs", "keeps_state", "error"):
        if options[given]:
            raise WrongUse(
                f"--{given.replace('_', '-')} judges the whole checkpoint: leave it out with --batch."
            )
    if options["beside"] is None:
        one = read_batch(options["path"], options["batch"])
        data = {"batch": one.as_dict(), "difference": None}
        return Answer(data, "\n".join(texts.batch_lines(one)), exit_code=int(bool(one.problems)))
    found = compare_batches(options["path"], options["batch"], options["beside"])
    of = found.after if found.after.number == options["batch"] else found.before
    bad = found.before.problems or found.after.problems
    data = {"batch": of.as_dict(), "difference": found.as_dict()}
    return Answer(data, "\n".join(texts.difference_lines(found)), exit_code=int(bool(bad)))


def _survey(path: str) -> Answer:
    """A pipeline's storage root: its flows and their versions. Exit 1 with a blocker in a newest version."""
    found = survey_root(path)
    bad = any(flow.versions and flow.versions[-1].blockers for flow in found.flows)
    return Answer(found.as_dict(), "\n".join(texts.survey_lines(found)), exit_code=int(bad))


class Progress:
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
