"""The names that are stored and sent: the same strings everywhere, as members that a type checker knows."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Strategy(StrEnum):
    """What a recovery can do, in the order in which people weigh it."""

    CONTINUE = "continue"
    """Seeded reset: progress is kept, state is dropped."""
    REVERT = "revert"
    """The old code is put back; the checkpoint stays."""
    REPAIR = "repair"
    """Damaged files of the checkpoint are mended; nothing is reset."""
    REBUILD = "rebuild"
    """What was processed is replayed for the state of the new code; progress is kept."""
    PRIME = "prime"
    """Progress is kept, and the state of the new code starts empty."""
    REWIND = "rewind"
    """Reading goes back, and the code builds its state again; the table's rows stay. People see it as *reread*."""
    REPLAY = "replay"
    """The table and reading go back to an earlier batch, and what came after it is read again."""
    TOP_UP = "top-up"
    """Rows that the table lacks are read from the input and written once; flow and checkpoint stay as they are."""
    DEDUPLICATE = "deduplicate"
    """Rows that the table has more often than the code yields are deleted; flow and checkpoint stay as they are."""
    FULL_REFRESH = "full-refresh"
    """The table is emptied, and everything that is left is read again."""
    BACKFILL = "backfill"
    """A full refresh of a table that is backed up first; rows that no input holds any more are filled back."""
    EMPTY = "empty"
    """An empty checkpoint beside a table that is kept."""


TITLES: Final[Mapping[str, str]] = {Strategy.REWIND: "reread"}
"""What people see of strategies whose stored name says something else: sealed plans keep their bytes (ADR 20)."""


def name_strategy(stored: str) -> str:
    """The name of a strategy for people, of the one that is stored; any other text as it is."""
    return TITLES.get(stored, str(stored))


def read_strategy(named: str) -> str:
    """What is stored for a strategy that a person or a program names, by either of its names; other text as it is."""
    return next((str(stored) for stored, title in TITLES.items() if title == named), named)


class StepKind(StrEnum):
    """What a step of a plan does, in the order in which they can run."""

    STOP = "stop"
    """Prove that nothing runs and nothing has moved since the plan was sealed."""
    BACKUP = "backup"
    """Keep the source, and what the checkpoint goes back to."""
    TABLE_BACKUP = "table-backup"
    """Keep a copy of the table, counted and read back."""
    PATCH = "patch"
    """Write the changed source into the workspace."""
    RESTORE = "restore"
    """Put the table back to what it held after an earlier batch."""
    SEED = "seed"
    """Put a checkpoint into place; people see it as *Reset flow*."""
    RERUN = "rerun"
    """Update the flow."""
    FILL = "fill"
    """Write rows that the table lacks, once: of the backup, or of the input."""
    DEDUPLICATE = "deduplicate"
    """Delete rows that the table has more often than the code yields them, once."""
    REFRESH = "refresh"
    """Refresh what is downstream."""
    VERIFY = "verify"
    """Measure the criteria."""
    ROLLBACK = "rollback"
    """Undo what can be undone."""


EMPTYING = frozenset({Strategy.FULL_REFRESH, Strategy.BACKFILL})
"""Strategies that empty the table, and read all input from the beginning."""
BEGINNING_AGAIN = EMPTYING | {Strategy.EMPTY}
"""Strategies whose update begins with batch 0."""
CORRECTING = frozenset({Strategy.TOP_UP, Strategy.DEDUPLICATE})
"""Strategies that change rows of the table by themselves, and start no update of the flow."""
KEEPING = frozenset({Strategy.REVERT, Strategy.REPAIR}) | CORRECTING
"""Strategies that keep the state and the query of the checkpoint."""
ASKED_ONCE_MORE = BEGINNING_AGAIN | {Strategy.REPLAY, Strategy.DEDUPLICATE}
"""Strategies that take rows out of a table, or repeat them: a person is asked once more before they run."""


class ChangeIntent(StrEnum):
    """Whether the change that made code and checkpoint differ was meant, as a person says."""

    YES = "yes"
    """It was meant: the code stays."""
    NO = "no"
    """It was a mistake: the code is put back."""
    UNKNOWN = "unknown"
    """The person does not know."""


class DoubtCode(StrEnum):
    """What contradicts a flow whose last update ended well, or that runs; the gravest first."""

    INPUT_GONE = "input-gone"
    ROWS_LOST = "rows-lost"
    NOT_PROVEN = "not-proven"
    TABLE_DIFFERS = "table-differs"
    FED_AGAIN = "fed-again"
    READ_AGAIN = "read-again"
    AS_ACCEPTED = "as-accepted"
    PASSED_OVER = "passed-over"
    NOT_ASKED = "not-asked"

    @property
    def is_of_updates(self) -> bool:
        """Whether updates did it to the table, none of which failed: nothing but the doubt tells of it."""
        return self in (DoubtCode.ROWS_LOST, DoubtCode.READ_AGAIN)

    @property
    def needs_attention(self) -> bool:
        """Whether someone has to look. What a plan accepted, or a source's settings leave out, someone has decided;
        a workspace that does not answer is shown itself."""
        return self in (
            DoubtCode.INPUT_GONE,
            DoubtCode.ROWS_LOST,
            DoubtCode.NOT_PROVEN,
            DoubtCode.TABLE_DIFFERS,
            DoubtCode.FED_AGAIN,
            DoubtCode.READ_AGAIN,
        )
