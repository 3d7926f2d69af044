"""Does a materialized view hold what its definition yields over the tables now? (child process only)"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recovery.spark import counting, explained
from recovery.spark.answers import Flow
from recovery.spark.catalog import table
from recovery.spark.definitions import BadCode
from recovery.spark.replay import CannotReplay
from recovery.spark.session import lost_contact


def compare(spark: Any, request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The fields of `api.Defined`. What stands in the way is in `problem`, the rest as far as known."""
    from pyspark.errors import PySparkException

    held = table(spark, request["table"])
    if held is None:
        return {"problem": f"There is no table {request['table']}."}
    out: dict[str, Any] = {"rows": held.count()}
    try:
        view = Flow(spark, request["study"], folder)
        if view.sources:
            return out | {"problem": "It reads a stream, so one read cannot compute it."}
        out |= _difference(view.frame, held, view.columns)
        out["unsure"] = [*explained.computed_anew(view.text), *_inexact(view.schema)]
    except (BadCode, CannotReplay, counting.NoSuchColumn) as error:
        out["problem"] = str(error)
    except PySparkException as error:
        if lost_contact(error):
            raise
        out["problem"] = f"Spark could not compare it: {view.says(error)}"
    return out


def _difference(expected: Any, held: Any, columns: Sequence[str]) -> dict[str, int]:
    """The exact multiset difference by every column that the definition yields: one job."""
    from pyspark.sql import functions as F

    named = [columns, counting.resolved(columns, held.columns, "The view")]
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
