"""Which columns of new rows were compared, and what the others than the key say. Pure."""

from recovery.contracts import codec
from recovery.contracts.criterion_values import ExpectedRows, MeasuredRowsOnce
from recovery.spark.api import Measure
from recovery.strategies.common import plural
from recovery.verification.finding import CriterionFinding, key_of


def add_values(measured: MeasuredRowsOnce, measure: Measure) -> MeasuredRowsOnce:
    """With what the columns beyond the key say; unchanged where rows were compared in every column anyway."""
    values = measure.values
    if values is None:
        return measured
    differing = values.columns or values.absent
    return codec.change(measured, other_values=values.rows, differing=differing, left_out=values.left_out)


def differing_values(measure: Measure) -> CriterionFinding | None:
    """What is wrong with values beyond the key, without what was measured; None where nothing is, or none is known."""
    values = measure.values
    if values is None or not measure.new_rows:
        return None
    if values.absent:
        says = f"The table has no column {', '.join(values.absent)}, which the code yields."
        return CriterionFinding(None, False, says)
    if not values.rows:
        return None
    which = f" in {', '.join(values.columns)}" if values.columns else ""
    says = (
        f"{plural(values.rows, 'new row')} {'has' if values.rows == 1 else 'have'} other values{which} than the code "
        "yields: other code wrote them, or they were changed"
    )
    if not values.rests_on_more:
        return CriterionFinding(None, False, f"{says}.")
    more = "or a function, file or table that the code uses yields other values now"
    return CriterionFinding(None, None, f"{says}, {more}.")


def compared_by(expected: ExpectedRows, measure: Measure) -> str:
    """By which columns new rows were compared, as part of a sentence."""
    if expected.whole_rows:
        return f"compared in every column{' that the code yields' if measure.table_only else ''}"
    key, values = key_of(measure), measure.values
    by = f"identified by {key}" if measure.key_from == key else f"identified by {key} ({measure.key_from})"
    if values is None:
        return by
    if values.rows is None:
        return f"{by}, other columns not compared"
    left = f" but {', '.join(values.left_out)}" if values.left_out else ""
    return f"{by}, compared in every column{left}"
