"""Judgements that people read, each with a code that decides."""

from dataclasses import asdict
from enum import StrEnum
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass


class Severity(StrEnum):
    """blocker: Spark fails or rows are lost or doubled; warning: a person should know; info: a fact."""

    BLOCKER = "blocker"
    WARNING = "warning"
    INFO = "info"


class Outcome(StrEnum):
    """What the next run with the same code comes to, once it has read all input; the worst comes first.

    Spark fails before it writes, so that wins over all; a table that cannot be read shows no rows to count; rows
    that are gone weigh more than rows that can be told apart. UNKNOWN: it hangs on what was not looked at; OPEN: on
    what no file of the checkpoint tells, the code or the session's settings, and it goes on where those are right.
    """

    FAILS = "fails"
    UNREADABLE_TABLE = "unreadable table"
    LOSES = "loses rows"
    DOUBLES = "doubles rows"
    UNKNOWN = "unknown"
    OPEN = "not promised"
    GOES_ON = "goes on"


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Finding:
    """One judgement of a checkpoint, a table or a plan."""

    code: str
    """Which one; stable."""
    severity: Severity
    """How much it matters."""
    says: str
    """What is so, for people."""
    do: str
    """What to do about it."""
    file: str | None = None
    """The file of the checkpoint that it is about; None: none alone."""
    spark: str | None = None
    """What Spark does, or knows it by; None: nothing more to say."""
    outcome: Outcome = Outcome.GOES_ON
    """What the next run with the same code comes to by this alone."""

    def as_dict(self) -> dict[str, Any]:
        return {k: (v.value if isinstance(v, StrEnum) else v) for k, v in asdict(self).items()}
