"""Rows that a rehearsal dropped behind the watermark: which of them the table has, and which would be missing. Pure.

A stream that goes back reads rows of windows that are closed. They are dropped again, and nothing is lost by that where
the table has their window. That is so for a row if all of this holds; else no one can tell, and it counts as missing.

- The one step with state is an aggregation in windows, and the old one was too: the row's own time decides which window
  it is in. (A deduplication drops by the row's time, which may lie in a window that is open; a session may reach on.)
- The old code put rows into the same windows, with the same rows before it: the watermark then parts both alike.
- It was dropped at the watermark of the last committed batch. That batch wrote each window up to there. A watermark
  that moved on while rows were read again drops rows of windows which only the old state held.
- It was read before: a row that was never read is in no window of the table, late or not.
"""

from recovery.sources.comparing import format_time
from recovery.strategies.base import CodeFacts, Facts

WINDOWS = ("stateStoreSave",)


def same_windows(old: CodeFacts | None, new: CodeFacts) -> bool:
    """Whether both codes are known to count rows of the same sources in the same windows, and keep no other state."""
    if old is None or not new.windows:
        return False
    alone = old.operators == new.operators == WINDOWS
    return alone and (old.windows, old.sources) == (new.windows, new.sources)


def known_to_differ(old: CodeFacts | None, new: CodeFacts) -> bool:
    """Whether both codes tell how they put rows into windows, and do it otherwise."""
    before = old.windows if old else ""
    return bool(before and new.windows) and before != new.windows


def describe_other_windows(facts: Facts) -> str:
    """What windows that are cut differently now count twice."""
    at = format_time(facts.checkpoint.closed_ms or 0)
    return (
        f"Windows are cut differently now: those that begin before {at}, the watermark, and end after it count rows "
        "that the table has in earlier windows."
    )


def written(facts: Facts) -> bool:
    """Whether every row that the rehearsal dropped is of a window that the table has; true where it dropped none."""
    return facts.counts.rehearsed_late == 0 or (bool(facts.counts.rehearsed_late) and not _why(facts))


def says(facts: Facts) -> str:
    """What becomes of the rows that the rehearsal dropped; one sentence or two."""
    late, why = facts.counts.rehearsed_late or 0, _why(facts)
    at = format_time(facts.checkpoint.closed_ms or 0)
    dropped = f"The rehearsal dropped {describe_size(facts, late)} behind the watermark"
    if not why:
        return f"{dropped}: of windows up to {at}, which are written and stay as they are."
    return f"{dropped}. {why}"


def _why(facts: Facts) -> str:
    """Why some of the dropped rows may be missing in the table; "" where none is."""
    counts = facts.counts
    if tuple(o.name for o in facts.checkpoint.state_operators) != WINDOWS or not same_windows(
        facts.old_code, facts.new_code
    ):
        return (
            "Whether the table has them is not known: the old code is not known to count the same rows in the same "
            "windows."
        )
    if counts.rehearsed_later is None or counts.unread_late is None:
        return "Whether the table has them is not known: they were not rehearsed apart from what was read before."
    if counts.rehearsed_later:
        return (
            f"For {describe_size(facts, counts.rehearsed_later)} of them the watermark had moved on: they may be of "
            "windows that are not written."
        )
    if counts.unread_late:
        return f"Of what was never read, {describe_size(facts, counts.unread_late)} come too late for their windows."
    return ""


def describe_size(facts: Facts, count: int) -> str:
    """Of an aggregation Spark tells groups, since rows are dropped after each task has summed up its own."""
    plural = "" if count == 1 else "s"
    grouped = facts.new_code.operators == WINDOWS
    return f"{count:,} group{plural} of rows" if grouped else f"{count:,} row{plural}"
