"""What one flow went through in one update, from two witnesses: Spark's sentences and Spark's event log.

The sentences are not the last truth: `has COMPLETED` is also said of a flow that then fails. The event log
knows how the query itself ended. So the end of a streaming flow is held back until its query has ended
there, and a COMPLETED that the log contradicts is dropped.
"""

from dataclasses import dataclass

from recovery.server.eventlog import QueryEvent

FINAL = frozenset({"COMPLETED", "FAILED", "SKIPPED", "STOPPED", "EXCLUDED"})


@dataclass(frozen=True)
class StatusChange:
    """A status to report. `exception` is Java's print of why, where known."""

    status: str
    at_ms: int
    exception: str | None = None
    message: str = ""


@dataclass
class Track:
    """One flow. Each method returns the changes that can be reported now."""

    name: str
    streaming: bool
    status: str = ""
    rows: int | None = None
    running: str = ""
    ended: QueryEvent | None = None
    held: StatusChange | None = None

    def note_sentence(self, status: str, at_ms: int, message: str = "") -> list[StatusChange]:
        """Spark said a sentence about this flow."""
        change = StatusChange(status, at_ms, message=message)
        if status not in ("COMPLETED", "FAILED"):
            before = self.release_end()
            self.ended = None if status in ("QUEUED", "STARTING") else self.ended
            return before + self.report_change(change)
        if self.streaming and self.ended is None:
            self.held = change
            return []
        return self.report_end(change)

    def hold_end(self, status: str, at_ms: int) -> None:
        """Keep an end back until the update is over and says why."""
        self.held = StatusChange(status, at_ms)

    def release_end(self) -> list[StatusChange]:
        """Tell what is held back: the log had nothing to say about it."""
        held, self.held = self.held, None
        return self.report_change(held) if held else []

    def note_query(self, event: QueryEvent) -> list[StatusChange]:
        """The flow's query started, progressed or ended."""
        if event.kind == "started":
            self.running, self.ended = event.run_id, None
            return []
        if event.kind == "progress":
            self.add_rows(event)
            return []
        if event.run_id != self.running:
            return []
        self.running, self.ended = "", event
        held, self.held = self.held, None
        return self.report_end(held) if held else []

    def read_failure(self) -> str | None:
        """Java's print of why its last query failed, "" where nothing says why; None where it did not fail."""
        exception = self.ended.exception if self.ended else None
        ends = {self.status, self.held.status if self.held else ""}
        return exception or ("" if "FAILED" in ends else None)

    def add_rows(self, event: QueryEvent) -> None:
        """Add the rows that a batch wrote, where the sink counts them (the file sink says -1)."""
        rows = event.progress.get("sink", {}).get("numOutputRows", -1)
        if isinstance(rows, int) and rows >= 0:
            self.rows = (self.rows or 0) + rows

    def report_end(self, change: StatusChange) -> list[StatusChange]:
        """Tell the end, in agreement with how the query ended."""
        exception = self.ended.exception if self.ended else None
        if change.status == "COMPLETED" and exception:
            return []
        if change.status == "FAILED" and self.status == "FAILED" and not exception:
            return []
        return self.report_change(StatusChange(change.status, change.at_ms, exception, change.message))

    def report_rest(self, failures: dict[str, str], at_ms: int) -> list[StatusChange]:
        """The update is over: tell what is held back, and a failure that no sentence reported."""
        exception = (self.ended.exception if self.ended else None) or failures.get(self.name)
        if exception and self.status != "FAILED":
            moment = self.held.at_ms if self.held else at_ms
            return self.report_change(StatusChange("FAILED", moment, exception))
        return self.release_end()

    def report_change(self, change: StatusChange) -> list[StatusChange]:
        """Remember what was reported; the same status twice in a row is reported once."""
        if change.status == self.status and not change.exception:
            return []
        self.status = change.status
        return [change]
