"""Rows that live in the state alone: lost by a strategy that drops it and does not read their input again. Pure.

In append mode an aggregation writes a group once, when the watermark has passed its window, and removes it from the
state in that batch (StateStoreSaveExec, SessionWindowStateStoreSaveExec): every group that the state still holds is in
no table. Pipelines write in append mode always (StreamingTableWrite, SinkWrite). A join keeps rows that wait for a
match, and what comes of them hangs on rows that have not arrived; what a step of people's own code keeps, it alone
knows. dropDuplicates has written each row whose key it holds, and a limit keeps a number. Where the state itself is
gone, as much is lost as it held, which no file tells any more.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from recovery.checkpoints.held import HeldState, Uncounted
from recovery.checkpoints.report import Finding, Severity, StateOperator
from recovery.checkpoints.table_progress import reconcile_report
from recovery.contracts.amounts import Bound, OpenWindow, RowAmount, joint_bound
from recovery.sources.comparing import count_noun, format_time
from recovery.strategies import common, late
from recovery.strategies.base import Facts, GroupRows, OutputMode

AGGREGATIONS = ("stateStoreSave", "sessionWindowStateStoreSaveExec")
JOINS = ("symmetricHashJoin",)
DEDUPES = ("dedupe", "dedupeWithinWatermark")
WRITTEN_AT_ONCE = (*DEDUPES, "globalLimit")
NO_ID = -1  # of a step whose state is gone: its number is in the folder's name
WHY_UNCOUNTED = {
    Uncounted.DAMAGED: "a file of it is damaged",
    Uncounted.NOT_KEPT: "a file of it is missing",
    Uncounted.TOO_LARGE: "it is larger than what is read for a forecast",
    Uncounted.UNKNOWN_FORM: "it is kept in a form that is not read here",
}


class StateRowsFate(StrEnum):
    """What is true of the rows that one operator's state holds."""

    EMPTY = "empty"
    WRITTEN = "written"  # they are in the table, or are none of its rows
    UNWRITTEN = "unwritten"  # groups that no table has
    BUFFERED = "buffered"  # rows of a join that wait for a match
    OWN = "own"  # what people's own code keeps
    UNCOUNTED = "uncounted"
    GONE = "gone"  # the checkpoint has no state of a step that the code had
    MODE_UNKNOWN = "mode unknown"


@dataclass(frozen=True)
class StateRows:
    """One operator's state, as far as rows go. `entries`: groups or rows in it, None where they were not counted."""

    operator: StateOperator
    fate: StateRowsFate
    entries: int | None = None
    problem: Uncounted | None = None

    @property
    def matters(self) -> bool:
        """Whether rows of the table may be in it and nowhere else."""
        return self.fate not in (StateRowsFate.EMPTY, StateRowsFate.WRITTEN)


def judge_state(facts: Facts) -> tuple[StateRows, ...]:
    """Every operator of the checkpoint, the one nearest to the sink first; behind them those whose state is gone."""
    counted = {h.operator_id: h for h in facts.held}
    there = tuple(_judged(facts, o, counted.get(o.operator_id)) for o in facts.checkpoint.state_operators)
    return (*there, *_gone(facts))


def _gone(facts: Facts) -> tuple[StateRows, ...]:
    """Steps that the last good code had and of which the checkpoint has no state, though a batch was committed.

    Where that code is not known, a missing folder tells it, or a watermark beside no state at all, which seldom is.
    """
    report, old = facts.checkpoint, facts.old_code
    if reconcile_report(report).last_committed is None:
        return ()
    if old is not None and old.operators is not None:
        there = Counter(o.name for o in report.state_operators)
        names = list((Counter(old.operators) - there).elements())
    else:
        missing = any(f.code == "STATE_MISSING" for f in report.findings)
        names = [""] if missing or (report.watermark_ms and not report.state_operators) else []
    gone_rows = (StateRows(StateOperator(NO_ID, name, 0), StateRowsFate.GONE) for name in names)
    return tuple(h for h in gone_rows if not _is_written(facts, h.operator.name))


def _is_written(facts: Facts, operator: str) -> bool:
    """Whether a row is in the table as soon as this step has it in its state."""
    writes_all = facts.state_mode in (OutputMode.UPDATE, OutputMode.COMPLETE)
    return operator in WRITTEN_AT_ONCE or (operator in AGGREGATIONS and writes_all)


def is_written_once(facts: Facts) -> bool:
    """Whether a group is in the table only once its window is closed: by the code that made the state, where that has
    groups, and by the code that will run. In another mode a group is written while it is open, and again."""
    held = any(o.name in AGGREGATIONS for o in facts.checkpoint.state_operators)
    return facts.output_mode is OutputMode.APPEND and (not held or facts.state_mode is OutputMode.APPEND)


def _judged(facts: Facts, operator: StateOperator, counted: HeldState | None) -> StateRows:
    if operator.name in WRITTEN_AT_ONCE:
        return StateRows(operator, StateRowsFate.WRITTEN)
    entries = counted.entries if counted else None
    if entries == 0:
        return StateRows(operator, StateRowsFate.EMPTY, 0)
    if _is_written(facts, operator.name):
        return StateRows(operator, StateRowsFate.WRITTEN, entries)
    if entries is None:
        return StateRows(operator, StateRowsFate.UNCOUNTED, None, counted.problem if counted else None)
    if operator.name in JOINS:
        return StateRows(operator, StateRowsFate.BUFFERED, entries)
    if operator.name not in AGGREGATIONS:
        return StateRows(operator, StateRowsFate.OWN, entries)
    known = facts.state_mode is OutputMode.APPEND
    return StateRows(operator, StateRowsFate.UNWRITTEN if known else StateRowsFate.MODE_UNKNOWN, entries)


def with_state(facts: Facts, lost: RowAmount, *, read_again: bool = False) -> RowAmount:
    """`lost`, and the rows that are lost with the state. `read_again`: their input may be read again, in part, so that
    no one can tell how many of them are."""
    return _with(facts, lost, [h for h in judge_state(facts) if h.matters], read_again=read_again)


def with_replayed_state(facts: Facts, lost: RowAmount) -> RowAmount:
    """`lost`, and the rows of state that a replay of what was processed does not put into the state of the new code:
    of steps that go; and of windows that may be cut otherwise, of which some come in others, and some too late."""
    left = list_not_replayed(facts)
    again = any(h.operator.name in (facts.new_code.operators or ()) for h in left)
    return _with(facts, lost, left, read_again=again)


def list_not_replayed(facts: Facts) -> list[StateRows]:
    """Operators whose state may hold rows of the table, and is not made again by a replay for the new code."""
    made = set(facts.new_code.operators or ())
    if not late.same_windows(facts.old_code, facts.new_code):
        made -= set(AGGREGATIONS)
    return [h for h in judge_state(facts) if h.matters and h.operator.name not in made]


def with_gone_state(facts: Facts, lost: RowAmount) -> RowAmount:
    """`lost`, and the rows of state that is gone, whatever a strategy keeps of the rest."""
    return _with(facts, lost, list(_gone(facts)))


def _with(
    facts: Facts, lost: RowAmount, state_rows: list[StateRows], *, read_again: bool = False
) -> RowAmount:
    if not state_rows:
        return lost
    mine = _amount(facts, state_rows).in_windows(_windows(facts, state_rows))
    if read_again:
        mine = RowAmount(rows=None, bound=Bound.UNKNOWN, why=mine.why, files=mine.files)
    if lost.rows == 0 and lost.exact:
        return mine
    rows = None if lost.rows is None or mine.rows is None else lost.rows + mine.rows
    return RowAmount(
        rows=rows,
        bound=joint_bound((lost.bound, mine.bound)),
        why=f"{lost.why} {mine.why}",
        files=lost.files,
        windows=mine.windows,
    )


def _windows(facts: Facts, state_rows: list[StateRows]) -> tuple[OpenWindow, ...]:
    """The first windows whose groups are in no table."""
    wanted = {h.operator.operator_id for h in state_rows if h.fate is StateRowsFate.UNWRITTEN}
    return tuple(w for h in facts.held if h.operator_id in wanted for w in h.windows)


def among(facts: Facts, again: RowAmount) -> RowAmount:
    """Rows that are written again where their input is read again: at most, where some of them were never written,
    for only the state held them."""
    if not again.rows or not any(h.matters for h in judge_state(facts)):
        return again
    why = f"{again.why} Rows that only the state held are among them, and come once."
    bound = joint_bound((again.bound, Bound.AT_MOST))
    return RowAmount(
        rows=again.rows, bound=bound, why=why, files=again.files, start=again.start, end=again.end
    )


def _amount(facts: Facts, state_rows: list[StateRows]) -> RowAmount:
    said = " ".join(says(facts, h) for h in state_rows)
    groups = _groups(facts, state_rows)
    if groups is GroupRows.UNKNOWN:
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=f"{said} {_untold(state_rows)}")
    return RowAmount(
        rows=state_rows[0].entries, bound=Bound.AT_MOST.unless(groups is GroupRows.ONE), why=said
    )


def _groups(facts: Facts, state_rows: list[StateRows]) -> GroupRows:
    """Rows of the table that one entry of the state stands for: told where one aggregation alone holds some, nothing
    with state lies between it and the sink, and the code whose state it is says what becomes of a group."""
    alone, old = state_rows[0], facts.old_code
    if facts.sink.by_function:  # what that makes of a row, it alone knows
        return GroupRows.UNKNOWN
    if len(state_rows) > 1 or alone.fate is not StateRowsFate.UNWRITTEN or old is None:
        return GroupRows.UNKNOWN
    held = tuple(o.name for o in facts.checkpoint.state_operators)
    nearest = alone.operator == facts.checkpoint.state_operators[0]
    return old.groups if nearest and old.operators == held else GroupRows.UNKNOWN


def _untold(state_rows: list[StateRows]) -> str:
    if any(h.fate is not StateRowsFate.UNWRITTEN for h in state_rows):
        return "How many rows of the table that comes to is not known."
    return "How many rows the code writes for each is not known."


def says(facts: Facts, held: StateRows) -> str:
    """What one operator's state holds; one sentence."""
    number, closed = held.operator.operator_id, reconcile_report(facts.checkpoint).closed_ms
    if held.fate is StateRowsFate.GONE:
        return _says_gone(held)
    if held.fate is StateRowsFate.UNWRITTEN:
        kind = "session" if held.operator.name == AGGREGATIONS[1] else "group"
        verb = "is" if held.entries == 1 else "are"
        until = f" of windows that end after {format_time(closed)}, the watermark," if closed else ""
        return f"{count_noun(held.entries or 0, kind)}{until} {verb} in the state of operator {number} and in no table."
    if held.fate is StateRowsFate.BUFFERED:
        return f"The join (operator {number}) keeps rows that wait for a match; later rows decide what becomes of them."
    if held.fate is StateRowsFate.OWN:
        keys = count_noun(held.entries or 0, "key")
        return f"The state of operator {number} ({held.operator.name}) holds {keys}; its code alone knows of what rows."
    if held.fate is StateRowsFate.MODE_UNKNOWN:
        return f"Whether the state of operator {number} was written depends on its output mode, which is not known."
    return (
        f"What the state of operator {number} ({held.operator.name}) holds could not be counted{_why(held)}."
    )


def _says_gone(held: StateRows) -> str:
    if not held.operator.name:
        return "State is missing in the checkpoint; no file shows which rows it held."
    step = f"the {common.word(held.operator.name)} step of the last good code"
    return f"The checkpoint has no state of {step}; no file shows which rows it held."


def _why(held: StateRows) -> str:
    return "" if held.problem is None else f": {WHY_UNCOUNTED[held.problem]}"


def findings(facts: Facts, of: Sequence[StateRows] | None = None) -> tuple[Finding, ...]:
    """One for each operator, or for each of these, whose state may hold rows that are in no table."""
    return tuple(
        Finding(
            "STATE_HOLDS_ROWS",
            Severity.WARNING,
            says(facts, held),
            _what_to_do(held),
            spark=f"operator {held.operator.operator_id} {held.operator.name}"
            if held.fate is not StateRowsFate.GONE
            else "",
        )
        for held in (judge_state(facts) if of is None else of)
        if held.matters
    )


def _what_to_do(held: StateRows) -> str:
    if held.fate is StateRowsFate.GONE:
        return "Put the checkpoint's state folder back from a backup, or accept the loss."
    if held.fate in (StateRowsFate.UNWRITTEN, StateRowsFate.MODE_UNKNOWN):
        return "Put the old code back (revert) until its windows are written, or accept the loss."
    return "Put the old code back (revert), or accept the loss."
