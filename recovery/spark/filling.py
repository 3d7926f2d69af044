"""Keeps a table, fills rows back, and counts both for forecasts and proofs (child process only).

No hash decides which row is filled back: keys are compared by value. A digest only tells that a copy is the same as
what was copied.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from recovery.spark import counting
from recovery.spark.api import BoundedBy, Limit
from recovery.spark.backups import BackupRefusal, FilledRows, RestoreAnswer, TableCopy, TableGap
from recovery.spark.catalog import is_delta_at, sql_name
from recovery.spark.comparable import (
    NotComparable,
    collated,
    common_type,
    equal_on,
    named,
    one_type,
    resolved,
)
from recovery.spark.lookups import check_size, limited
from recovery.spark.paths import literal, plain
from recovery.spark.rehearsing import Answer, Request
from recovery.spark.session import first_line, lost_contact

EXACT: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How a row becomes the text of which its digest is made: by default null fields and microseconds are left out."""
DIGITS: Final = 15
"""Hex digits of a row's sha256 that are summed, twice: sums of 10^18 rows still fit a decimal."""
NO_FILE: Final = (
    "FILE_NOT_EXIST",
    "DELTA_MISSING_FILES",
    "CANNOT_RESTORE",
    "VersionNotFound",
    "FileNotFound",
)


def keep(spark: Any, request: Request, folder: Path) -> TableCopy:
    """Copy a table into its backup, and read the copy back."""
    table = at_version(spark, request["table"], request["version"])
    key = resolved(request["key"], table.columns, "The table")
    if by_collation := [key[n] for n in collated(table, key)]:
        return TableCopy(refused=BackupRefusal.COLLATION, about=tuple(by_collation))
    rows, digest = digested(table)
    kept = TableCopy(rows=rows, digest=digest, columns=tuple(table.columns))
    if table.select(*map(read_column, key)).distinct().count() != rows:
        return replace(kept, refused=BackupRefusal.KEY_REPEATS, about=tuple(key))
    table.write.mode("error").parquet(plain(request["backup"]))
    copied_rows, copied_digest = digested(_copy(spark, request["backup"]))
    differs = None if copied_digest == digest else BackupRefusal.DIFFERS
    return replace(kept, copied_rows=copied_rows, copied_digest=copied_digest, refused=differs)


def fill(spark: Any, request: Request, folder: Path) -> Answer:
    """The fields of `backups.FillAnswer`."""
    if not is_delta_at(spark, request["table"], request["location"]):
        return {"refused": BackupRefusal.ELSEWHERE}
    table, backup = at_version(spark, request["table"], request["before"]), _copy(spark, request["backup"])
    if wrong := unfit(table.schema, backup.schema):
        return {"refused": BackupRefusal.COLUMNS, "about": wrong}
    return append_rows(lacking(backup, table, request["key"]), table, request)


def append_rows(rows: Any, table: Any, request: Request, *, most: int | None = None) -> Answer:
    """Append `rows` to a table whose columns they fit, in one commit. `most`: how many there must be, exactly; where
    there are others, none is written. The fields of `backups.FillAnswer`."""
    from pyspark.storagelevel import StorageLevel

    spelled = resolved(table.columns, rows.columns, "What is written")
    columns = one_type([table, rows], [table.columns, spelled])[1]
    wanted = rows.select(*[c.alias(n) for c, n in zip(columns, table.columns, strict=True)])
    wanted = wanted.persist(StorageLevel.MEMORY_AND_DISK)  # what is counted is what is written
    try:
        return _append(wanted, request, most)
    finally:
        wanted.unpersist()


def _append(wanted: Any, request: Request, most: int | None) -> Answer:
    count = wanted.count()
    if most is not None and count != most:
        return {"rows": count, "refused": BackupRefusal.OTHER_ROWS}
    if count:
        writer = wanted.write.format("delta").mode("append").option("userMetadata", request["app_id"])
        writer = writer.option("txnAppId", request["app_id"]).option("txnVersion", "1")
        writer.save(plain(request["location"]))
    return {"rows": count}


def restore(spark: Any, request: Request, folder: Path) -> RestoreAnswer:
    """Put a table back to a version, and compare its rows with those of then where the request names their digest."""
    from pyspark.errors import PySparkException

    if not is_delta_at(spark, request["table"], request["location"]):
        return RestoreAnswer(refused=BackupRefusal.ELSEWHERE)
    name, version = sql_name(request["table"]), int(request["version"])
    if request["note"]:
        spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", request["note"])
    try:
        spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {version}").collect()
        if not request["digest"]:
            return RestoreAnswer()
        rows, digest = digested(spark.read.table(name))
    except PySparkException as error:
        if lost_contact(error) or not any(mark in str(error) for mark in NO_FILE):
            raise
        return RestoreAnswer(problem=first_line(error))
    return RestoreAnswer(rows=rows, refused=None if digest == request["digest"] else BackupRefusal.DIFFERS)


def digested(frame: Any) -> tuple[int, str]:
    """Rows of a frame, and a digest of all of them in every column, whatever their order."""
    from pyspark.sql import functions as F

    text = F.to_json(F.struct(*map(read_column, frame.columns)), dict(EXACT))
    hashed = frame.select(F.sha2(text, 256).alias("h"))
    parts = [
        F.sum(F.conv(F.substring("h", 1 + n * DIGITS, DIGITS), 16, 10).cast("decimal(38,0)")).alias(f"s{n}")
        for n in (0, 1)
    ]
    told = hashed.agg(F.count(F.lit(1)).alias("rows"), *parts).collect()[0]
    rows = int(told["rows"])
    sums = f"{rows} {int(told['s0'] or 0)} {int(told['s1'] or 0)}"
    return rows, hashlib.sha256(sums.encode()).hexdigest()


def lacking(rows: Any, others: Any, key: Sequence[str]) -> Any:
    """Those of `rows` whose key none of `others` has. Raises `NoSuchColumn`, `NotComparable`."""
    return _by_key(rows, others, key, "left_anti")


def _by_key(rows: Any, others: Any, key: Sequence[str], how: str) -> Any:
    """`rows` joined with the keys of `others`; NULL is a value."""
    mine = resolved(key, rows.columns, "The backup")
    theirs = resolved(key, others.columns, "What it is compared with")
    columns = one_type([others, rows], [theirs, mine])
    names = counting.key_names(key)
    held = named(others, columns[0]).distinct()
    asked = [f"__asked_{name}" for name in names]
    beside = rows.withColumns(dict(zip(asked, columns[1], strict=True)))
    return beside.join(held, equal_on(beside, held, zip(asked, names, strict=True)), how).drop(*asked)


def with_filled(spark: Any, expected: Any, backup: str, key: Sequence[str]) -> Any:
    """What a table must hold after a fill: what the code yields, and rows of the backup whose key it does not yield."""
    due = lacking(_copy(spark, backup), expected, key)
    spelled = resolved(expected.columns, due.columns, "The backup")
    columns = one_type([expected, due], [expected.columns, spelled])
    both = [
        frame.select(*[c.alias(n) for c, n in zip(mine, expected.columns, strict=True)])
        for frame, mine in zip((expected, due), columns, strict=True)
    ]
    return both[0].unionAll(both[1])


def compare_filled(spark: Any, request: Request, expected: Any, now: Any, key: Sequence[str]) -> FilledRows:
    """Rows that were filled back, as measured. `expected`: what the code yields, `now`: the table."""
    from pyspark.sql import functions as F

    fill = request["filled"]
    backup = _copy(spark, fill["backup"])
    due = lacking(backup, expected, key)
    there = _by_key(now, due, key, "left_semi")
    counts = counting.tallied([due, there], [due.columns, resolved(due.columns, there.columns, "The table")])
    n0, n1, none = F.col("n0"), F.col("n1"), F.lit(0).cast("bigint")
    sums = counts.agg(
        F.sum(n0).alias("due"),
        F.sum(F.greatest(n0 - n1, none)).alias("missing"),
        F.sum(F.greatest(n1 - n0, none)).alias("extra"),
    )
    row = counting.whole_numbers(sums.collect()[0])
    batch_rows = at_version(spark, request["table"], fill["before"]).count()
    rows, digest = digested(backup)
    return FilledRows(
        due=row["due"],
        missing=row["missing"],
        extra=row["extra"],
        batch_rows=batch_rows,
        filled=at_version(spark, request["table"], fill["after"]).count() - batch_rows,
        backup_rows=rows,
        backup_digest=digest,
    )


def compare_with_input(
    spark: Any, yields: Any, schema: Any, table: Any, key: Sequence[str], limit: Limit
) -> TableGap:
    """The table beside what the code yields over all input that is left. `schema`: of what the code yields. Raises
    `OverBudget`, `NoSuchColumn`, `NotComparable`."""
    from pyspark.sql import functions as F

    columns = [
        resolved(key, yields.columns, "What the code yields"),
        resolved(key, table.columns, "The table"),
    ]
    check_size(table, limit, BoundedBy.GROUPING)
    i, t = F.col("n0"), F.col("n1")
    with limited(spark, limit, BoundedBy.GROUPING):
        sums = counting.tallied([yields, table], columns).agg(
            F.sum(t).alias("table_rows"),
            F.count_if(t > 0).alias("table_keys"),
            F.sum(F.when(i == 0, t).otherwise(F.lit(0))).alias("beyond"),
        )
        row = counting.whole_numbers(sums.collect()[0])
    return TableGap(
        table_rows=row["table_rows"],
        table_keys=row["table_keys"],
        beyond=row["beyond"],
        unfit=tuple(unfit(schema, table.schema)),
    )


def unfit(into: Any, rows: Any) -> list[str]:
    """Columns that keep rows of one schema from being written into another without a change: only one of both has
    them, or a value may not fit the type."""
    mine, theirs = ({f.name.lower(): f for f in schema.fields} for schema in (into, rows))
    differing = [
        f.name for low, f in (*mine.items(), *theirs.items()) if low not in mine or low not in theirs
    ]
    for low in mine.keys() & theirs.keys():
        want = mine[low].dataType
        try:
            kind = common_type(mine[low].name, want, theirs[low].dataType)
            if common_type(mine[low].name, want, want) != kind:
                differing.append(mine[low].name)
        except NotComparable:
            differing.append(mine[low].name)
    return sorted(differing)


def at_version(spark: Any, name: str, version: int) -> Any:
    return spark.read.option("versionAsOf", str(version)).table(sql_name(name))


def latest_version(spark: Any, name: str) -> int:
    """The newest version of a Delta table."""
    return int(spark.sql(f"DESCRIBE HISTORY {sql_name(name)} LIMIT 1").collect()[0]["version"])


def _copy(spark: Any, place: str) -> Any:
    return spark.read.parquet(literal(place))


def read_column(name: str) -> Any:
    from pyspark.sql import functions as F

    from recovery.spark.session import quoted

    return F.col(quoted(name))
