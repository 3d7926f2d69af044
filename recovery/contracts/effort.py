"""What a way out asks for, next to what it does to rows (`Forecast`): people, input to read, time, a way back."""

from enum import StrEnum

from recovery.contracts.amounts import Amount
from recovery.contracts.value import Duration, Flag, Number, Value


class TableReset(StrEnum):
    """What becomes of the rows that the table has."""

    NO = "no"
    """They stay."""
    EMPTIED = "emptied"
    """They go, and the table is written from scratch."""
    FILLED = "emptied-then-filled"
    """The same, and rows of a backup that the table lacks then are written back."""
    RESTORED = "restored"
    """The table is put back to what it was earlier."""


class StateFate(StrEnum):
    """What becomes of the state that the checkpoint holds."""

    NONE = "none"
    """It holds none, and the code needs none."""
    KEPT = "kept"
    DROPPED = "dropped"
    REBUILT = "rebuilt"
    """The code builds its state from input that is read again."""
    EMPTY = "empty"
    """The code begins with empty state of its own shape."""


class TimedBy(StrEnum):
    """What an estimate of time rests on."""

    UPDATES = "updates"
    """How long updates took before, whatever they read."""
    RATE = "rate"
    """That, and how many rows a second the flow reads."""
    UNKNOWN = "unknown"
    """No update was seen: there is no estimate."""


class Backup(Value):
    """Whether a copy of the table is kept first."""

    needed: Flag
    """Whether the plan has a step for it."""
    bytes: Amount | None = None
    """How large it is; None: not known, or none is needed."""


class StateEffect(Value):
    """What becomes of the state."""

    fate: StateFate
    """In one word."""
    keys: Amount | None = None
    """How many keys the state has that is kept or dropped; None: not known, or it is another state."""


class Undo(Value):
    """The way back."""

    possible: Flag
    """Whether there is one."""
    until_batch: Number | None = None
    """It closes when this batch is committed; None: there is none, or it closes otherwise (`Option.rollback`)."""


class Effort(Value):
    """What one strategy asks for, for one flow."""

    people: Amount
    """How many people it takes to run it: who plans it, and the votes that the environment asks for."""
    steps: Number
    """Steps of its plan."""
    rows: Amount | None
    """Rows of the input that its steps read, but for those of the proof; None: not known."""
    bytes: Amount | None
    """The same in bytes."""
    seconds: Duration | None
    """How long its steps take, an estimate; None: not known."""
    timed_by: TimedBy
    """What the estimate rests on."""
    backup: Backup
    """Whether the table is copied first."""
    table: TableReset
    """What becomes of the table's rows."""
    state: StateEffect
    """What becomes of the state."""
    undo: Undo
    """Whether it can be undone, and until when."""
