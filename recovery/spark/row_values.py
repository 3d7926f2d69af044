"""Whether written rows have the values that the code yields, where they are identified by a key alone (child only).

Which of several rows with one key a dropDuplicates lets through depends on the order in which they came, so such rows
are compared by their key. Each of them is still a row of the input as the code makes it, and comes no more often than
the code makes it: one with other values, or in the place of another row of its key, was written by other code, or was
changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from recovery.spark import comparable, counting
from recovery.spark.api import BoundedBy, Limit, RowValues
from recovery.spark.defined import varying_in
from recovery.spark.definitions import BadCode
from recovery.spark.lookups import OverBudget, check_size, limited
from recovery.spark.replay import CannotReplay
from recovery.spark.session import lost_contact, quoted
from recovery.spark.unsure import UnsureRows, unsure

MakeRows = Callable[[], Any]
"""The code over the new input: every row that it makes, in a DataFrame of its own at each call."""
NOT_EXACT: Final = frozenset(("csv", "json", "text", "xml"))
"""Formats that write some values otherwise than they are: times in milliseconds, texts without their spaces."""


@dataclass(frozen=True)
class WrittenRows:
    """What a rerun wrote. `rows`; where `before` is given, the whole table now, of which `before` was there. `format`:
    of its files."""

    rows: Any
    before: Any | None = None
    format: str = ""

    @property
    def list_sides(self) -> list[Any]:
        return [self.rows, *([] if self.before is None else [self.before])]


def measure_values(
    spark: Any,
    make_rows: MakeRows,
    written: WrittenRows,
    key: Sequence[str],
    limit: Limit,
    *,
    rests_on_more: bool,
) -> RowValues:
    """`rests_on_more`: the code uses more than its input.

    That values cannot be compared takes nothing from what else was measured: then they are not known.
    """
    from pyspark.errors import PySparkException

    try:
        values = _measure_values(spark, make_rows, written, key, limit)
    except (BadCode, CannotReplay, comparable.NoSuchColumn, comparable.NotComparable):
        return RowValues()
    except OverBudget as over:
        return RowValues(bounded=over.bounded)
    except PySparkException as error:
        if lost_contact(error):
            raise
        return RowValues()
    inexact = rests_on_more or values.rests_on_more or written.format in NOT_EXACT
    return replace(values, rests_on_more=bool(values.rows) and inexact)


def _measure_values(
    spark: Any, make_rows: MakeRows, written: WrittenRows, key: Sequence[str], limit: Limit
) -> RowValues:
    from pyspark.sql import functions as F

    made = make_rows()
    yields = made.columns
    lacking = counting.table_only(written.rows.columns, made)
    if absent := [c for c in lacking if made.where(F.col(quoted(c)).isNotNull()).take(1)]:
        return RowValues(absent=tuple(absent))
    doubt = unsure(made._explain_string(extended=True), yields, foreign=varying_in(made))
    columns = [c for c in yields if c in key or c not in {*doubt.anew, *doubt.ambiguous, *lacking}]
    parts = [made, *written.list_sides]
    other_types: list[str] = []
    if not _are_comparable(parts, columns):
        other_types = [c for c in columns if c not in key and not _are_comparable(parts, [c])]
        columns = [c for c in columns if c not in other_types]
    check_size(written.rows, limit, BoundedBy.VALUES)
    # not kept in memory: Spark would answer the second run of the same plan from there
    with limited(spark, limit, BoundedBy.VALUES):
        values = _count_other_rows(parts, columns, key)
        if values.differing:
            varying = _list_varying(make_rows(), made, columns, key)
            columns = [c for c in columns if c not in varying]
            values = _count_other_rows(parts, columns, key)
        constant = bool(values.differing) and all(_has_one_value(made, c) for c in values.differing)
        varies = bool(values.rows) and not values.differing and _makes_other_rows(make_rows(), made, columns)
    left_out = [c for c in yields if c not in columns and c not in other_types]
    return replace(
        values,
        left_out=tuple(left_out),
        other_types=tuple(other_types),
        rests_on_more=constant or varies or doubt.rows is not UnsureRows.NONE,
    )


def _has_one_value(rows: Any, column: str) -> bool:
    """A value that is the same in every row may be one of the run, as its date is."""
    return len(rows.groupBy(quoted(column)).count().take(2)) < 2


def _are_comparable(parts: Sequence[Any], columns: Sequence[str]) -> bool:
    from pyspark.errors import AnalysisException

    try:
        rows, *_ = comparable.alike(parts, [_resolve_columns(part, columns) for part in parts])
        rows.groupBy(*rows.columns).count()._explain_string()
    except comparable.NotComparable:
        return False
    except AnalysisException:  # Spark does not group by VARIANT
        return False
    return True


def _resolve_columns(frame: Any, columns: Sequence[str]) -> list[str]:
    """The names of these columns in a frame."""
    return comparable.resolved(columns, frame.columns, "What was written")


def _count_other_rows(parts: Sequence[Any], columns: Sequence[str], key: Sequence[str]) -> RowValues:
    """`rows` and `differing` alone. `parts`: as the code makes them, as written, and those of before where the table is
    one."""
    from pyspark.sql import functions as F

    if len(columns) <= len(key):
        return RowValues(rows=0)
    rows = comparable.alike(parts, [_resolve_columns(part, columns) for part in parts])
    counts = counting.tallied(rows, [row.columns for row in rows])
    written = F.col("n1") - F.col("n2") if len(parts) > 2 else F.col("n1")
    excess = written - F.col("n0")
    other = counts.where(excess > 0)
    number = int(other.agg(F.sum(excess)).collect()[0][0] or 0)
    if not number:
        return RowValues(rows=0)
    differing = _list_differing(other.select(*rows[0].columns), rows[0], columns, key)
    return RowValues(rows=number, differing=tuple(differing))


def _list_varying(again: Any, made: Any, columns: Sequence[str], key: Sequence[str]) -> list[str]:
    """Columns that a second run of the code fills otherwise."""
    rows, others = comparable.alike([again, made], [columns, columns])
    different = rows.groupBy(*rows.columns).count().drop("count")
    return _list_differing(different, others, columns, key)


def _makes_other_rows(again: Any, made: Any, columns: Sequence[str]) -> bool:
    """Does a second run of the code make other rows, or the same in other numbers?"""
    from pyspark.sql import functions as F

    return bool(counting.tallied([again, made], [columns, columns]).where(F.col("n0") != F.col("n1")).take(1))


def _with_texts(rows: Any) -> Any:
    """Maps, and what holds some, as texts: Spark compares no two of them."""
    from pyspark.sql import functions as F

    def read_column(field: Any) -> Any:
        column = F.col(field.name)
        is_compared = "map<" not in field.dataType.simpleString()
        return column if is_compared else F.to_json(F.struct(column)).alias(field.name)

    return rows.select(*map(read_column, rows.schema.fields))


def _list_differing(rows: Any, others: Any, columns: Sequence[str], key: Sequence[str]) -> list[str]:
    """Columns beside the key in which some of `rows` has a value that none of `others` with its key has: one job.
    Both have `columns` as k0, k1, …"""
    from pyspark.sql import functions as F

    names = dict(zip(columns, counting.key_names(columns), strict=True))
    rows, others = (_with_texts(frame) for frame in (rows, others))
    beside = others.select(*[F.col(name).alias(f"o_{name}") for name in names.values()])
    same_key = comparable.equal_on(rows, beside, [(names[k], f"o_{names[k]}") for k in columns if k in key])
    equals = {
        column: F.max(F.col(name).eqNullSafe(F.col(f"o_{name}")).cast("int")).alias(f"equals_{name}")
        for column, name in names.items()
        if column not in key
    }
    by_row = rows.join(beside, same_key, "inner").groupBy(*names.values()).agg(*equals.values())
    every = by_row.agg(
        *[F.min(f"equals_{names[column]}").alias(names[column]) for column in equals]
    ).collect()[0]
    return [column for column in equals if every[names[column]] == 0]
