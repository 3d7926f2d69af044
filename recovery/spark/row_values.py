"""Whether written rows have the values that the code yields, where they are identified by a key alone (child only).

Which of several rows with one key a dropDuplicates lets through depends on the order in which they came, so such rows
are compared by their key. Each of them is still a row of the input as the code makes it: one with other values was
written by other code, or was changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from recovery.spark import comparable, counting
from recovery.spark.api import BoundedBy, Limit, RowValues
from recovery.spark.defined import varying_in
from recovery.spark.definitions import BadCode
from recovery.spark.explained import besides
from recovery.spark.lookups import OverBudget, limited
from recovery.spark.replay import CannotReplay
from recovery.spark.session import lost_contact
from recovery.spark.unsure import UnsureRows, unsure

Run = Callable[[], Any]
"""The code over the new input: every row that it makes, in a DataFrame of its own at each call."""


def measure_values(
    spark: Any, text: str, run: Run, written: Any, old: Any | None, key: Sequence[str], limit: Limit
) -> RowValues:
    """`text`: of the flow's plan. `written`: the rows that the rerun wrote; where `old` is given, the table now, of
    which `old` was there before.

    That values cannot be compared takes nothing from what else was measured: then they are not known.
    """
    from pyspark.errors import PySparkException

    try:
        values = _measure_values(spark, run, written, old, key, limit)
        return replace(values, rests_on_more=values.rows is not None and bool(besides(text)))
    except (BadCode, CannotReplay, comparable.NoSuchColumn, comparable.NotComparable):
        return RowValues()
    except PySparkException as error:
        if lost_contact(error):
            raise
        return RowValues()


def _measure_values(
    spark: Any, run: Run, written: Any, old: Any | None, key: Sequence[str], limit: Limit
) -> RowValues:
    """Without `rests_on_more`."""
    every = run()
    yields = every.columns
    if absent := counting.table_only(written.columns, every):
        return RowValues(absent=tuple(absent))
    doubt = unsure(every._explain_string(extended=True), yields, foreign=varying_in(every))
    if doubt.rows is not UnsureRows.NONE:
        raise CannotReplay(f"Two runs of the code may yield other rows ({', '.join(doubt.names)}).")
    columns = [c for c in yields if c in key or c not in {*doubt.anew, *doubt.ambiguous}]
    parts = [every, written, *([] if old is None else [old])]
    columns = _without_other_types(parts, columns, key)
    try:
        with limited(spark, limit, BoundedBy.LOOKUP):
            values = _compare(parts, columns, key)
            if values.rows:
                varying = set(_list_varying(run(), every, columns, key)) if values.columns else set()
                columns = [c for c in columns if c not in varying]
                values = _compare(parts, columns, key)
    except OverBudget:
        return RowValues(left_out=tuple(c for c in yields if c not in key))
    return replace(values, left_out=tuple(c for c in yields if c not in columns))


def _without_other_types(parts: Sequence[Any], columns: Sequence[str], key: Sequence[str]) -> list[str]:
    """Those columns whose values can be compared, and all of the key."""
    from pyspark.errors import AnalysisException

    kept = []
    for column in columns:
        try:
            frame, *_ = comparable.alike(parts, [_spelled(part, [column]) for part in parts])
            frame.distinct()._explain_string()
        except (
            comparable.NotComparable,
            AnalysisException,
        ):  # the latter of VARIANT, which is not grouped by
            if column in key:
                raise
            continue
        kept.append(column)
    return kept


def _spelled(frame: Any, columns: Sequence[str]) -> list[str]:
    return comparable.resolved(columns, frame.columns, "What was written")


def _compare(parts: Sequence[Any], columns: Sequence[str], key: Sequence[str]) -> RowValues:
    """Without `left_out`. `parts`: as the code makes them, as written, and those of before where the table is one."""
    from pyspark.sql import functions as F

    if len(columns) <= len(key):
        return RowValues(rows=0)
    rows = comparable.alike(parts, [_spelled(part, columns) for part in parts])
    counts = counting.tallied(rows, [row.columns for row in rows])
    came = F.greatest(F.col("n1") - F.col("n2"), F.lit(0)) if len(parts) > 2 else F.col("n1")
    other = counts.where(F.col("n0") == 0).where(came > 0)
    number = int(other.agg(F.sum(came)).collect()[0][0] or 0)
    if not number:
        return RowValues(rows=0)
    differing = _list_differing(other.select(*rows[0].columns), rows[0], columns, key)
    return RowValues(rows=number, columns=tuple(differing))


def _list_varying(again: Any, every: Any, columns: Sequence[str], key: Sequence[str]) -> list[str]:
    """Columns that a second run of the code fills otherwise."""
    rows, yielded = comparable.alike([again, every], [columns, columns])
    return _list_differing(rows.distinct(), yielded, columns, key)


def _list_differing(rows: Any, yielded: Any, columns: Sequence[str], key: Sequence[str]) -> list[str]:
    """Columns beside the key in which some of `rows` has a value that none of `yielded` with its key has: one job.
    Both have `columns` as k0, k1, …"""
    from pyspark.sql import functions as F

    names = dict(zip(columns, counting.key_names(columns), strict=True))
    others = yielded.select(*[F.col(name).alias(f"y_{name}") for name in names.values()])
    same_key = comparable.equal_on(rows, others, [(names[k], f"y_{names[k]}") for k in columns if k in key])
    met = {
        column: F.max(F.col(name).eqNullSafe(F.col(f"y_{name}")).cast("int")).alias(f"met_{name}")
        for column, name in names.items()
        if column not in key
    }
    beside = rows.join(others, same_key, "inner").groupBy(*names.values()).agg(*met.values())
    least = beside.agg(*[F.min(f"met_{names[column]}").alias(names[column]) for column in met]).collect()[0]
    return [column for column in met if least[names[column]] == 0]
