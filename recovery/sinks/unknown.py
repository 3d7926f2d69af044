"""A sink whose memory is not known here. Pure."""

from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import (
    PlannedStart,
    SinkBatchMemory,
    StartRisk,
    count_repeated,
    in_words,
    is_nothing,
)
from recovery.sources.base import Precision

KIND = "unknown"
TABLE, COMPARED = True, False


def empty_report(location: str, *, kind: str = "unknown") -> SinkReport:
    """A report that promises nothing: no head, and no word on whether repeats are absorbed."""
    return SinkReport(kind=kind, location=location, head=None, absorbs_repeats=None)


def facts_of(report: SinkReport) -> object:
    """Nothing that anybody could use."""
    return report.facts


def describe_memory(facts: object) -> SinkBatchMemory:
    """Not known. `facts`: whatever was found, which is not looked at."""
    return SinkBatchMemory("What this sink remembers of batches is not known here.", None, Precision.UNKNOWN)


def judge_risk(start: PlannedStart, facts: object) -> StartRisk:
    """Only what is never sent again is certain."""
    rows = count_repeated(start)
    if is_nothing(rows):
        return StartRisk(rows, "Nothing is written a second time.")
    return StartRisk(
        rows,
        f"Unless this sink drops repeats, {in_words(rows)} would be there twice.",
        do="Find out whether it drops repeats, or choose a position that reads nothing again.",
    )
