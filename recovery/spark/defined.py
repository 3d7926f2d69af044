"""Does a dataset hold what its definition yields over the tables now? (child process only)

A view is computed as an update would. A table that reads a stream of tables is computed over these tables whole, where
each of its rows hangs on one row alone: what it has read before is in them, as long as nobody rewrote them.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from recovery.spark import counting, explained, secrets, sql_definitions
from recovery.spark.api import TYPES_DIFFER
from recovery.spark.catalog import table
from recovery.spark.code_flow import CodeFlow
from recovery.spark.definitions import BadCode
from recovery.spark.replay import CannotReplay, SourceRead, messages_in
from recovery.spark.session import first_line, lost_contact, quoted, use
from recovery.spark.unsure import Rows, unsure

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


def compare(spark: Any, request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The fields of `api.Defined`. What stands in the way is in `problem`, the rest as far as known."""
    from pyspark.errors import PySparkException

    held = table(spark, request["table"])
    if held is None:
        return {"problem": f"There is no table {request['table']}."}
    out: dict[str, Any] = {"rows": held.count()}
    found: Computed | None = None
    try:
        found = _computed(spark, request["study"], request["table"], folder)
        out |= _compared(found, held)
    except (BadCode, CannotReplay, counting.NoSuchColumn) as error:
        out["problem"] = str(error)
    except counting.NotComparable as error:
        out |= {"problem": str(error), "problem_code": TYPES_DIFFER}
    except PySparkException as error:
        if lost_contact(error):
            raise
        out["problem"] = (
            f"Spark could not compare it: {secrets.withheld(first_line(error), found.withheld if found else ())}"
        )
    return out


def _compared(found: Computed, held: Any) -> dict[str, Any]:
    """The difference over every column. Where that may come of values that differ by themselves, over those columns
    alone that cannot: `left_out` names the others, and `unsure` what may explain the difference that is left."""
    whole: dict[str, Any] = _difference(found.frame, held, found.columns)
    whole["table_only"] = counting.table_only(found.columns, held)
    if not _differs(whole):
        return whole
    doubt, inexact = unsure(found.text, found.columns, foreign=found.varying), _inexact(found.schema)
    told = {**whole, "unsure": [*doubt.names, *inexact], "rows_unsure": doubt.rows is Rows.ANY}
    if doubt.rows is not Rows.NONE:
        return told
    soft = {*doubt.anew, *doubt.ambiguous, *inexact}
    for out, proves in ((set(doubt.anew), True), (soft, False)):
        kept = [c for c in found.columns if c not in out]
        if not out or not kept:
            continue
        rest = _difference(found.frame.select(*map(quoted, kept)), held, kept)
        if _differs(rest) is not proves:
            return {**whole, **rest, "left_out": [c for c in found.columns if c in out]}
    return told


def _differs(difference: Mapping[str, Any]) -> bool:
    return bool(difference["missing"] or difference["extra"])


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
    name, options = read.described.get("table"), read.described["options"]
    if not name:
        raise CannotReplay("It also reads a stream that is no table, so one read cannot compute it.")
    if part := [o for o in options if str(o).lower().startswith(WHOLE)]:
        raise CannotReplay(f"Its stream does not read the whole of {name} ({', '.join(part)}).")
    return spark.read.table(name)


def _difference(expected: Any, held: Any, columns: Sequence[str]) -> dict[str, int]:
    """The exact multiset difference by every column that the definition yields: one job."""
    from pyspark.sql import functions as F

    named = [columns, counting.resolved(columns, held.columns, "The dataset")]
    counts, e, h = counting.tallied([expected, held], named), F.col("n0"), F.col("n1")
    row = counts.agg(
        F.sum(e).alias("expected_rows"),
        F.sum(F.greatest(e - h, F.lit(0))).alias("missing"),
        F.sum(F.greatest(h - e, F.lit(0))).alias("extra"),
    ).collect()[0]
    return {name: int(value or 0) for name, value in row.asDict().items()}


def _inexact(schema: Any) -> list[str]:
    """Columns whose last digits hang on the order in which Spark adds rows up."""
    return [
        f.name
        for f in schema.fields
        if any(word in f.dataType.simpleString() for word in ("float", "double"))
    ]
