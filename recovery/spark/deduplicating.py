"""Deletes rows that a table has more often than the code yields them, and measures that (child process only).

No hash decides which rows repeat: keys are compared by value, and NULL is one. Rows are deleted only where all rows of
their key are equal in every column, so it does not matter which go. Delta has no way to delete one of two equal rows,
nor one by its place: the rows of such a key all go, and as many as are due are written again, in the same commit. That
is done on the version that was looked at or not at all: Delta refuses the commit where another writer came between.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from recovery.spark import counting, filling
from recovery.spark.api import BoundedBy, Limit, Measure
from recovery.spark.backups import BackupRefusal, DeletedRows, ToppedRows
from recovery.spark.catalog import sql_name
from recovery.spark.code_flow import CodeFlow
from recovery.spark.comparable import resolved
from recovery.spark.lookups import check_size, limited
from recovery.spark.rehearsing import Answer, Request
from recovery.spark.repeated import by_key, count_differing, only_repeated, repeated_keys
from recovery.spark.session import first_line, quoted
from recovery.spark.topping import Input, compare_topped, correct_table

REPEATS: Final = "__repeats"
"""The view of the rows that one statement replaces."""
NOT_COMPARED: Final = ("map<", "variant")
"""Types that one row does not compare with another (`<=>`); the rows of a key were compared in them before."""
CONDITION: Final = re.compile(r"\[(DELTA_[A-Z0-9_.]+)\]")
REFUSALS: Final = {
    "DELTA_CANNOT_MODIFY_APPEND_ONLY": BackupRefusal.APPEND_ONLY,
    "DELTA_CONCURRENT": BackupRefusal.MOVED,
}
"""How the conditions begin by which Delta makes no commit, and what they mean."""


def delete_repeats(spark: Any, request: Request, folder: Path) -> Answer:
    """The fields of `backups.FillAnswer`."""
    return correct_table(spark, request, folder, partial(_delete_equal_rows, spark, request))


def _delete_equal_rows(spark: Any, request: Request, yields: Any, table: Any) -> Answer:
    from pyspark.sql import functions as F
    from pyspark.storagelevel import StorageLevel

    key = request["key"]
    columns = [
        resolved(key, yields.columns, "What the code yields"),
        resolved(key, table.columns, "The table"),
    ]
    repeated = repeated_keys(counting.tallied([yields, table], columns))
    repeated = repeated.persist(StorageLevel.MEMORY_AND_DISK)  # the input is read and the code is run once
    try:
        count = int(repeated.agg(F.sum(F.col("n1") - F.col("n0"))).collect()[0][0] or 0)
        if count != int(request["rows"]):
            return {"rows": count, "refused": BackupRefusal.OTHER_ROWS}
        if count_differing(repeated, yields, table, key) != 0:
            return {"refused": BackupRefusal.DIFFERS}
        if not count:
            return {"rows": 0}
        return {"rows": count} | _replace_once(
            spark, request, table, _select_replaced(yields, table, key, repeated)
        )
    finally:
        repeated.unpersist()


def _select_replaced(yields: Any, table: Any, key: Sequence[str], repeated: Any) -> Any:
    """Of each key that the table has too often, a row with `goes`, and as many as stay without (c0, c1, …)."""
    from pyspark.sql import functions as F

    columns = [f"c{n}" for n in range(len(table.columns))]
    pairs = zip(columns, table.columns, strict=True)
    values = [filling.read_column(name).alias(column) for column, name in pairs]
    rows = only_repeated(by_key(yields, table, key, values), repeated, key)
    names = ", ".join(f"r{n}" for n in range(len(key)))
    numbered = rows.selectExpr("*", f"row_number() OVER (PARTITION BY {names} ORDER BY n0) AS number")
    goes = numbered.where("number = 1").select(*columns, F.lit(True).alias("goes"))
    return goes.unionAll(numbered.where("number <= n0").select(*columns, F.lit(False).alias("goes")))


def _replace_once(spark: Any, request: Request, table: Any, rows: Any) -> Answer:
    """One commit under the id of the request; {} where it was made, or was made before."""
    from pyspark.errors import PySparkException

    name = sql_name(request["table"])
    if filling.latest_version(spark, request["table"]) != request["before"]:
        return {"refused": BackupRefusal.MOVED}  # a row that is gone since would be written again
    spark.conf.set("spark.databricks.delta.write.txnAppId", request["app_id"])
    spark.conf.set("spark.databricks.delta.write.txnVersion", "1")
    spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", request["app_id"])
    rows.createOrReplaceTempView(REPEATS)
    columns = {f"gone.c{n}": quoted(field.name) for n, field in enumerate(table.schema.fields)}
    same = [
        f"held.{quoted(field.name)} <=> gone.c{n}"
        for n, field in enumerate(table.schema.fields)
        if not any(kind in field.dataType.simpleString() for kind in NOT_COMPARED)
    ]
    parts = (
        "MERGE INTO", name, "AS held USING", REPEATS, "AS gone ON", " AND ".join(["gone.goes", *same]),
        "WHEN MATCHED THEN DELETE",
        "WHEN NOT MATCHED AND NOT gone.goes THEN",
        "INSERT (", ", ".join(columns.values()), ") VALUES (", ", ".join(columns), ")",
    )  # fmt: skip
    try:
        spark.sql(" ".join(parts)).collect()
    except PySparkException as error:
        named = CONDITION.search(str(error))  # a client without Delta's classes knows it by the text alone
        condition = error.getCondition() or (named[1] if named else "")
        refused = next((why for begins, why in REFUSALS.items() if condition.startswith(begins)), None)
        if refused is None:
            raise
        return {"refused": refused, "problem": first_line(error)}
    finally:
        spark.catalog.dropTempView(REPEATS)
    return {}


def measure_deleted(
    spark: Any, flow: CodeFlow, request: Request, now: Any, key: Sequence[str], limit: Limit
) -> Measure:
    """What was deleted, of the versions before and after: both whole. Raises `OverBudget`, `NoSuchColumn`,
    `NotComparable`, `BadCode`, `CannotReplay`."""
    given = Input.of_study(request["study"])
    before = filling.at_version(spark, request["table"], request["old_version"])
    check_size(before, limit, BoundedBy.VERSIONS)
    with limited(spark, limit, BoundedBy.VERSIONS):
        topped = ToppedRows(**compare_topped(flow.batch(given.files, given.files, given.slices), now, key))
        deleted = _compare_versions(before, now)
        repeats = _count_repeats(before, now, key)
    return replace(
        repeats,
        topped=topped,
        deleted=deleted,
        old_rows=deleted.before,
        listed_rows=deleted.after,
        new_rows=deleted.added,
        expected_rows=0,
        missing=topped.missing,
        extra=topped.extra,
    )


def _compare_versions(before: Any, now: Any) -> DeletedRows:
    """Both in every column."""
    from pyspark.sql import functions as F

    spelled = resolved(before.columns, now.columns, "The table")
    b, n, none = F.col("n0"), F.col("n1"), F.lit(0).cast("bigint")
    sums = counting.tallied([before, now], [before.columns, spelled]).agg(
        F.sum(b).alias("before"),
        F.sum(n).alias("after"),
        F.sum(F.greatest(b - n, none)).alias("deleted"),
        F.sum(F.greatest(n - b, none)).alias("added"),
        F.count_if((b > 0) & (n == 0)).alias("vanished"),
    )
    return DeletedRows(**counting.whole_numbers(sums.collect()[0]))


def _count_repeats(before: Any, now: Any, key: Sequence[str]) -> Measure:
    """Different keys of the table, and rows beyond one per key in it, before and now."""
    from pyspark.sql import functions as F

    sides = [resolved(key, frame.columns, "The table") for frame in (before, now)]
    b, n, none = F.col("n0"), F.col("n1"), F.lit(0).cast("bigint")
    sums = counting.tallied([before, now], sides).agg(
        F.count_if(n > 0).alias("table_keys"),
        F.sum(F.greatest(b - 1, none)).alias("duplicates_before"),
        F.sum(F.greatest(n - 1, none)).alias("duplicates_in_table"),
    )
    row = counting.whole_numbers(sums.collect()[0])
    return Measure(
        table_keys=row["table_keys"],
        duplicates_before=row["duplicates_before"],
        duplicates_in_table=row["duplicates_in_table"],
    )
