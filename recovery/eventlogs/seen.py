"""A run of a streaming query as its event log was followed, and how good that is. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from recovery.eventlogs.values import Application, Run


@dataclass(frozen=True)
class Seen:
    """A run, and its application as far as its log was read; times by our clock. `log`: the log's name; `moved_at`:
    when it was last seen to grow, None where that is not known; `skew`: how far its driver's clock is ahead of ours.
    `problem`: why its rest cannot be read; `missed`: files that were cleaned up before they were read; `is_gone`: so
    was its end; `is_done`: its end was read; `is_half`: its last line has no end."""

    run: Run
    app: Application
    log: str = ""
    moved_at: datetime | None = None
    skew: timedelta = timedelta()
    problem: str = ""
    missed: int = 0
    is_gone: bool = False
    is_done: bool = False
    is_half: bool = False
