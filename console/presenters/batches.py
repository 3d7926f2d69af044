"""One batch of a checkpoint, two beside each other, the log of a source, as pages show them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from console.presenters import status, words
from recovery.checkpoints import batch_descriptions
from recovery.checkpoints.batches import (
    BatchSource,
    ChangedValue,
    CheckpointBatch,
    Difference,
    Problem,
    SourceStep,
)
from recovery.checkpoints.logpages import LogPage, LogSpan
from recovery.checkpoints.report import SourceEntry
from recovery.sources import labels

NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)  # no time is of this day, so every one is shown with its date


@dataclass(frozen=True)
class FileRow:
    """An input file: when it was written (its mtime, ms), the log entry that names it."""

    name: str
    path: str
    at: int
    entry: int


@dataclass(frozen=True)
class BatchSourceRow:
    key: str
    log: str
    kind: str
    stands: str
    took: str
    begins: str
    ends: str
    files: tuple[FileRow, ...]
    more: int
    partitions: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class BatchView:
    """A batch; an empty watermark is a time, which the page writes."""

    batch: CheckpointBatch
    badge: status.Badge
    says: str
    watermark: str
    next_watermark: str
    sources: tuple[BatchSourceRow, ...]
    conf: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MovedRow:
    name: str
    before: str
    after: str


@dataclass(frozen=True)
class SourceStepRow:
    key: str
    kind: str
    badge: status.Badge
    says: str
    before: str
    after: str
    files: tuple[FileRow, ...]
    more: int
    partitions: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class DifferenceView:
    before: BatchView
    after: BatchView
    steps: tuple[SourceStepRow, ...]
    header: tuple[MovedRow, ...]
    conf: tuple[MovedRow, ...]
    operators: tuple[MovedRow, ...]
    operators_untold: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class LogView:
    key: str
    page: LogPage
    files: tuple[FileRow, ...]
    newer: int | None
    older: int | None


def batch_view(batch: CheckpointBatch) -> BatchView:
    badge, says = _batch_badge(batch)
    return BatchView(
        batch,
        badge,
        says,
        _watermark_words(batch.watermark_ms),
        _watermark_words(batch.next_watermark_ms) if batch.committed else "not committed yet",
        tuple(_source_row(s) for s in batch.sources),
        tuple(sorted(batch.conf.items())),
    )


def _batch_badge(batch: CheckpointBatch) -> tuple[status.Badge, str]:
    if batch.problems:
        return status.Badge(
            "failed", "Damaged"
        ), "a file of this batch cannot be read; the findings say what to do"
    if not batch.committed:
        return status.Badge(
            "pending", "Not committed"
        ), "planned; the next run of the same code runs it first"
    if not batch.planned:
        return status.Badge("attention", "Committed"), "its offset file is gone"
    return status.Badge("ok", "Committed"), "planned, run and committed"


def _watermark_words(at_ms: int | None) -> str:
    """In words where there is none; else empty, and the page shows the time. Spark writes 0 for no watermark."""
    return "not recorded" if at_ms is None else "" if at_ms else "none"


def _source_row(source: BatchSource) -> BatchSourceRow:
    moved = (
        batch_descriptions.changed_partitions(source.begins_json, source.offset_json) if source.begins else []
    )
    return BatchSourceRow(
        source.key,
        source.log or source.key,
        source.kind,
        labels.label_position(source.kind, source.offset_json),
        batch_descriptions.describe_intake(source),
        (source.begins_json or "-") if source.begins else "not known",
        source.offset_json or "-",
        *_file_rows(source.files),
        _partition_rows(moved),
    )


def _file_rows(files: LogSpan | None) -> tuple[tuple[FileRow, ...], int]:
    if files is None:
        return (), 0
    return batch_rows(files.first), files.count - len(files.first)


def batch_rows(entries: Sequence[SourceEntry]) -> tuple[FileRow, ...]:
    return tuple(
        FileRow(batch_descriptions.file_name(e.path), e.path, e.timestamp_ms, e.batch_id) for e in entries
    )


def _partition_rows(moved: Sequence[tuple[str, int | None, int | None]]) -> tuple[tuple[str, str, str], ...]:
    return tuple((name, _format_offset(before), _format_offset(after)) for name, before, after in moved[:100])


def _format_offset(value: int | None) -> str:
    return "not there" if value is None else f"{value:,}"


CHANGES = {
    "same": status.Badge("stopped", "Same"),
    "moved": status.Badge("info", "Moved"),
    "added": status.Badge("attention", "Added"),
    "removed": status.Badge("attention", "Removed"),
}


def batch_difference(difference: Difference) -> DifferenceView:
    return DifferenceView(
        batch_view(difference.before),
        batch_view(difference.after),
        tuple(_step_row(s) for s in difference.sources),
        tuple(
            MovedRow(m.name, _header_text(m.name, m.before), _header_text(m.name, m.after))
            for m in difference.header
        ),
        _moved_rows(difference.conf),
        _moved_rows(difference.operators),
        batch_descriptions.operators_untold(difference),
        (*difference.before.problems, *difference.after.problems),
    )


def _step_row(step: SourceStep) -> SourceStepRow:
    moved = (
        batch_descriptions.changed_partitions(step.before_json, step.after_json)
        if step.change == "moved"
        else []
    )
    return SourceStepRow(
        step.key,
        step.kind,
        CHANGES[step.change],
        batch_descriptions.describe_step(step),
        step.before_json or "-",
        step.after_json or "-",
        *_file_rows(step.files),
        _partition_rows(moved),
    )


def _moved_rows(moved: Sequence[ChangedValue]) -> tuple[MovedRow, ...]:
    return tuple(MovedRow(m.name, _or_none(m.before), _or_none(m.after)) for m in moved)


def _header_text(name: str, value: str | None) -> str:
    """A watermark as a time; Spark writes 0 where there is none."""
    if value is None or "watermark" not in name:
        return _or_none(value)
    return words.format_clock(int(value), NEVER) if int(value) else "none"


def _or_none(value: str | None) -> str:
    return "not there" if value is None else value


def log_page(key: str, page: LogPage) -> LogView:
    newer = page.number - 1 if page.number > 1 else None
    older = page.number + 1 if page.number < page.pages else None
    return LogView(key, page, batch_rows(page.entries), newer, older)
