"""What a plan already said of its proof. Pure."""

from recovery.contracts.measured import EVERY_ROW_ONCE, Measured
from recovery.contracts.plan import PlanBody
from recovery.sinks.base import SinkReport
from recovery.strategies.provable import ROWS_NOT_PROVABLE
from recovery.strategies.sinks import is_compared


def is_beyond_proof(contents: PlanBody, measured: Measured) -> bool:
    """Whether nothing is known to be wrong, and the new rows, as the plan said, can never be compared with the input:
    the proof would not hold however often it is measured."""
    judged = measured.criterion(EVERY_ROW_ONCE)
    if measured.failed or judged is None or judged.ok is not None:
        return False
    sink = SinkReport(contents.sink.kind, contents.sink.place, None, declared=contents.sink.declared)
    return not is_compared(sink) or any(finding.code == ROWS_NOT_PROVABLE for finding in contents.findings)
