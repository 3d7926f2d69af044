"""The criteria on rows where a flow sends records to a topic. Pure.

Records do not say who sent them: what equals none of the expected rows may be another writer's, so it leaves a
criterion unmeasured. What equals an expected row and is there too often is doubled, whoever sent it.
"""

from dataclasses import replace

from recovery.contracts.criterion_values import (
    ExpectedRows,
    MeasuredFurther,
    MeasuredOtherRecords,
    MeasuredRecordsOnce,
)
from recovery.spark.api import Measure
from recovery.strategies.common import plural
from recovery.verification.finding import CriterionFinding
from recovery.verification.row_values import judge_values, values_compared


def every_row_once(expected: ExpectedRows, measure: Measure) -> CriterionFinding:
    """Each expected row among the records since the rerun began as often as expected, and not before it.

    `expected.again`: rows that were sent before are sent again, and the plan said so.
    """
    measured = MeasuredRecordsOnce(
        expected=measure.expected_rows,
        found=measure.new_rows,
        missing=measure.missing,
        repeated=measure.repeated,
        sent_by_a_failed_attempt=measure.failed_rows,
        perhaps_sent_by_a_failed_attempt=measure.margin_rows,
        of_others=measure.strange,
        key=measure.key,
        other_values=None if measure.values is None else measure.values.rows,
        left_out=() if measure.values is None else measure.values.left_out,
    )
    if measure.repeated is None:
        return CriterionFinding(
            measured, None, "Whether records are there more often than expected was not measured."
        )
    key = " and ".join(measure.key) or "key and value"
    if measure.missing or measure.repeated:
        says = f"{plural(measure.missing or 0, 'row')} missing, {measure.repeated} too many."
        return CriterionFinding(measured, False, f"Identified by {key}: {says}")
    if measure.failed_rows and not expected.again:
        says = (
            f"{plural(measure.failed_rows, 'row')} of the batch that failed had been sent before: they are there "
            "twice."
        )
        return CriterionFinding(measured, False, f"Identified by {key}: {says}")
    if measure.margin_rows and not expected.again:
        says = (
            f"At most {plural(measure.margin_rows, 'row')} of the batch that failed had been sent before, which is so "
            "only where the clocks of the cluster disagree: equal records are minutes older than the batch."
        )
        return CriterionFinding(measured, None, f"Identified by {key}: {says}")
    if measure.strange:
        return CriterionFinding(measured, None, written_by_others(measure).why)
    if judged := judge_values(measure, measured):
        return replace(judged, ok=None)  # a topic does not show who wrote a record
    left = "" if measure.values is None else f", {values_compared(measure.values)}"
    return CriterionFinding(
        measured, True, f"{plural(measure.new_rows or 0, 'record')}, identified by {key}{left}."
    )


def written_by_others(measure: Measure) -> CriterionFinding:
    """Records that are none of the expected rows."""
    says = (
        f"{plural(measure.strange or 0, 'record')} that came meanwhile equal no expected row: another writer's, or "
        "wrong ones. A topic does not show who wrote a record, so this could not be measured."
    )
    return CriterionFinding(
        MeasuredOtherRecords(records=measure.new_rows, of_others=measure.strange), None, says
    )


def more_came(measured: MeasuredFurther, records: int) -> CriterionFinding:
    """Records that came while the further update ran, and no input for it."""
    says = (
        f"{plural(records, 'more record')} came to the topic while it ran: sent by it, or by another "
        "writer. Stop the others, then verify again."
    )
    return CriterionFinding(measured, None, says)
