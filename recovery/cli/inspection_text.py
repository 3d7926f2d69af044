"""An inspection, a batch and a difference as text: verdict first, then what it is, what is wrong, what to do."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from recovery import names
from recovery.checkpoints import batch_descriptions
from recovery.checkpoints.absent import UNTOLD
from recovery.checkpoints.batches import BatchSource, ChangedValue, CheckpointBatch, Difference
from recovery.checkpoints.logpages import LogSpan
from recovery.checkpoints.report import (
    CheckpointReport,
    Finding,
    Outcome,
    Severity,
    SourceProgress,
    StateOperator,
)
from recovery.checkpoints.survey import Survey
from recovery.cli import diagnosis_text
from recovery.diagnosis.of_text import TextDiagnosis
from recovery.diagnosis.verdict import LAST_RUN_FAILED, LAST_RUN_LOST_ROWS, UNFIT
from recovery.sinks.base import SinkReport
from recovery.sources import labels

ORDER = {Severity.BLOCKER: 0, Severity.WARNING: 1, Severity.INFO: 2}
SHOWN_FILES = 20
DOUBTS = {  # findings beside which a checkpoint without damage is not called sound, the gravest first
    "SINK_SWALLOWED": "Rows may be missing from its table",
    LAST_RUN_LOST_ROWS: "Rows may be missing from its table",
    "SINK_HAS_ROWS_OF_BEFORE": "Rows may be in its table twice",
    LAST_RUN_FAILED: "Its program fails all the same",
    "ERROR_OF_ANOTHER_QUERY": "Whether its program runs is not known",
    "NO_FAILURE_RECOGNISED": "Whether its program runs is not known",
}
SAME_CODE = ", with the code that wrote it"  # files cannot show whether another code fits them


def lines(
    report: CheckpointReport,
    sink: SinkReport | None,
    failed: TextDiagnosis | None = None,
    *,
    is_deep: bool = False,
) -> Iterator[str]:
    """The report as a person reads it. `failed`: what is said of the text with which its program failed; `is_deep`:
    every state file was read."""
    yield write_verdict(report, is_deep=is_deep)
    yield ""
    yield f"Checkpoint   {shown(report.location)}"
    if report.version is not None:
        yield f"Version      {report.version}, the newest of its flow"
    yield f"Query id     {shown(report.query_id or 'unknown')}"
    yield f"Progress     {standing(report)}"
    same = SAME_CODE if report.outcome is Outcome.GOES_ON else ""
    yield f"Next run     {batch_descriptions.OUTCOMES[report.outcome]}{same}"
    if report.written_by:
        yield f"Written by   Spark {writer_words(report.written_by)}"
    for source in report.sources:
        yield f"Source {source.name or source.index!s:<5} {source_words(source)}"
    for operator in report.state_operators:
        own = f"state/{operator.operator_id}/"
        unread = any(f.code == "STATE_UNCHECKED" and (f.file or "").startswith(own) for f in report.findings)
        yield f"State {operator.operator_id:<6} {operator_words(operator, is_read=is_deep and not unread)}"
    if not report.state_operators:
        untold = any(f.code in UNTOLD for f in report.findings)
        yield f"State        none{' here; no file shows whether the code keeps any' if untold else ''}"
    if sink is not None:
        yield f"Sink         {sink_words(sink)}"
    yield f"Size         {report.size_bytes:,} bytes in all"
    yield from findings(report.findings)
    if failed is not None and failed.is_recognised:
        yield from ("", "Why it failed, by the text", shown(failed.found.title))
        yield f"Condition    {shown(failed.found.condition or 'none that Spark names')}"
        yield from diagnosis_text.write_body(failed.found)


def findings(found: Sequence[Finding]) -> Iterator[str]:
    """What is wrong and what to do, blockers first."""
    if not found:
        return
    for title, some in (
        ("What is wrong", [f for f in found if f.severity is not Severity.INFO]),
        ("Also", [f for f in found if f.severity is Severity.INFO]),
    ):
        if some:
            yield ""
            yield title
        for one in sorted(some, key=lambda f: ORDER[f.severity]):
            yield from finding_lines(one)


def write_verdict(report: CheckpointReport, *, is_deep: bool) -> str:
    """One line that says whether it is sound."""
    count = len(report.blockers)
    if count and all(f.code in UNFIT for f in report.blockers):
        return "No damage found, but the code that ran last does not fit it. See below what to do."
    if count:
        return f"Not sound: {count} blocker{'' if count == 1 else 's'}. See below what to do."
    if report.format == "none":
        return "Empty: there is no checkpoint here."
    if doubts := [code for code in DOUBTS if any(f.code == code for f in report.findings)]:
        return f"No damage found. {DOUBTS[doubts[0]]}: see {doubts[0]}."
    if report.outcome is Outcome.OPEN:
        return f"No damage found. Whether the next run goes on depends on what no file shows: see {_open(report)}."
    warnings = sum(f.severity is Severity.WARNING for f in report.findings)
    sound = "Sound" if not warnings else f"Sound, with {warnings} warning{'' if warnings == 1 else 's'}"
    unread = report.state_operators and not is_deep
    return f"{sound}{'; its state files are there and were not read: --deep reads them' if unread else ''}."


def _open(report: CheckpointReport) -> str:
    """The findings for which nothing is promised."""
    return ", ".join(sorted({f.code for f in report.findings if f.outcome is Outcome.OPEN}))


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
    """Its kind, and where it stands in the words of that kind."""
    return f"{source.kind}: {shown(labels.describe_progress(source))}"


def operator_words(operator: StateOperator, *, is_read: bool) -> str:
    """Name, partitions, keys, rows and size of one stateful operator, and where a rollback could end. `is_read`: was
    each of its files read?"""
    keys = f", keyed by {shown(', '.join(operator.key_columns))}" if operator.key_columns else ""
    rows = f", {operator.rows:,} rows" if operator.rows is not None else ""
    size = f", {operator.size_bytes:,} bytes" if operator.size_bytes is not None else ""
    layout = f", {operator.layout} format {operator.state_format}" if operator.layout else ""
    has = "whole" if is_read else "files there"
    back = f"; {has} for batches {spans(operator.back)}" if operator.back else ""
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
        return "the table keeps no log of batches"
    return f"batch {sink.head} is the newest that the table has"


def finding_lines(found: Finding) -> Iterator[str]:
    """Severity, code, file, and the three sentences."""
    file = f"  {shown(found.file)}" if found.file else ""
    yield f"{found.severity.value.upper():<8} {found.code}{file}"
    yield f"  {shown(found.says)}"
    if found.spark:
        yield f"  Spark: {shown(found.spark)}"
    if found.outcome is not Outcome.GOES_ON:
        yield f"  {batch_descriptions.next_run(found.outcome)}"
    yield f"  Do: {found.do}"


def shown(text: str) -> str:
    """Text from a file, safe on a terminal: control characters are escaped, length is bounded."""
    clean = names.shown(text[:500])
    return clean if len(text) <= 500 else f"{clean}…"


def batch_lines(batch: CheckpointBatch) -> Iterator[str]:
    """One batch: whether it is done, where it stands, which files it took."""
    yield f"Batch {batch.number}: {batch_state(batch)}."
    yield ""
    yield f"Checkpoint   {shown(batch.location)}"
    yield f"Planned      {moment(batch.planned_ms) if batch.planned_ms else 'not recorded'}"
    yield f"Watermark    {watermark(batch.watermark_ms)}; after it {watermark(batch.next_watermark_ms)}"
    yield f"Format       offsets {_format(batch.format)}, commit {_format(batch.commit_format)}"
    if batch.control:
        yield f"Put in by    Spark itself: {shown(batch.control)}"
    for operator, partitions in (batch.operators or {}).items():
        yield f"State {shown(operator):<6} {partitions} partitions, named by the commit"
    for source in batch.sources:
        yield from _batch_source(source)
    yield from _problems(batch)


def batch_state(batch: CheckpointBatch) -> str:
    if batch.committed:
        return "committed" if batch.planned else "committed, and its offset file is missing"
    return "planned, not committed"


def _batch_source(source: BatchSource) -> Iterator[str]:
    yield ""
    stands = labels.label_position(source.kind, source.offset_json)
    yield f"Source {shown(source.key):<5} {source.kind}: {shown(stands)}"
    yield f"  Took   {shown(batch_descriptions.describe_intake(source))}"
    yield f"  From   {shown(source.begins_json or '-') if source.begins else 'not known'}"
    yield f"  To     {shown(source.offset_json or '-')}"
    yield from _files(source.files)


def _files(files: LogSpan | None) -> Iterator[str]:
    if files is None:
        return
    for entry in files.first[:SHOWN_FILES]:
        yield f"    {moment(entry.timestamp_ms)}  {shown(batch_descriptions.file_name(entry.path))}"
    if files.count > SHOWN_FILES:
        yield f"    and {files.count - SHOWN_FILES:,} more; --json lists a hundred"


def _problems(batch: CheckpointBatch) -> Iterator[str]:
    for problem in batch.problems:
        yield ""
        yield f"{problem.file} cannot be read: {problem.why}. Run inspect without --batch: it shows what to do."


def difference_lines(of: Difference) -> Iterator[str]:
    """What differs from the older batch to the newer one; what is equal is not listed."""
    old, new = (f"batch {b.number} ({batch_state(b)})" for b in (of.before, of.after))
    yield f"From {old} to {new}"
    for step in of.sources:
        yield ""
        yield f"Source {shown(step.key):<5} {step.kind}: {shown(batch_descriptions.describe_step(step))}"
        if step.change != "same":
            yield f"  From   {shown(step.before_json or '-')}"
            yield f"  To     {shown(step.after_json or '-')}"
        for name, before, after in batch_descriptions.changed_partitions(step.before_json, step.after_json)[
            :SHOWN_FILES
        ]:
            yield f"    {shown(name)}: {_or_none(before)} to {_or_none(after)}"
        yield from _files(step.files)
    untold = batch_descriptions.operators_untold(of)
    for title, moved, why in (
        ("Header", of.header, ""),
        ("Settings", of.conf, ""),
        ("State partitions", of.operators, untold),
    ):
        yield ""
        yield f"{title:<12} {why or ('' if moved else 'the same')}".rstrip()
        yield from (_moved(m) for m in moved)
    for batch in (of.before, of.after):
        yield from _problems(batch)


def _moved(of: ChangedValue) -> str:
    return f"  {shown(of.name)}: {shown(_or_none(of.before))} to {shown(_or_none(of.after))}"


def _or_none(value: object) -> str:
    return "none" if value is None else str(value)


def _format(version: int | None) -> str:
    return "none" if version is None else f"v{version}"


def watermark(at_ms: int | None) -> str:
    """Spark writes 0 where the query has no watermark, or has seen no event time yet."""
    return "not recorded" if at_ms is None else moment(at_ms) if at_ms else "none"


def writer_words(written_by: dict[str, str | None]) -> str:
    """The range of Spark versions that the newest header proves."""
    at_least, before = written_by["at_least"], written_by["before"]
    if at_least and before:
        return f"{at_least} or newer, older than {before}"
    return f"{at_least} or newer" if at_least else f"older than {before}"
