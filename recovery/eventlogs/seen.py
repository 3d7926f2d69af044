"""A run of a streaming query as its event log was followed, and how good that is. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from recovery.eventlogs.values import Application, Run


@dataclass(frozen=True)
class SeenRun:
    """A run, and its application as far as its log was read. Times are by our clock."""

    run: Run
    app: Application
    #: the log's name
    log: str = ""
    #: when it was last seen to grow; None: not known
    moved_at: datetime | None = None
    #: how far its driver's clock is ahead of ours
    skew: timedelta = timedelta()
    #: why its rest cannot be read
    problem: str = ""
    #: files that were cleaned up before they were read
    missed: int = 0
    #: its end was cleaned up before it was read
    is_gone: bool = False
    #: its end was read
    is_done: bool = False
    #: its last line has no end
    is_half: bool = False
