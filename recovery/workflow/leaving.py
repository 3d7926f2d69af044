"""What waits in sources that the new code leaves behind: only the old code tells where they read."""

from collections.abc import Iterable, Sequence

from recovery.checkpoints.report import SourceProgress
from recovery.sources.base import Distance, SourceFacts
from recovery.spark.api import Study
from recovery.workflow import inputs
from recovery.workflow.inputs import CountRequest

# Old code of which the rows of one source alone tell what it would have written of them, or at most that.
ROW_BY_ROW: tuple[tuple[str, ...], ...] = ((), ("dedupe",))


def find_dropped_sources(held: Sequence[SourceProgress], goes_on: Iterable[int | None]) -> tuple[int, ...]:
    """Indices of the checkpoint's sources that no source of the code goes on as."""
    continued = set(goes_on)
    return tuple(s.index for s in held if s.index not in continued)


def list_unread_of_dropped(before: Sequence[SourceFacts] | None, left: Iterable[int]) -> dict[int, Distance]:
    """What waits there, as far as the old code's sources (`before`) were looked at."""
    return {n: before[n].unread for n in left if before and n < len(before)}


def add_dropped_source_counts(
    of: CountRequest, before: Sequence[SourceFacts], left: Iterable[int], limit: int
) -> CountRequest:
    """And what the old code yields of each of them alone, up to `limit` bytes together; nothing of one that shares its
    folder."""
    sets, slices, room = dict(of.sets), dict(of.slices), float(limit)
    for n in left:
        span = before[n].spans.unread if n < len(before) else None
        size = inputs.bytes_of(before[n], span) if span is not None else 0
        if span is None or size > room or _is_read_by_others(before, n, span.files):
            continue
        room -= size
        sets[_label(n)] = span.files
        slices[_label(n)] = {} if span.kind == "files" else {str(n): span.as_dict()}
    return CountRequest(sets, slices if any(slices.values()) else {})


def _is_read_by_others(sources: Sequence[SourceFacts], n: int, files: Iterable[str]) -> bool:
    """A file is given to each reader of its folder, so what one of them alone yields of it cannot be counted."""
    named = set(files)
    others = (s for i, s in enumerate(sources) if i != n)
    return any(f.path in named for s in others for f in (*s.processed, *s.waiting, *s.ignored))


def count_rows_of_dropped(answer: Study | None, left: Iterable[int]) -> dict[int, int]:
    """Rows that the old code would write of them: so many, or at most so many where it drops repeats."""
    if answer is None or answer.operators not in ROW_BY_ROW:
        return {}
    return {n: answer.rows[_label(n)] for n in left if _label(n) in answer.rows}


def _label(source: int) -> str:
    return f"left {source}"
