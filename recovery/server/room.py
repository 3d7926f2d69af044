"""How much one update may write into the event log: its pipeline's code can have anything said, as often as it likes.

Code writes into the pipe of its runner, and, from a function that Spark runs, into Spark's event log. Each report and
each line has bounds of its own; this is the bound of their number. What is left out is counted by its reason, and the
update says so in one event. Of batches the first ones are written, and at the end the last one of each flow.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

MOST_BATCHES: Final = 50_000
MOST_BYTES: Final = 512 * 1024 * 1024  # of the progress of all batches together
LONGEST_PROGRESS: Final = 4 * 1024 * 1024
MOST_LAST_BYTES: Final = 64 * 1024 * 1024  # of last batches that wait for the end
MOST_FLOWS: Final = 10_000
LONGEST_NAME: Final = 1_000  # of a flow


class LeftOut(StrEnum):
    """Why something that was said of an update is not in its event log."""

    BATCHES = "batches"  # more than are written
    TOO_LONG = "too_long"  # a batch whose progress is too long
    FLOWS = "flows"  # of a flow beyond the most that an update may have, or with a name that is too long
    WAITING = "waiting"  # more than could be written while it was said


@dataclass
class EventLogRoom:
    """What an update has written, and what was left out. For the update's own thread, but for `count_waiting`."""

    batches: int = 0
    bytes: int = 0
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    #: counted by the thread that reads Spark's event log, and by no other
    waiting: int = 0
    last: dict[str, str] = field(default_factory=dict)
    last_bytes: int = 0

    def take_flow(self, name: str, known: int) -> bool:
        """Whether one more flow may be followed; `known` are."""
        return self._note_decision(LeftOut.FLOWS, known < MOST_FLOWS and len(name) <= LONGEST_NAME)

    def take_batch(self, flow: str, progress: str) -> bool:
        """Whether the progress of a batch is written now; what is not may be among `last`."""
        if not self._note_decision(LeftOut.TOO_LONG, len(progress) <= LONGEST_PROGRESS):
            return False
        if self.batches < MOST_BATCHES and self.bytes + len(progress) <= MOST_BYTES:
            self.batches += 1
            self.bytes += len(progress)
            return True
        self.left_out[LeftOut.BATCHES] += 1
        before = len(self.last.get(flow, ""))
        if self.last_bytes - before + len(progress) <= MOST_LAST_BYTES:
            self.last_bytes += len(progress) - before
            self.last[flow] = progress
        else:  # an older one would be taken for the last
            self.last_bytes -= before
            self.last.pop(flow, None)
        return False

    def take_last(self) -> dict[str, str]:
        """The last progress of each flow that has had one left out; they are written now."""
        last, self.last, self.last_bytes = self.last, {}, 0
        self.left_out[LeftOut.BATCHES] -= len(last)
        return last

    def count_waiting(self) -> None:
        """Something was said and is dropped, since too much waits already."""
        self.waiting += 1

    def counts(self) -> dict[str, int]:
        """How many were left out, by reason."""
        counts = {**self.left_out, LeftOut.WAITING: self.waiting}
        return {str(reason): counts[reason] for reason in LeftOut if counts.get(reason, 0) > 0}

    def _note_decision(self, reason: LeftOut, taken: bool) -> bool:
        self.left_out[reason] += not taken
        return taken
