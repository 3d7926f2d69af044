"""A sink whose memory is not known here. Pure."""

from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart, StartRisk, count_repeated, in_words, is_nothing

KIND = "unknown"
TABLE, COMPARED = True, False


def empty_report(location: str) -> SinkReport:
    """A report that promises nothing."""
    return SinkReport(kind=KIND, location=location, head=None)


def explain_at_least_once(report: SinkReport) -> str:
    return "What this sink remembers of batches is not known here."


def judge_risk(start: PlannedStart, report: SinkReport) -> StartRisk:
    """Only what is never sent again is certain."""
    rows = count_repeated(start)
    if is_nothing(rows):
        return StartRisk(rows, "Nothing is written a second time.")
    return StartRisk(
        rows,
        f"Unless this sink drops repeats, {in_words(rows)} would be there twice.",
        do="Find out whether it drops repeats, or choose a position that reads nothing again.",
    )
