"""Adds the rows of the input that a table lacks, and counts them for forecasts and proofs (child process only).

No hash decides which row is missing: keys are compared by value, and NULL is one. What a dropDuplicates of the code
lets through is the first row of its key; which one that was, a batch over all input cannot tell. So rows are added only
where all rows of a key are equal.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recovery.spark import counting, filling, repeated, slicing
from recovery.spark.api import BoundedBy, Limit
from recovery.spark.backups import BackupRefusal
from recovery.spark.catalog import is_delta_at
from recovery.spark.code_flow import CodeFlow
from recovery.spark.comparable import NotComparable, collated, resolved
from recovery.spark.definitions import BadCode
from recovery.spark.explained import dedupes_last
from recovery.spark.lookups import check_size, limited
from recovery.spark.rehearsing import Answer, Request
from recovery.spark.replay import CannotReplay


@dataclass(frozen=True)
class Input:
    """What a question names: files of all sources together, and slices by the index of their source."""

    files: tuple[str, ...]
    slices: Mapping[str, Sequence[slicing.Slice]]

    @classmethod
    def of_study(cls, study: Request, label: str | None = None) -> "Input":
        """Under one label, or under all of them."""
        labels = [label] if label else [*dict.fromkeys([*study["sets"], *study["slices"]])]
        files = [file for name in labels for file in study["sets"].get(name, ())]
        slices: dict[str, list[slicing.Slice]] = {}
        for name in labels:
            for source, part in study["slices"].get(name, {}).items():
                slices.setdefault(source, []).append(part)
                files += part.get("files") or ()
        return cls(tuple(files), slices)


def compare_committed(
    spark: Any, flow: CodeFlow, given: Input, table: Any, key: Sequence[str], limit: Limit
) -> Answer:
    """The fields of `backups.CommittedComparison`. Raises `OverBudget`, `NoSuchColumn`, `NotComparable`, `BadCode`,
    `CannotReplay`."""
    from pyspark.sql import functions as F

    yields = flow.batch(given.files, given.files, given.slices)
    columns = [
        resolved(key, yields.columns, "What the code yields"),
        resolved(key, table.columns, "The table"),
    ]
    if by := [c[n] for f, c in zip((yields, table), columns, strict=True) for n in collated(f, c)]:
        return {"collated": sorted(set(by))}
    if unfit := filling.unfit(table.schema, yields.schema):
        return {"unfit": unfit}
    check_size(table, limit, BoundedBy.GROUPING)
    y, t, none = F.col("n0"), F.col("n1"), F.lit(0).cast("bigint")
    is_absent = (y > 0) & (t == 0)
    with limited(spark, limit, BoundedBy.GROUPING):
        counts = counting.tallied([yields, table], columns)
        row = counts.agg(
            F.sum(y).alias("rows"),
            F.sum(F.when(is_absent, y).otherwise(none)).alias("absent"),
            F.count_if(is_absent).alias("absent_keys"),
            F.sum(F.when(t > 0, F.greatest(y - t, none)).otherwise(none)).alias("short"),
            F.sum(F.when(y > 0, F.greatest(t - y, none)).otherwise(none)).alias("extra"),
            F.count_if((y > 0) & (t > y)).alias("extra_keys"),
            F.sum(F.when(y == 0, t).otherwise(none)).alias("beyond"),
        ).collect()[0]
        out: Answer = {name: int(value or 0) for name, value in row.asDict().items()}
        if out["extra"]:
            out["differing"] = repeated.count_differing(counts, yields, table, key)
        return out | {"unsettled": _unsettled(flow, given, yields, table, key)}


def _unsettled(flow: CodeFlow, given: Input, yields: Any, table: Any, key: Sequence[str]) -> int | None:
    """Keys that the table lacks and of which the input has several rows that differ, where the code lets through one;
    None: the key does not show which rows it lets through."""
    from pyspark.sql import functions as F

    if flow.dedupe is None:
        return 0
    if not dedupes_last(flow.text) or not flow.lets_through_by(key):
        return None
    every = filling.lacking(flow.batch_with_repeats(given.files, given.slices), table, key)
    named = resolved(key, every.columns, "What the code yields")
    text = F.to_json(F.struct(*map(filling.read_column, every.columns)), dict(filling.EXACT))
    grouped = every.groupBy(*map(filling.read_column, named)).agg(F.count_distinct(text).alias("kinds"))
    return int(grouped.where(F.col("kinds") > 1).count())


def correct_table(
    spark: Any, request: Request, folder: Path, correct: Callable[[Any, Any], Answer]
) -> Answer:
    """The fields of `backups.FillAnswer`: what `correct` does with the code's rows over all input and the table as it
    was at the version that was looked at."""
    if not is_delta_at(spark, request["table"], request["location"]):
        return {"refused": BackupRefusal.ELSEWHERE}
    try:
        flow = CodeFlow(spark, request["study"], folder)
        given = Input.of_study(request["study"])
        yields = flow.batch(given.files, given.files, given.slices)
        table = filling.at_version(spark, request["table"], request["before"])
        if wrong := filling.unfit(table.schema, yields.schema):
            return {"refused": BackupRefusal.COLUMNS, "about": wrong}
        return correct(yields, table)
    except (BadCode, CannotReplay, counting.NoSuchColumn, NotComparable) as error:
        return {"refused": BackupRefusal.UNREADABLE, "problem": str(error)}


def top_up(spark: Any, request: Request, folder: Path) -> Answer:
    """The fields of `backups.FillAnswer`."""

    def append_lacking(yields: Any, table: Any) -> Answer:
        rows = filling.lacking(yields, table, request["key"])
        return filling.append_rows(rows, table, request, most=int(request["rows"]))

    return correct_table(spark, request, folder, append_lacking)


def compare_topped(expected: Any, now: Any, key: Sequence[str]) -> Answer:
    """The fields of `backups.ToppedRows`. `expected`: what the code yields over committed input, `now`: the table."""
    from pyspark.sql import functions as F

    columns = [
        resolved(key, expected.columns, "What the code yields"),
        resolved(key, now.columns, "The table"),
    ]
    y, t, none = F.col("n0"), F.col("n1"), F.lit(0).cast("bigint")
    row = (
        counting.tallied([expected, now], columns)
        .agg(
            F.sum(y).alias("rows"),
            F.sum(F.greatest(y - t, none)).alias("missing"),
            F.sum(F.when(y > 0, F.greatest(t - y, none)).otherwise(none)).alias("extra"),
            F.sum(F.when(y == 0, t).otherwise(none)).alias("beyond"),
        )
        .collect()[0]
    )
    return {name: int(value or 0) for name, value in row.asDict().items()}
