"""The rows of a table before and after a rerun, by its versions or data files (child only)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recovery.spark import counting, slicing
from recovery.spark.api import BoundedBy, BudgetBound, Limit, Measure
from recovery.spark.catalog import path_of, sql_name
from recovery.spark.code_flow import CodeFlow
from recovery.spark.lookups import OverBudget, budgets_of, check_size, limited
from recovery.spark.misread import find_partitions
from recovery.spark.paths import literal, plain
from recovery.spark.rehearsing import Request


@dataclass(frozen=True)
class TableRows:
    """The rows of a table before and after a rerun. `whole`: `found` is the whole table, else what was written."""

    old: Any | None
    found: Any
    whole: bool


def add_columns(spark: Any, request: Request, place: Mapping[str, str], now: Any) -> Any:
    """The table with the columns that its new files add: one that is named by its path has no schema but that of any
    one of its files."""
    files = request.get("new_files")
    if path_of(request["table"]) is None or place["provider"] == "delta" or not files:
        return now
    known = {name.lower() for name in now.columns}
    reader = spark.read.format(place["provider"]).option("basePath", place["location"])
    written = reader.option("mergeSchema", "true").load([literal(f) for f in files]).schema
    more = [column for column in written.fields if column.name.lower() not in known]
    if not more:
        return now
    schema = type(written)([*now.schema.fields, *more])
    return spark.read.format(place["provider"]).schema(schema).load(place["location"])


def type_partitions(spark: Any, flow: CodeFlow, name: str, held: Any) -> Any:
    """A file table that is named by its path, with its partitions of text as text: Spark guesses their types from the
    names of folders, which makes `07` a number."""
    place, schema = path_of(name), held.schema
    if place is None or place[0] == "delta" or not flow.partitions:
        return held
    named = {column.lower() for column in flow.partitions}
    texts = {c.name.lower(): c.dataType for c in flow.schema.fields if c.dataType.typeName() == "string"}
    texts = {name: kind for name, kind in texts.items() if name in named}
    types = {column.name: texts.get(column.name.lower(), column.dataType) for column in schema.fields}
    if all(types[column.name] == column.dataType for column in schema.fields):
        return held
    if named != {column.lower() for column in find_partitions(held, place[1]) or ()}:
        return held
    typed = type(schema)([type(column)(column.name, types[column.name]) for column in schema.fields])
    return spark.read.format(place[0]).schema(typed).load(literal(place[1]))


def read_sides(spark: Any, request: Request, place: Mapping[str, str], now: Any) -> TableRows:
    version = request.get("old_version")
    if version is None:
        old = read_files(spark, place, now, request["old_files"])
        written = read_files(spark, place, now, request["new_files"])
        return TableRows(old, now.where("false") if written is None else written, whole=False)
    if version < 0:
        return TableRows(None, now, whole=True)
    since, limit, name = request.get("since"), budgets_of(request).versions, request["table"]
    old = slicing.align_columns(_at(spark, name, version), now.schema)
    moved = () if since is None else since["rewritten"]
    if since is not None and all(_same_rows(spark, name, place, now, one, limit) for one in moved):
        return TableRows(old, _of_log(spark, name, place, now, since["written"]), whole=False)
    check_size(old, limit, BoundedBy.VERSIONS)
    return TableRows(old, now, whole=True)


def _at(spark: Any, name: str, version: int) -> Any:
    return spark.read.option("versionAsOf", str(version)).table(sql_name(name))


def _of_log(spark: Any, name: str, place: Mapping[str, str], now: Any, part: slicing.Slice) -> Any:
    """Rows of data files of a Delta table, as its log names them."""
    if not part["versions"]:
        return now.where("false")

    def parquet(schema: Any, paths: Sequence[str]) -> Any:
        reader = spark.read.format("parquet").schema(schema).option("basePath", plain(place["location"]))
        return reader.load(list(paths))

    def read(options: Mapping[str, str]) -> Any:
        return spark.read.options(**options).table(sql_name(name))

    return slicing.delta(read, parquet, place["location"], now, [part])


def _same_rows(
    spark: Any, name: str, place: Mapping[str, str], now: Any, rewritten: Mapping[str, Any], limit: Limit
) -> bool:
    """Whether the files that a commit put in the place of others hold their rows. Raises `OverBudget`."""
    if limit.bytes is not None and rewritten["size"] > limit.bytes:
        raise OverBudget(BudgetBound(BoundedBy.REWRITTEN, rewritten["size"], limit.bytes))
    sides = [_of_log(spark, name, place, now, rewritten[side]) for side in ("gone", "came")]
    counts = counting.tallied(sides, [now.columns, now.columns])
    with limited(spark, limit, BoundedBy.REWRITTEN):
        return not counts.where("n0 != n1").limit(1).collect()


def count_sides(held: TableRows) -> Measure:
    """What can be said of the table alone, where the input cannot be replayed."""
    if held.whole and held.old is not None:
        apart = counting.ComparedColumns.by(held.found.columns)
        rows = counting.compare_versions(held.old, held.found.where("false"), held.found, apart, 0)
        return Measure(
            old_rows=rows.old_rows,
            new_rows=rows.new_rows,
            listed_rows=rows.listed_rows,
            vanished=rows.vanished,
        )
    old_rows, new_rows = (0 if frame is None else frame.count() for frame in (held.old, held.found))
    return Measure(old_rows=old_rows, new_rows=new_rows, listed_rows=old_rows + new_rows)


def read_files(spark: Any, place: Mapping[str, str], held: Any, files: Sequence[str]) -> Any | None:
    """Rows of the named data files with the table's own schema; None where none is named."""
    if not files:
        return None
    reader = spark.read.format(place["provider"]).schema(held.schema)
    reader = reader.option("basePath", place["location"])
    return reader.load([literal(f) for f in files])
