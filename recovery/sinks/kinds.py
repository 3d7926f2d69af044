"""What every kind of sink answers: what it remembers, and what a planned start would double or lose there. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

from recovery.contracts.amounts import Amount, Bound, joint_bound, may_happen
from recovery.sinks.base import SinkReport
from recovery.sources.base import Distance, InputFile
from recovery.sources.comparing import ZERO, count_noun


@dataclass(frozen=True)
class PlannedStart:
    """A start that a plan would make, as a sink meets it."""

    #: the first number that the sink will see
    next_batch: int
    #: under the former id, not a new one
    query_id_kept: bool = False
    #: rows of committed batches that the position reads again
    reread: Distance = ZERO
    #: a batch that was planned, never committed, and is read again; the sink may hold it whole, in part or not at
    #: all
    planned: int | None = None
    #: how many rows that batch had
    planned_rows: Amount | None = None
    #: its range is on disk and stays, so it runs again as planned, whatever the query's id
    same_range: bool = False
    #: the checkpoint holds state, which a batch that runs again writes again
    stateful: bool = False

    def repeats(self, head: int | None) -> bool:
        """Whether the first batch is the planned one as it was, and the sink's newest is of that number."""
        as_it_was = self.query_id_kept or self.same_range
        return as_it_was and self.planned is not None and self.planned == head == self.next_batch


@dataclass(frozen=True)
class StartRisk:
    """What such a start does to the rows in the sink."""

    #: at most so many rows twice; Amount(0) is a promise, None not known
    doubled: Amount | None
    #: for people, as is `do`
    says: str
    #: numbers of batches that the sink would skip, whatever rows they carry
    vanished: range = range(0)
    do: str = ""
    #: such a start must not be made
    bars: bool = False
    #: the number that the sink would take next, if numbers are the problem
    following: int | None = None


class EmptyReset(TypedDict):
    """Files that an empty reset would lose (unread ones) and write twice (committed ones)."""

    swallowed_waiting: tuple[InputFile, ...]
    doubled: tuple[InputFile, ...]


class SinkKind(Protocol):
    """What the module of a kind answers, `recovery/sinks/<kind>.py`. Pure.

    `TABLE`: Spark reads it as a table, which a full refresh empties. `COMPARED`: the rows that an update wrote can be
    distinguished from those before, so that they can be compared with what was expected.
    """

    KIND: str
    TABLE: bool
    COMPARED: bool

    def explain_at_least_once(self, report: SinkReport) -> str:
        """Why rows that are written again may be there twice, as a sentence; "": a tried batch is there once."""

    def judge_risk(self, start: PlannedStart, report: SinkReport) -> StartRisk: ...


def count_repeated(start: PlannedStart, *, held: bool | None = None) -> Amount | None:
    """Rows that come a second time: those read again, and those of the planned batch, if the sink has it.

    `held`: whether it has; None: not known, so all of its rows count, at most.
    """
    rows = start.reread.rows
    if start.planned is None or held is False or rows is None:
        return rows
    if start.planned_rows is None:
        return None
    bound = joint_bound((rows.bound, start.planned_rows.bound, Bound.AT_MOST.unless(held is True)))
    why = "" if bound is Bound.EXACT else f"what was written of batch {start.planned} is not known"
    return Amount(value=rows.value + start.planned_rows.value, bound=bound, why=why)


def is_nothing(rows: Amount | None) -> bool:
    """Whether it is certain that there is no such row: an estimate of 0 is not."""
    return rows is not None and not may_happen(rows.value, rows.bound)


def in_words(rows: Amount | None) -> str:
    """`no row`, `at most 12 rows`, `about 0 rows`, `rows whose number is not known`."""
    if rows is None or rows.bound is Bound.UNKNOWN:
        return "rows whose number is not known"
    if is_nothing(rows):
        return "no row"
    return f"{rows.bound.before_number}{count_noun(rows.value, 'row')}"


def empty_reset(
    risk: StartRisk,
    processed: Sequence[InputFile],
    waiting: Sequence[InputFile],
    max_files_per_trigger: int | None,
    *,
    latest_first: bool = False,
) -> EmptyReset:
    """What becomes of each file when all are read again from batch 0 on, at a sink that passes over batches (`risk`).

    Batches are cut as Spark does: by mtime (`latest_first`: the newest ahead), `max_files_per_trigger` at a time (None:
    all in one). Exact for one source; files that differ in nothing but listing order may change places.
    """
    old = {f.path for f in processed}
    each = {f.path: f for f in (*processed, *waiting)}.values()
    files = sorted(each, key=lambda f: f.mtime_ms, reverse=latest_first)
    size = max_files_per_trigger or max(len(files), 1)
    skipped, written = files[: risk.vanished.stop * size], files[risk.vanished.stop * size :]
    return {
        "swallowed_waiting": tuple(f for f in skipped if f.path not in old),
        "doubled": tuple(f for f in written if f.path in old),
    }


def passed_over(head: int | None, start: PlannedStart) -> range:
    """Numbers that a sink skips which takes nothing up to its head."""
    return range(0) if head is None or start.next_batch > head else range(start.next_batch, head + 1)


def judge_skips(head: int, gone: range, who: str) -> StartRisk:
    """The risk of batches that are passed over."""
    return StartRisk(
        None,
        f"{who} already has batch {head} and skips {_name_batches(gone)}, whatever rows they carry: those rows are "
        "lost.",
        gone,
        f"Go on with batch {head + 1}.",
        bars=True,
        following=head + 1,
    )


def by_query_id(head: int | None, start: PlannedStart, *, held: bool | None) -> StartRisk:
    """The risk at a table that holds the newest batch of each query id, this query's being `head`.

    Under the old id, batches up to the head vanish; under a new one, what is read again is doubled. `held`: does the
    table have the planned batch? None: not known.
    """
    if start.query_id_kept and head is not None:
        if start.planned == head == start.next_batch:
            return StartRisk(
                Amount(value=0), f"Batch {head} is run again and skipped by the table, which has it."
            )
        if gone := passed_over(head, start):
            return judge_skips(head, gone, "The table")
    rows = count_repeated(start, held=held)
    if is_nothing(rows):
        return StartRisk(rows, "The table takes the next batch, and nothing comes twice.")
    return StartRisk(
        rows,
        f"The table takes what is read again as new: {in_words(rows)} would be there twice.",
        do=f"Seed after batch {head}, which the table holds: its end is in the checkpoint's offsets."
        if held
        else "",
    )


def _name_batches(batches: Sequence[int]) -> str:
    return f"batch {batches[0]}" if len(batches) == 1 else f"batches {batches[0]} to {batches[-1]}"
