"""All ways out of one failure next to each other: what is recommended and why, what would change it, and waiting."""

from enum import StrEnum

from pydantic import Field

from recovery.contracts.effort import Effort
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import ChangeIntent, Strategy
from recovery.contracts.value import Flag, Number, Value


class AdviceCondition(StrEnum):
    """What could be otherwise, so that another way out is right."""

    MEANT = "meant"
    """A person says that the change was meant."""
    MISTAKE = "mistake"
    """A person says that it was a mistake."""
    NOT_SURE = "not-sure"
    """A person does not know."""
    READ_INPUT_GONE = "read-input-gone"
    """Input that was read can no longer be read."""
    UNREAD_INPUT_GONE = "unread-input-gone"
    """Input that waits can no longer be read."""
    OLD_ROWS_FOLLOW = "old-rows-follow"
    """Rows that the table has must be as the new code makes them."""


class WaitKind(StrEnum):
    """An answer that is no strategy."""

    NOTHING_YET = "do-nothing-yet"
    """The flow stays as it is."""
    CALL_OWNER = "call-the-owner"
    """Somebody who knows the code is asked."""


class Readability(StrEnum):
    """How long what waits can be read, as `pipelines.retention.RetentionState`, the worst first."""

    GONE = "gone"
    """Some of it can no longer be read."""
    UNKNOWN = "unknown"
    KEPT = "kept"
    """There is a deadline."""
    SAFE = "safe"
    """Nothing is known to take it."""


class WouldChange(Value):
    """One thing that would change the recommendation, and to what."""

    condition: AdviceCondition
    """Which one."""
    says: str = Field(validation_alias="if", serialization_alias="if")
    """The same for people. Sent as `if`."""
    then: str | None
    """The strategy, or the `WaitKind`, that is right then; None: no way out is."""
    because: str
    """Why, for people."""


class WayBlocker(Value):
    """Why a way out cannot be taken."""

    code: str | None
    """Of `BlockerCode`."""
    says: str
    """The reason for people."""


class WayBack(Value):
    """Whether a way out can be undone."""

    possible: Flag
    """Whether it can."""
    until_batch: Number | None
    """Until this batch is committed; None: see `says`."""
    says: str
    """The same for people."""


class WayOut(Value):
    """One strategy for one flow."""

    strategy: Strategy
    """Which one."""
    title: str
    """Its name for people."""
    summary: str
    """What it does, in a few words."""
    blocked: WayBlocker | None
    """Why it cannot run; None: it can."""
    forecast: Forecast
    """What it does to rows."""
    effort: Effort | None
    """What it asks for; None: not measured."""
    undo: WayBack
    """Whether it can be undone, and until when."""


class WaitAdvice(Value):
    """One answer that changes nothing, and how long it is safe."""

    answer: WaitKind
    """Which one."""
    advised: Flag
    """Whether it is what to do now."""
    readable: Readability
    """How long what waits can be read."""
    says: str
    """The same for people."""
    until: str | None
    """When the first of what waits may go, ISO, UTC; None: no such time is known."""


class Ways(Value):
    """The answer of `plan --strategy all`. Nothing is chosen by it."""

    pipeline: str
    """Its name."""
    flow: str
    """The flow's full name."""
    recovery: str | None
    """The label of its open recovery; None: none is open, and none was opened."""
    counted_at: str | None
    """When its rows were counted, ISO, UTC."""
    meant: ChangeIntent | None
    """Whether the change was meant, as a person has said; None: no person has."""
    asks_meant: Flag
    """Whether the recommendation rests on that."""
    recommended: Strategy | None
    """None: no way out is free of a cost to accept, or an answer is missing."""
    runner_up: Strategy | None
    """The next one."""
    rule: Number | None
    """The row of the decision table that has decided."""
    because: str
    """Why it is recommended, or why none is."""
    would_change: tuple[WouldChange, ...]
    """What would change that."""
    options: tuple[WayOut, ...]
    """Every strategy, in the order in which people weigh them."""
    answers: tuple[WaitAdvice, ...]
    """To do nothing yet, and to ask."""
