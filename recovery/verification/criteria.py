"""The criteria by which a recovery is judged, and which of them each strategy must meet.

The words stand beside the strategies, which fix the expected values when a plan is sealed; the codes
are the same there and here.
"""

from recovery.strategies.common import WORDS

FIRST_BATCH_AT_POSITION = "FIRST_BATCH_AT_POSITION"
EACH_FILE_ONCE = "EACH_FILE_ONCE"
TABLE_GREW_BY_NEW_BATCHES = "TABLE_GREW_BY_NEW_BATCHES"
EVERY_ROW_ONCE = "EVERY_ROW_ONCE"
COUNTS_EQUAL_FORECAST = "COUNTS_EQUAL_FORECAST"
NOTHING_ELSE_CHANGED = "NOTHING_ELSE_CHANGED"
FURTHER_UPDATE_ADDS_NOTHING = "FURTHER_UPDATE_ADDS_NOTHING"

_ALL = tuple(WORDS)
# COUNTS_EQUAL_FORECAST is in a plan only where rows could be forecast, so no strategy requires it.
_ON_DATA = tuple(code for code in _ALL if code != COUNTS_EQUAL_FORECAST)
REQUIRED: dict[str, tuple[str, ...]] = {
    "continue": _ON_DATA,
    "revert": _ON_DATA,
    "repair": _ON_DATA,
    "rewind": _ON_DATA,
    "full-refresh": _ON_DATA,
    # On a copy only, where the point is that the losses are those forecast.
    "empty": (FIRST_BATCH_AT_POSITION, EACH_FILE_ONCE, COUNTS_EQUAL_FORECAST),
}


def says(code: str) -> str:
    """The sentence of a criterion; the code itself where it is not known."""
    return WORDS.get(code, code)
