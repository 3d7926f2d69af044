"""The criteria by which a recovery is judged, and which of them each strategy must meet.

The words stand beside the strategies, which fix the expected values when a plan is sealed; the codes
are the same there and here.
"""

from recovery.contracts.names import EMPTYING
from recovery.strategies.backfill import FILLED, SAYS_FILLED
from recovery.strategies.common import WORDS
from recovery.strategies.deduplicate import ONLY_REPEATS_DELETED
from recovery.strategies.deduplicate import SAYS as DELETED
from recovery.strategies.top_up import CHECKPOINT_UNTOUCHED, HAS_EVERY_ROW
from recovery.strategies.top_up import SAYS as ADDED

FIRST_BATCH_AT_POSITION = "FIRST_BATCH_AT_POSITION"
EACH_FILE_ONCE = "EACH_FILE_ONCE"
TABLE_GREW_BY_NEW_BATCHES = "TABLE_GREW_BY_NEW_BATCHES"
EVERY_ROW_ONCE = "EVERY_ROW_ONCE"
COUNTS_EQUAL_FORECAST = "COUNTS_EQUAL_FORECAST"
ROWS_OF_BEFORE_UNTOUCHED = "ROWS_OF_BEFORE_UNTOUCHED"
NO_KEY_TWICE = "NO_KEY_TWICE"
NOTHING_ELSE_CHANGED = "NOTHING_ELSE_CHANGED"
FURTHER_UPDATE_ADDS_NOTHING = "FURTHER_UPDATE_ADDS_NOTHING"

_ALL = tuple(WORDS)
# COUNTS_EQUAL_FORECAST is in a plan only where rows could be forecast, so no strategy requires it.
_SINCE_2 = (ROWS_OF_BEFORE_UNTOUCHED, NO_KEY_TWICE)
_ON_DATA = tuple(code for code in _ALL if code not in (COUNTS_EQUAL_FORECAST, *_SINCE_2))
REQUIRED: dict[str, tuple[str, ...]] = {
    "continue": _ON_DATA,
    "revert": _ON_DATA,
    "repair": _ON_DATA,
    "rebuild": _ON_DATA,
    "prime": _ON_DATA,
    "rewind": _ON_DATA,
    "replay": _ON_DATA,
    "full-refresh": _ON_DATA,
    "empty": _ON_DATA,
    "backfill": (*_ON_DATA, FILLED),
    "top-up": (
        TABLE_GREW_BY_NEW_BATCHES,
        EVERY_ROW_ONCE,
        HAS_EVERY_ROW,
        CHECKPOINT_UNTOUCHED,
        NOTHING_ELSE_CHANGED,
    ),
    "deduplicate": (ONLY_REPEATS_DELETED, HAS_EVERY_ROW, CHECKPOINT_UNTOUCHED, NOTHING_ELSE_CHANGED),
}


# What a proof asks for. A plan names its edition (`proof` of its body); those sealed before there were editions have 1.
EDITION = 2


def required(strategy: str, *, edition: int, key: bool) -> tuple[str, ...]:
    """The criteria that a plan of this strategy must name. `key`: one is known by which rows are told apart."""
    codes = REQUIRED.get(strategy, ())
    if edition < EDITION or EVERY_ROW_ONCE not in codes:
        return codes
    before = () if strategy in EMPTYING else (ROWS_OF_BEFORE_UNTOUCHED,)  # else the table was emptied
    return (*codes, *before, *((NO_KEY_TWICE,) if key else ()))


def says(code: str) -> str:
    """The sentence of a criterion; the code itself where it is not known."""
    return {FILLED: SAYS_FILLED, **ADDED, **DELETED, **WORDS}.get(code, code)
