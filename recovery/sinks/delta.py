"""The Delta sink: which batches it would skip under a query id, and what a start would double. Pure.

Facts: see recovery/checkpoints/deltasink.py. A Delta table absorbs a repeated batch only under the id that it has
been written with, and takes any number under a new one: a seed, whose id is new, loses nothing and doubles nothing
as long as its position is that of what the table holds.
"""

from recovery.checkpoints import deltasink
from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart, StartRisk, by_query_id, count_repeated, in_words

KIND = "delta"
TABLE = COMPARED = True


def explain_at_least_once(report: SinkReport) -> str:
    return ""


def judge_risk(start: PlannedStart, report: SinkReport) -> StartRisk:
    """Under the old id, batches up to the head vanish; under a new one, what is read again is doubled."""
    held = _has_planned_batch(start, report)
    if held and report.head is None and (start.query_id_kept or start.same_range):
        rows = count_repeated(start, held=True)
        return StartRisk(
            rows,
            f"The table has batch {start.planned} and has forgotten so, by its setting {deltasink.RETENTION}: run "
            f"again, it is not skipped, and {in_words(rows)} would be there twice.",
            do=f"Seed after batch {start.planned} (continue): its end is in the checkpoint's offsets.",
            bars=True,
        )
    return by_query_id(report.head, start, held=held)


def _has_planned_batch(start: PlannedStart, report: SinkReport) -> bool | None:
    """Whether the table has the planned batch, also where it has forgotten so; None: not known."""
    if start.planned is None:
        return False
    if report.head is not None:
        return report.head == start.planned
    if report.forgotten is not None:
        return report.forgotten >= start.planned
    # Forgotten and taken out of the log; or under an id that is not known to be this query's: it may have lost its own.
    return None if report.forgets or start.planned in report.heads.values() else False
