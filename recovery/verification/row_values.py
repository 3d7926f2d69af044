"""Which columns of new rows were compared, and what the others than the key say. Pure."""

from recovery.contracts import codec
from recovery.contracts.criterion_values import ExpectedRows, Measured, MeasuredRowsOnce
from recovery.spark.api import Measure, RowValues
from recovery.strategies.common import plural
from recovery.verification.finding import CriterionFinding, key_of


def add_values(measured: MeasuredRowsOnce, measure: Measure) -> MeasuredRowsOnce:
    """With what the columns beyond the key say; unchanged where rows were compared in every column anyway."""
    values = measure.values
    if values is None:
        return measured
    return codec.change(
        measured,
        values_compared=values.rows is not None,
        other_values=values.rows,
        differing=values.differing,
        left_out=(*values.left_out, *values.other_types),
        absent=values.absent,
    )


def judge_values(measure: Measure, measured: Measured) -> CriterionFinding | None:
    """What is wrong with columns beyond the key; None where nothing is, or nothing is known."""
    values = measure.values
    if values is None:
        return None
    if values.absent:
        names = ", ".join(values.absent)
        return CriterionFinding(measured, None, f"The table has no column {names}, which the code yields.")
    if values.rows:
        return _judge_differing(values, measured)
    if values.other_types:
        names = ", ".join(values.other_types)
        says = f"{names}: the table has other types than the code yields, so values were not compared."
        return CriterionFinding(measured, None, says)
    return None


def _judge_differing(values: RowValues, measured: Measured) -> CriterionFinding:
    rows, is_alone = plural(values.rows or 0, "new row"), values.rows == 1
    if values.differing:
        which = f"{'has' if is_alone else 'have'} other values in {', '.join(values.differing)} than the code yields"
    else:
        which = f"{'is' if is_alone else 'are'} not as the code yields them, or there more often"
    says = f"{rows} {which}: other code or settings wrote them, or they were changed"
    if not values.rests_on_more:
        return CriterionFinding(measured, False, f"{says}.")
    more = (
        "or the code yields other values now: by what it reads, calls or asks for, or by the time of its run"
    )
    return CriterionFinding(measured, None, f"{says}, {more}.")


def compared_by(expected: ExpectedRows, measure: Measure) -> str:
    """By which columns new rows were compared, as part of a sentence."""
    if expected.whole_rows and measure.values is None:
        return f"compared in every column{' that the code yields' if measure.table_only else ''}"
    key, values = key_of(measure), measure.values
    by = f"identified by {key}" if measure.key_from == key else f"identified by {key} ({measure.key_from})"
    if values is None:
        return by
    return f"{by}, {values_compared(values)}"


def values_compared(values: RowValues) -> str:
    """Which columns beyond the key were compared, as part of a sentence."""
    if values.rows is None:
        return "other columns not compared"
    left_out = f" but {', '.join(values.left_out)}" if values.left_out else ""
    return f"compared in every column{left_out}"
