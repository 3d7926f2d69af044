"""What a way out asks for, in people's words, and those that do not fit with their reason. Pure."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from console.presenters import words
from recovery.contracts.amounts import Amount, RowAmount
from recovery.contracts.effort import Effort, StateFate, TableReset, TimedBy
from recovery.contracts.forecast import DownstreamEffect, Forecast
from recovery.contracts.option import Option

TABLES: Final = {
    TableReset.NO: "No",
    TableReset.FILLED: "Yes, then filled back",
    TableReset.RESTORED: "Put back to earlier rows",
}
FATES: Final = {
    StateFate.NONE: "none to keep",
    StateFate.KEPT: "kept",
    StateFate.DROPPED: "dropped",
    StateFate.REBUILT: "built again",
    StateFate.EMPTY: "starts empty",
}
TIMED: Final = {
    TimedBy.UPDATES: "by usual updates; how fast it reads is not known",
    TimedBy.RATE: "by usual updates and the rows to read at its own rate",
    TimedBy.UNKNOWN: "",
}
BELOW: Final = {
    DownstreamEffect.REFRESHED: "refreshed",
    DownstreamEffect.STALE: "stale",
    DownstreamEffect.EMPTIED: "stays empty",
    DownstreamEffect.DOUBLED: "gets rows twice",
    DownstreamEffect.UNKNOWN: "not known",
}


@dataclass(frozen=True)
class EffortCell:
    """One answer: its words, what is under them; `bad`: it cannot be taken back."""

    text: str
    small: str = ""
    bad: bool = False


@dataclass(frozen=True)
class FoldedWay:
    """A strategy that does not fit here: why, and what it would do to rows; "" where that was not counted."""

    strategy: str
    says: str
    rows: str


@dataclass(frozen=True)
class EffortLine:
    """One question, with an answer for each option."""

    question: str
    cells: tuple[EffortCell, ...]


NOT_MEASURED: Final = EffortCell("not known")


def effort_lines(options: Sequence[Option]) -> tuple[list[EffortLine], list[EffortLine]]:
    """What is shown above the rows, and below them; both empty where no option was measured."""
    if all(option.effort is None for option in options):
        return [], []

    def answer(question: str, cell_of: Callable[[Effort], EffortCell]) -> EffortLine:
        return EffortLine(question, tuple(cell_of(o.effort) if o.effort else NOT_MEASURED for o in options))

    above = [answer("People, steps", people_cell), answer("To read", reading_cell)]
    below = [answer("Backup needed", backup_cell), answer("Table reset", table_cell)]
    return above, below


def people_cell(effort: Effort) -> EffortCell:
    """How many people and steps it takes."""
    people = (
        f"{effort.people.bound.before_number}{words.format_count(effort.people.value, 'person', 'people')}"
    )
    return EffortCell(f"{people}, {words.format_count(effort.steps, 'step')}", effort.people.why)


def reading_cell(effort: Effort) -> EffortCell:
    """Rows and bytes of the input that it reads."""
    if effort.rows is None and effort.bytes is None:
        return NOT_MEASURED
    rows = "rows not known" if effort.rows is None else _count_with_bound(effort.rows, "row")
    size = (
        ""
        if effort.bytes is None
        else f", {effort.bytes.bound.before_number}{words.format_size(effort.bytes.value)}"
    )
    return EffortCell(f"{rows}{size}", effort.rows.why if effort.rows else "")


def _count_with_bound(amount: Amount, noun: str) -> str:
    return f"{amount.bound.before_number}{words.format_count(amount.value, noun)}"


def backup_cell(effort: Effort) -> EffortCell:
    """Whether the table is copied first."""
    if not effort.backup.needed:
        return EffortCell("No")
    size = effort.backup.bytes
    if size is None:
        return EffortCell("Yes", "its size is not known")
    return EffortCell(f"Yes, {size.bound.before_number}{words.format_size(size.value)}")


def table_cell(effort: Effort) -> EffortCell:
    """What becomes of the table meanwhile."""
    if effort.table is TableReset.EMPTIED:
        until = (
            "until the update ends" if effort.seconds is None else f"about {format_estimate(effort.seconds)}"
        )
        return EffortCell(f"Yes, empty {until}")
    return EffortCell(TABLES[effort.table])


def state_cell(option: Option) -> EffortCell:
    """What becomes of the state: measured, else as the forecast has it."""
    if option.effort is None:
        return EffortCell(option.forecast.state)
    state = option.effort.state
    keys = f", {_count_with_bound(state.keys, 'key')}" if state.keys is not None else ""
    return EffortCell(f"{FATES[state.fate]}{keys}", "" if keys else option.forecast.state)


def below_cell(forecast: Forecast) -> EffortCell:
    """What becomes of the datasets below, by their number."""
    if not forecast.downstream:
        return EffortCell("none is known")
    counts = Counter(dataset.effect for dataset in forecast.downstream)
    return EffortCell(
        ", ".join(f"{counts[effect]} {says}" for effect, says in BELOW.items() if counts[effect])
    )


def undo_cell(option: Option) -> EffortCell:
    """Until when it can be undone."""
    if not option.undoable:
        return EffortCell("No way back", option.rollback, bad=True)
    until = option.effort.undo.until_batch if option.effort else None
    return EffortCell(option.rollback if until is None else f"Batch {until} is committed")


def time_cell(option: Option) -> EffortCell:
    """How long it takes, and by what that is estimated."""
    seconds = option.forecast.seconds
    if seconds is None:
        return EffortCell("–" if option.effort is None else "not known")
    return EffortCell(format_estimate(seconds), TIMED[option.effort.timed_by] if option.effort else "")


def format_estimate(seconds: float) -> str:
    """An estimate needs no tenths."""
    return f"{round(seconds)} s" if seconds < 60 else words.format_duration(round(seconds))


def list_folded(options: Sequence[Option]) -> list[FoldedWay]:
    """Options that do not fit, in their order."""
    return [
        FoldedWay(o.strategy.value, str(o.blocked or "This version cannot run it."), _fate_of_rows(o))
        for o in options
    ]


def _fate_of_rows(option: Option) -> str:
    amounts = (("lost", option.forecast.lost), ("doubled", option.forecast.doubled))
    known = [(name, amount) for name, amount in amounts if amount.rows is not None]
    return ", ".join(f"{_row_count(amount)} {name}" for name, amount in known)


def _row_count(amount: RowAmount) -> str:
    return f"{amount.bound.before_number}{words.format_count(amount.rows, 'row')}"
