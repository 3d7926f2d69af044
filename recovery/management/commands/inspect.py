"""`manage.py inspect PATH`: what a checkpoint is, where it stands, what is wrong, what to do. Reads only."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from recovery.checkpoints import inspect
from recovery.checkpoints.report import CheckpointReport, Finding, Severity, SourceProgress, StateOperator
from recovery.checkpoints.survey import Survey, is_storage_root, survey
from recovery.management.commands._base import Answer, RepriseCommand
from recovery.sinks.base import SinkReport
from recovery.sinks.live import files as sink_files

ORDER = {Severity.BLOCKER: 0, Severity.WARNING: 1, Severity.INFO: 2}


class Command(RepriseCommand):
    """Exit 0: sound; 1: there is a blocker; 2: the path cannot be read."""

    help = "Judges the checkpoint in a directory or URL; of a pipeline's flow directory, the newest version."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", help="Checkpoint or flow directory: a path or a URL.")
        parser.add_argument("--sink", help="Location of the table, whose log of batches is compared.")
        parser.add_argument(
            "--deep",
            action="store_true",
            help="Check every state file, and read the logs that only a rewind needs.",
        )
        parser.add_argument(
            "--inputs",
            action="store_true",
            help="Look whether the input files that the logs name are still there.",
        )

    def answer(self, options: dict[str, Any]) -> Answer:
        path = options["path"]
        if is_storage_root(path):
            return _survey(path)
        told = counting if options["deep"] and sys.stderr.isatty() else None
        report = inspect(
            path, sink=options["sink"], deep=options["deep"], inputs=options["inputs"], progress=told
        )
        sink = sink_files.read(options["sink"]) if options["sink"] else None
        data = {**report.as_dict(), "sink": sink.as_dict() if sink else None}
        return Answer(data, "\n".join(lines(report, sink)), exit_code=1 if report.blockers else 0)


def _survey(path: str) -> Answer:
    """A pipeline's storage root: its flows and their versions. Exit 1 with a blocker in a newest version."""
    found = survey(path)
    blocked = any(flow.versions and flow.versions[-1].blockers for flow in found.flows)
    return Answer(found.as_dict(), "\n".join(survey_lines(found)), exit_code=1 if blocked else 0)


def survey_lines(found: Survey) -> Iterator[str]:
    """Flow by flow, the newest version first."""
    count = len(found.flows)
    yield f"{count} flow{'' if count == 1 else 's'} below {shown(found.location)}"
    for flow in found.flows:
        yield ""
        yield shown(" / ".join(flow.parts))
        for version in reversed(flow.versions):
            last = (
                "nothing committed yet"
                if version.last_committed is None
                else f"batch {version.last_committed}"
            )
            blocked = (
                f"; {version.blockers} blocker{'' if version.blockers == 1 else 's'}"
                if version.blockers
                else ""
            )
            yield f"  version {version.number}: {last}{blocked}"
    if found.findings:
        yield ""
    for finding in found.findings:
        yield from finding_lines(finding)
    if not found.whole:
        yield "There are more; the list was ended here."


def counting(done: int, total: int) -> None:
    """How far a deep look is, on one line that is written over."""
    end = "\n" if done == total else ""
    sys.stderr.write(f"\r{done:,} of {total:,} state files checked{end}")


def lines(report: CheckpointReport, sink: SinkReport | None) -> Iterator[str]:
    """The report as a person reads it: verdict first, then what it is, then what to do."""
    yield verdict(report)
    yield ""
    yield f"Checkpoint   {shown(report.location)}"
    if report.version is not None:
        yield f"Version      {report.version}, the newest of its flow"
    yield f"Query id     {shown(report.query_id or 'unknown')}"
    yield f"Stands at    {standing(report)}"
    if report.written_by:
        yield f"Written by   Spark {writer_words(report.written_by)}"
    for source in report.sources:
        yield f"Source {source.name or source.index!s:<5} {source_words(source)}"
    for operator in report.state_operators:
        yield f"State {operator.operator_id:<6} {operator_words(operator)}"
    if not report.state_operators:
        yield "State        none"
    if sink is not None:
        yield f"Sink         {sink_words(sink)}"
    if report.findings:
        yield ""
    for found in sorted(report.findings, key=lambda f: ORDER[f.severity]):
        yield from finding_lines(found)


def verdict(report: CheckpointReport) -> str:
    """One line that says whether it is sound."""
    count = len(report.blockers)
    if count:
        return f"Not sound: {count} blocker{'' if count == 1 else 's'}. See below what to do."
    if report.format == "none":
        return "Empty: there is no checkpoint here."
    warnings = sum(f.severity is Severity.WARNING for f in report.findings)
    return "Sound." if not warnings else f"Sound, with {warnings} warning{'' if warnings == 1 else 's'}."


def writer_words(written_by: dict[str, str | None]) -> str:
    """The range of Spark versions that the newest header proves."""
    at_least, before = written_by["at_least"], written_by["before"]
    if at_least and before:
        return f"{at_least} or newer, older than {before}"
    return f"{at_least} or newer" if at_least else f"older than {before}"


def standing(report: CheckpointReport) -> str:
    """Last committed batch, when it was planned, and what is under way."""
    if report.last_committed is None:
        return "no batch committed yet"
    at = next((b["timestamp_ms"] for b in report.batches if b["batch"] == report.last_committed), None)
    when = f", planned {moment(at)}" if at else ""
    planned = report.last_planned
    ahead = planned is not None and planned > report.last_committed
    tail = f"; batch {planned} planned, not committed" if ahead else ""
    return f"batch {report.last_committed} committed{when}{tail}"


def moment(at_ms: int) -> str:
    """Epoch milliseconds as an absolute time in UTC; a number that is no date stays a number."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"at {at_ms} ms"


def source_words(source: SourceProgress) -> str:
    """How much one source has read, and the newest file."""
    if source.kind != "files":
        return f"{source.kind}: {shown(source.offset_json or 'nothing read yet')}"
    if source.committed.newest is None:
        return "files: nothing read yet"
    newest = unquote(source.committed.newest.path.rsplit("/", 1)[-1])
    planned = f"; {len(source.planned):,} planned, not committed" if source.planned else ""
    return f"files: {len(source.committed):,} read, newest {shown(newest)} (log entry {source.log_offset}){planned}"


def operator_words(operator: StateOperator) -> str:
    """Name, partitions, keys, rows and size of one stateful operator, and where a rollback could end."""
    keys = f", keyed by {shown(', '.join(operator.key_columns))}" if operator.key_columns else ""
    rows = f", {operator.rows:,} rows" if operator.rows is not None else ""
    size = f", {operator.size_bytes:,} bytes" if operator.size_bytes is not None else ""
    layout = f", {operator.layout} format {operator.state_format}" if operator.layout else ""
    back = f"; whole for batches {spans(operator.back)}" if operator.back else ""
    count = f"{operator.partitions} partition{'' if operator.partitions == 1 else 's'}"
    return f"{shown(operator.name)}: {count}{keys}{rows}{size}{layout}{back}"


def spans(numbers: Sequence[int]) -> str:
    """Ascending numbers as people write them: `0-4, 7`."""
    found: list[list[int]] = []
    for n in numbers:
        if found and n == found[-1][1] + 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def sink_words(sink: SinkReport) -> str:
    """What the table remembers."""
    if sink.kind != "files":
        return "not a file table; what it remembers is not known here"
    if sink.head is None:
        return "the table keeps no log of batches yet"
    return f"batch {sink.head} is the newest that the table has"


def finding_lines(found: Finding) -> Iterator[str]:
    """Severity, code, file, and the three sentences."""
    file = f"  {shown(found.file)}" if found.file else ""
    yield f"{found.severity.value.upper():<8} {found.code}{file}"
    yield f"  {shown(found.says)}"
    if found.spark:
        yield f"  Spark: {shown(found.spark)}"
    yield f"  Do: {found.do}"


def shown(text: str) -> str:
    """Text from a file, safe on a terminal: control characters are escaped, length is bounded."""
    clean = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:500])
    return clean if len(text) <= 500 else f"{clean}…"
