"""Does a dataset hold what its definition yields over the tables now? (child process only)

A view is computed as an update would. A table that reads a stream of tables is computed over these tables whole, where
each of its rows hangs on one row alone: what it has read before is in them, as long as no one rewrote them.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from recovery.spark import counting, explained, secrets, sql_definitions
from recovery.spark.api import TYPES_DIFFER, DefinitionMeasure
from recovery.spark.catalog import table
from recovery.spark.code_flow import CodeFlow
from recovery.spark.definitions import BadCode
from recovery.spark.replay import CannotReplay, SourceRead, messages_in
from recovery.spark.session import first_line, lost_contact, quoted, use
from recovery.spark.unsure import UnsureRows, unsure

WHOLE: Final = ("starting", "ending", "readchange", "skipchange", "ignorechange", "ignoredelete")
"""Beginnings of a reader's options by which a stream does not read each row of its table once."""


@dataclass(frozen=True)
class Computed:
    """What a definition yields over the tables now: its rows, their columns and schema, and Spark's plan as text.
    `withheld`: what of its readers' options no sentence may repeat. `varying`: functions of Python that are declared
    to yield another value at each run."""

    frame: Any
    columns: Sequence[str]
    schema: Any
    text: str
    withheld: Set[str] = frozenset()
    varying: Set[str] = frozenset()


def compare_dataset(spark: Any, request: Mapping[str, Any], folder: Path) -> DefinitionMeasure:
    """The dataset beside its definition. What is in the way is its `problem`, the rest as far as known."""
    from pyspark.errors import PySparkException

    held = table(spark, request["table"])
    if held is None:
        return DefinitionMeasure(problem=f"There is no table {request['table']}.")
    defined = DefinitionMeasure(rows=held.count())
    computed: Computed | None = None
    try:
        computed = _computed(spark, request["study"], request["table"], folder)
        return _compare_rows(defined, computed, held)
    except (BadCode, CannotReplay, counting.NoSuchColumn) as error:
        return replace(defined, problem=str(error))
    except counting.NotComparable as error:
        return replace(defined, problem=str(error), problem_code=TYPES_DIFFER)
    except PySparkException as error:
        if lost_contact(error):
            raise
        says = secrets.withheld(first_line(error), computed.withheld if computed else ())
        return replace(defined, problem=f"Spark could not compare it: {says}")


def _compare_rows(defined: DefinitionMeasure, computed: Computed, held: Any) -> DefinitionMeasure:
    """With the difference over every column. Where that may come of values that differ by themselves, over those
    columns alone that cannot: `left_out` names the others, and `unsure` what may explain the difference that is left.
    """
    columns = computed.columns
    whole = replace(
        _add_difference(defined, computed.frame, held, columns),
        table_only=tuple(counting.table_only(columns, held)),
    )
    if not _differs(whole):
        return whole
    doubt, inexact = unsure(computed.text, columns, foreign=computed.varying), _inexact(computed.schema)
    doubtful = replace(whole, unsure=(*doubt.names, *inexact), rows_unsure=doubt.rows is UnsureRows.ANY)
    if doubt.rows is not UnsureRows.NONE:
        return doubtful
    soft = {*doubt.anew, *doubt.ambiguous, *inexact}
    for out, proves in ((set(doubt.anew), True), (soft, False)):
        kept = [c for c in columns if c not in out]
        if not out or not kept:
            continue
        rest = _add_difference(whole, computed.frame.select(*map(quoted, kept)), held, kept)
        if _differs(rest) is not proves:
            return replace(rest, left_out=tuple(c for c in columns if c in out))
    return doubtful


def _differs(defined: DefinitionMeasure) -> bool:
    return bool(defined.missing or defined.extra)


def varying_in(frame: Any) -> frozenset[str]:
    """Names of a DataFrame's Python functions that are declared to yield another value at each run."""
    kind = "spark.connect.CommonInlineUserDefinedFunction"
    every = messages_in(frame._plan.plan(frame._session.client))
    return frozenset(m.function_name for m in every if m.DESCRIPTOR.full_name == kind and not m.deterministic)


def _computed(spark: Any, study: Mapping[str, Any], dataset: str, folder: Path) -> Computed:
    """Raises `BadCode`, `CannotReplay` where no read can compute it."""
    sql = sql_definitions.read_files(study["files"], study["libraries"])
    try:
        flow = CodeFlow(spark, study, folder)
    except BadCode:
        if not sql:
            raise
        return _of_sql(spark, study, dataset, sql)
    if flow.query is not None:
        return _of_sql(spark, study, dataset, sql)
    if not flow.writes_alone:
        raise BadCode(f"Several flows write {dataset}, so no definition of one of them yields its rows.")
    if not flow.sources:
        varying = varying_in(flow.frame)
        return Computed(flow.frame, flow.columns, flow.schema, flow.text, flow.reader.withheld, varying)
    _check_row_by_row(flow.operators)
    frame = flow.replaced(lambda read: _whole_table(spark, read))
    text = frame._explain_string(extended=True)
    return Computed(frame, flow.columns, flow.schema, text, flow.reader.withheld)


def _of_sql(
    spark: Any, study: Mapping[str, Any], dataset: str, sql: Sequence[sql_definitions.SqlQuery]
) -> Computed:
    query = sql_definitions.query_of(sql, dataset, study["catalog"], study["schema"])
    sql_definitions.prepare(spark, sql, query, lambda: use(spark, study["catalog"], study["schema"]))
    if query.streams:
        stream = spark.sql(sql_definitions.only_query(query.text))
        _check_row_by_row(explained.operators(stream._explain_string(extended=True)))
    frame = spark.sql(sql_definitions.only_query(query.over_tables))
    return Computed(frame, frame.columns, frame.schema, frame._explain_string(extended=True))


def _check_row_by_row(operators: Sequence[str]) -> None:
    if operators:
        raise CannotReplay(f"Its rows depend on the state of its stream ({', '.join(operators)}).")


def _whole_table(spark: Any, read: SourceRead) -> Any:
    """The table that a stream reads, read once and whole. Raises `CannotReplay`."""
    name, options = read.reader.table, read.reader.options
    if not name:
        raise CannotReplay("It also reads a stream that is no table, so one read cannot compute it.")
    if part := [o for o in options if o.lower().startswith(WHOLE)]:
        raise CannotReplay(f"Its stream does not read the whole of {name} ({', '.join(part)}).")
    return spark.read.table(name)


def _add_difference(
    defined: DefinitionMeasure, expected: Any, held: Any, columns: Sequence[str]
) -> DefinitionMeasure:
    """With the exact multiset difference by these columns, which the definition yields: one job."""
    from pyspark.sql import functions as F

    named = [columns, counting.resolved(columns, held.columns, "The dataset")]
    counts, e, h = counting.tallied([expected, held], named), F.col("n0"), F.col("n1")
    sums = counts.agg(
        F.sum(e).alias("expected_rows"),
        F.sum(F.greatest(e - h, F.lit(0))).alias("missing"),
        F.sum(F.greatest(h - e, F.lit(0))).alias("extra"),
    )
    row = counting.whole_numbers(sums.collect()[0])
    return replace(defined, expected_rows=row["expected_rows"], missing=row["missing"], extra=row["extra"])


def _inexact(schema: Any) -> list[str]:
    """Columns whose last digits hang on the order in which Spark adds rows up."""
    return [
        f.name
        for f in schema.fields
        if any(word in f.dataType.simpleString() for word in ("float", "double"))
    ]
