"""What every strategy says where the code writes files beside which those of the table can no longer be read. Pure."""

from recovery.checkpoints.report import Finding, Severity
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.measured import TableMisfit
from recovery.contracts.names import EMPTYING
from recovery.contracts.option import Option
from recovery.strategies.base import Facts
from recovery.strategies.common import code_that_runs


def with_misfit(facts: Facts, option: Option) -> Option:
    """The option as it is where its code goes on with files like those of the table; else its loss is not known."""
    code = code_that_runs(facts, option.strategy)
    misfit = code.misfit if code else None
    if misfit is None or option.strategy in EMPTYING:
        return option
    says = " ".join(_describe_misfit(misfit))
    finding = Finding(
        "TABLE_MISFIT",
        Severity.WARNING,
        says,
        "Write into a new table, or write files like those of the table.",
    )
    lost, why = option.forecast.lost, f"{option.forecast.lost.why} {says}"
    if lost.rows == 0:  # so none was counted, and some may be lost
        return option.with_loss(RowAmount(rows=None, bound=Bound.UNKNOWN, why=says), finding)
    return option.with_loss(lost.bounded(Bound.AT_LEAST, why), finding)


def _describe_misfit(misfit: TableMisfit) -> list[str]:
    says = []
    if misfit.columns:
        says.append(
            f"The code writes {', '.join(misfit.columns)} in another type than the files of the table, or no longer: "
            "one schema may not read both, so earlier rows may read as null, or not at all."
        )
    if misfit.kinds:
        before, after = misfit.kinds
        says.append(
            f"The files of the table are {before}, and the code writes {after}: no reader may read both."
        )
    if misfit.retention:
        says.append(
            f"The sink has the option retention={misfit.retention}: when Spark compacts the table's log, files that "
            "are older leave it, and readers no longer see their rows."
        )
    if misfit.before != misfit.after:
        before, after = (
            f"by {', '.join(names)}" if names else "without partitions"
            for names in (misfit.before, misfit.after)
        )
        says.append(
            f"The files of the table lie {before}, and the code writes {after}: readers may then miss the earlier "
            "rows, or fail."
        )
    return says
