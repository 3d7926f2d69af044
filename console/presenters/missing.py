"""Rows that a table lacks: which, from which file and line, and what was written again meanwhile. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from console.presenters import status, words
from console.presenters.checkpoint import FindingRow
from recovery.contracts.measured import (
    EVERY_ROW_ONCE,
    ChangedFile,
    FileMark,
    Measured,
    MeasuredOutcome,
    RowOrigin,
)
from recovery.contracts.value import DataRow

SHOWN: Final = 20
NOT_KNOWN: Final = "not known"


@dataclass(frozen=True)
class RowPlace:
    """A file that yields the row. `line`: `2 of 3`; `code`: exact (one line alone can have yielded it), several, or
    not-known. `owner`: "" where the storage does not tell."""

    file: str
    line: str
    code: str
    owner: str


@dataclass(frozen=True)
class MissingRow:
    """`key`: its values; `times`: how often it is missing; `places`: () where it is not known where it comes from."""

    key: tuple[str, ...]
    times: str
    places: tuple[RowPlace, ...]


@dataclass(frozen=True)
class MissingRows:
    """`columns`: of the key. `more`: how many rows are missing beyond those that are shown; None: not known."""

    columns: tuple[str, ...]
    rows: tuple[MissingRow, ...]
    more: int | None
    #: when Spark read the files for this
    read_at: words.StoredMoment = None
    #: whether a file is known of any row
    located: bool = False


def missing_rows(measured: Measured) -> MissingRows | None:
    """The first of the rows that are missing; None where none is."""
    samples = measured.samples.get("missing", ())[:SHOWN]
    if not samples:
        return None
    keys = [_key_of_sample(sample) for sample in samples]
    columns = tuple(dict.fromkeys(name for key in keys for name in key))
    rows = tuple(
        MissingRow(
            tuple(_value_text(key.get(name)) for name in columns),
            words.format_number(_count_times(sample)),
            tuple(_place_of_row(origin, measured) for origin in measured.origins if origin.sample == number),
        )
        for number, (key, sample) in enumerate(zip(keys, samples, strict=True))
    )
    return MissingRows(
        columns, rows, _count_more(measured, samples), measured.at, any(r.places for r in rows)
    )


def _count_times(sample: DataRow) -> int:
    """How often the row is missing."""
    times = sample.get("times", 1)
    return times if isinstance(times, int) else 1


def _key_of_sample(sample: DataRow) -> DataRow:
    key = sample.get("key")
    return key if isinstance(key, Mapping) else sample


def _value_text(value: object) -> str:
    """A value of a row as it is in the data."""
    return "null" if value is None else str(value)


def _count_more(measured: Measured, samples: Sequence[DataRow]) -> int | None:
    judged = measured.criterion(EVERY_ROW_ONCE)
    missing = judged.measured_number("missing") if judged else None
    return None if missing is None else max(0, missing - sum(map(_count_times, samples)))


def _place_of_row(origin: RowOrigin, outcome: MeasuredOutcome) -> RowPlace:
    line, code = NOT_KNOWN, "not-known"
    if origin.lines:
        numbers = [words.format_number(n) for n in origin.lines]
        line = numbers[0] if len(numbers) == 1 else f"{', '.join(numbers[:-1])} or {numbers[-1]}"
        line += f" of {words.format_number(origin.of)}" if origin.of is not None else ""
        code = "exact" if len(numbers) == 1 else "several"
    return RowPlace(origin.file, line, code, outcome.owners.get(origin.file, ""))


@dataclass(frozen=True)
class FileMoment:
    """`size` and `written`: of a file at one moment, in words."""

    size: str
    written: str


@dataclass(frozen=True)
class ChangedRow:
    """A source file that was written again. `finding`: for the finding's partial."""

    path: str
    finding: FindingRow
    sealed: FileMoment
    read: FileMoment
    now: FileMoment
    owner: str


@dataclass(frozen=True)
class ChangedRows:
    """`rows`: the first of `number` files."""

    number: int
    rows: tuple[ChangedRow, ...]


WARNING: Final = status.Badge("attention", "Warning")


def changed_files(measured: Measured) -> ChangedRows | None:
    """Source files that were written again since the plan was sealed; None where none was, or that is not known."""
    changed = measured.changed_files
    if changed is None or not changed.number:
        return None
    return ChangedRows(changed.number, tuple(_changed_row(file, measured) for file in changed.first[:SHOWN]))


def _changed_row(file: ChangedFile, outcome: MeasuredOutcome) -> ChangedRow:
    name = file.path.rsplit("/", 1)[-1]
    if file.now is None:
        says = f"{name} was read and is gone."
        do = "Rows of it cannot be compared any more. Find out who removed it, and whether there is a copy."
    elif file.since_read:
        says = f"{name} was written again after Spark had listed it to be read."
        do = (
            "Spark reads each file once, so it does not come back for what is new in it. Rows that are missing or too "
            "many may come from this."
        )
    else:
        says = f"{name} was written again after the plan was sealed, and before it was read."
        do = "The forecast counted its rows as they were; the proof compares them as they are now."
    finding = FindingRow(WARNING, "warning", says, do, "SOURCE_FILE_CHANGED", name, "")
    return ChangedRow(
        file.path,
        finding,
        _moment_of_mark(file.sealed),
        _moment_of_mark(file.read),
        _moment_of_mark(file.now, gone=True),
        outcome.owners.get(file.path, ""),
    )


def _moment_of_mark(mark: FileMark | None, *, gone: bool = False) -> FileMoment:
    if mark is None:
        return FileMoment("gone" if gone else NOT_KNOWN, "gone" if gone else NOT_KNOWN)
    at = NOT_KNOWN if mark.mtime_ms is None else _format_time(mark.mtime_ms)
    return FileMoment(NOT_KNOWN if mark.size is None else words.format_size(mark.size), at)


def _format_time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%d %b %Y, %H:%M:%S}.{ms % 1000:03d} UTC"
