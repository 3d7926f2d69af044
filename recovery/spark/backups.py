"""A table that is kept before it is emptied, and the rows that are filled back: what the pipelines' side is asked.

Unlike all other questions these change something: a folder below a pipeline's storage, and one table. Spark does it;
code of a pipeline is run by a top-up and a deduplicate alone. Shapes of a forecast and of a proof of them are here too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final

from annotated_types import Ge, MaxLen

from recovery.spark.asking import Answers, checked, sent

KEEP_SECONDS: Final = 3600.0
Rows = Annotated[int, Ge(0)]
Text = Annotated[str, MaxLen(100_000)]


class BackupRefusal(StrEnum):
    """Why a table was not kept, or not filled."""

    KEY_REPEATS = "key_repeats"  # two of its rows have the same key
    COLLATION = "collation"  # a column of the key compares texts by a collation
    COLUMNS = "columns"  # the rows do not fit the columns of the table
    ELSEWHERE = "elsewhere"  # the name is that of another table now
    DIFFERS = "differs"  # it read back otherwise than it had to
    OTHER_ROWS = "other_rows"  # the table lacks or repeats another number of rows than was planned
    APPEND_ONLY = "append_only"  # the table lets no row be deleted
    MOVED = "moved"  # something else wrote the table at the same time
    UNREADABLE = "unreadable"  # the code cannot be run over the input that was named


@dataclass(frozen=True)
class KeepRequest:
    """Copy `version` of a Delta table into the new folder `backup`, as Parquet. `key`: of which each row has another
    value."""

    answers: Answers
    table: str
    version: int
    backup: str
    key: tuple[str, ...]
    configuration: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableCopy:
    """What was read of the table, and of the copy. `digest`: over all rows in every column, whatever their order.
    `refused` not None: nothing was copied, or the copy is not used; `about`: the columns that it is about."""

    rows: Rows = 0
    digest: Text = ""
    columns: tuple[Text, ...] = ()
    copied_rows: Rows | None = None
    copied_digest: Text = ""
    refused: BackupRefusal | None = None
    about: tuple[Text, ...] = ()


@dataclass(frozen=True)
class FillRequest:
    """Append the rows of `backup` whose `key` no row of version `before` of the Delta table has, in one commit under
    `app_id`: under that id Delta writes once. `location`: where the table must be."""

    answers: Answers
    table: str
    location: str
    before: int
    backup: str
    key: tuple[str, ...]
    app_id: str
    configuration: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CorrectionRequest:
    """Correct version `before` of a Delta table, in one commit under `app_id`, by what the code yields over the input
    that `study` names, all labels together: `top_up` adds the rows of a `key` that the table lacks, `delete_repeats`
    deletes those beyond as many as the code yields. `location`: where the table must be. `rows`: how many these must
    be; where they are another number, or rows of a key to delete differ, nothing is written."""

    answers: Answers
    table: str
    location: str
    before: int
    study: Any
    key: tuple[str, ...]
    app_id: str
    rows: int


@dataclass(frozen=True)
class FillAnswer:
    """`rows` that the table lacked, or had too often, and that Delta was given to write or to delete; as `TableCopy` if
    it was refused. `problem`: why the code could not be run; "" where it was."""

    rows: Rows = 0
    refused: BackupRefusal | None = None
    about: tuple[Text, ...] = ()
    problem: Text = ""


@dataclass(frozen=True)
class RestoreRequest:
    """Put a Delta table back to `version`, in one commit that names it. `location`: where the table must be. `digest`:
    that of its rows then; "": they are not compared. `note`: what the commit bears besides."""

    answers: Answers
    table: str
    location: str
    version: int
    digest: str = ""
    note: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RestoreAnswer:
    """`rows` of the table then, None where they were not compared. `problem` not None: Delta could not, as its files
    are gone."""

    rows: Rows | None = None
    refused: BackupRefusal | None = None
    problem: Text | None = None


@dataclass(frozen=True)
class TableGap:
    """A table beside what the code yields over all input that is left, by key.

    `table_rows` and different keys in it; `beyond`: rows whose key the code does not yield. `unfit`: columns that only
    one of both has, or that are of another type than the code's.
    """

    table_rows: Rows
    table_keys: Rows
    beyond: Rows
    unfit: tuple[Text, ...] = ()


@dataclass(frozen=True)
class CommittedComparison:
    """What the code yields over all committed input beside the table, by key; as `strategies.base.CommittedRows`."""

    rows: Rows = 0
    absent: Rows = 0
    absent_keys: Rows = 0
    short: Rows = 0
    extra: Rows = 0
    extra_keys: Rows = 0
    differing: Rows | None = None
    beyond: Rows = 0
    unsettled: Rows | None = 0
    collated: tuple[Text, ...] = ()
    unfit: tuple[Text, ...] = ()


@dataclass(frozen=True)
class ToppedRows:
    """The whole table beside what the code yields over all committed input, by key. `rows`: that it yields; `missing`:
    by which the table has fewer of a key, `extra`: more of one that is yielded; `beyond`: rows of other keys."""

    rows: Rows
    missing: Rows
    extra: Rows
    beyond: Rows


@dataclass(frozen=True)
class DeletedRows:
    """Rows of a table `before` and `after` some were deleted, compared in every column. `deleted`: how many fewer it
    has of rows that were there, `added`: how many more of any; `vanished`: different rows of which none is left."""

    before: Rows
    after: Rows
    deleted: Rows
    added: Rows
    vanished: Rows


@dataclass(frozen=True)
class FillToMeasure:
    """What a fill did, for a measure: the folder of the backup's rows, and the table's versions before and after it."""

    backup: str
    before: int
    after: int


@dataclass(frozen=True)
class FilledRows:
    """Rows that were filled back, as measured. `due`: rows of the backup whose key the code does not yield over the
    input that was read; `missing` and `extra`: of the exact multiset difference between these and the table's rows
    with their keys, in every column. `batch_rows`: of the table before the fill; `filled`: by how many it grew.
    `backup_rows` and `backup_digest`: of the backup as it is now."""

    due: Rows
    missing: Rows
    extra: Rows
    batch_rows: Rows
    filled: int
    backup_rows: Rows
    backup_digest: Text


def keep(request: KeepRequest, *, timeout: float = KEEP_SECONDS) -> TableCopy:
    """Copy a table and read the copy back. `timeout` in seconds. Raises Unreachable, Refused."""
    return checked(TableCopy, request.answers.ask("keep", sent(request), seconds=timeout))


def fill(request: FillRequest, *, timeout: float = KEEP_SECONDS) -> FillAnswer:
    """Write the rows that a table lacks. `timeout` in seconds. Raises Unreachable, Refused."""
    return checked(FillAnswer, request.answers.ask("fill", sent(request), seconds=timeout))


def top_up(request: CorrectionRequest, *, timeout: float = KEEP_SECONDS) -> FillAnswer:
    """Write the rows of the input that a table lacks. The pipeline's code is run. `timeout` in seconds. Raises
    Unreachable, Refused."""
    return checked(FillAnswer, request.answers.ask("top-up", sent(request), seconds=timeout))


def delete_repeats(request: CorrectionRequest, *, timeout: float = KEEP_SECONDS) -> FillAnswer:
    """Delete the rows that a table has too often. The pipeline's code is run. `timeout` in seconds. Raises
    Unreachable, Refused."""
    return checked(FillAnswer, request.answers.ask("deduplicate", sent(request), seconds=timeout))


def restore(request: RestoreRequest, *, timeout: float = KEEP_SECONDS) -> RestoreAnswer:
    """Put a table back. Each call is another commit: without a `digest` to compare, ask only where the table's log has
    no such commit (`sinks.live.earlier.put_back_to`). `timeout` in seconds. Raises Unreachable, Refused."""
    return checked(RestoreAnswer, request.answers.ask("restore", sent(request), seconds=timeout))
