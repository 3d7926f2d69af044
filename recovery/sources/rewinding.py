"""How far back a stream must begin so that dropped state is built again: what can be told from the watermark. Pure.

State that is dropped held rows of windows that were still open. A window that ends at or before the watermark was
written and is closed for good: rows of it that are read once more are dropped as late. So of steps that write when a
window closes, going back too far costs time alone, and not far enough loses rows (run on Spark 4.2:
`tests/integration/test_rehearsal_on_spark.py`). Steps that write a row as it comes write it again.
"""

from collections.abc import Collection
from dataclasses import dataclass

# Names as in a checkpoint's `_metadata` (`recovery.spark.explained.OPERATORS`). In append mode these two write a window
# once, when the watermark has passed its end.
WHEN_CLOSED = ("stateStoreSave", "sessionWindowStateStoreSaveExec")
SESSION = "sessionWindowStateStoreSaveExec"


@dataclass(frozen=True)
class Needed:
    """Event times in ms since the epoch. Rows at `surely_ms` or later belong to open windows. `back_to_ms`: no row
    before it does; None: that cannot be told. `twice`: steps that would write again what is read again."""

    surely_ms: int | None
    back_to_ms: int | None
    twice: tuple[str, ...]
    says: tuple[str, ...]


def needed(watermark_ms: int | None, operators: Collection[str], *, window_ms: int | None = None) -> Needed:
    """What must be read again for state that is dropped at a watermark. None: no watermark was reached.

    `watermark_ms` is that of the header of the last committed offset file: up to it windows were written. `window_ms`:
    the length of the longest window, where somebody knows it; the code tells, not the checkpoint.
    """
    twice = tuple(sorted(set(operators) - set(WHEN_CLOSED)))
    says = []
    if twice:
        says.append(
            f"{', '.join(twice)} writes rows as they come: what is read again is written again. Start where the old "
            "one stood, with the state of a rehearsal over the rows before."
        )
    if not watermark_ms:
        says.append("No watermark was reached, so every row may still count: start at the beginning.")
        return Needed(None, None, twice, tuple(says))
    back = None if window_ms is None or SESSION in operators else watermark_ms - window_ms + 1
    if SESSION in operators:
        says.append(
            "A session has no longest length: go back to before the first row of the longest one still open."
        )
    elif window_ms is None:
        says.append(
            "Rows from the watermark on belong to open windows; those before it, by up to a window's length, may. "
            "Go back by at least the longest window before the watermark."
        )
    says.append(
        "A row comes no earlier than its event time, unless clocks are off: a position at that time of arrival "
        "misses none."
    )
    return Needed(watermark_ms, back, twice, tuple(says))
