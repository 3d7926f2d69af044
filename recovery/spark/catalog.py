"""What Spark's catalog says of tables (child process only)."""

import re
from collections.abc import Sequence
from typing import Any

from recovery.spark.session import quoted

NOT_THERE = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def table(spark: Any, name: str | None) -> Any | None:
    """The table as the catalog shows it now; None where there is none."""
    from pyspark.errors import AnalysisException

    if not name:
        return None
    frame = spark.read.table(sql_name(name))
    try:
        _ = frame.schema
    except AnalysisException as error:
        if any(mark in str(error) for mark in NOT_THERE):
            return None
        raise
    return frame


def describe(spark: Any, name: str) -> dict[str, str]:
    """`location` and `provider` of a table; {} where there is none."""
    from pyspark.errors import AnalysisException

    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {sql_name(name)}").collect()
    except AnalysisException as error:
        if any(mark in str(error) for mark in NOT_THERE):
            return {}
        raise
    facts = {row["col_name"]: row["data_type"] for row in rows}
    return {k.lower(): facts[k] for k in ("Location", "Provider") if facts.get(k)}


def locations(spark: Any, names: Sequence[str]) -> dict[str, str]:
    """Location of each table that there is."""
    found = {name: describe(spark, name).get("location") for name in names}
    return {name: place for name, place in found.items() if place}


def tables(spark: Any, catalog: str, schema: str) -> dict[str, str]:
    """Every table of the schema that has a location; {} where there is no such schema."""
    from pyspark.errors import AnalysisException

    try:
        rows = spark.sql(f"SHOW TABLES IN {quoted(catalog)}.{quoted(schema)}").collect()
    except AnalysisException as error:
        if "SCHEMA_NOT_FOUND" in str(error):
            return {}
        raise
    names = [f"{catalog}.{schema}.{row['tableName']}" for row in rows if not row["isTemporary"]]
    return locations(spark, names)


def sql_name(name: str) -> str:
    """Each part quoted, so that a name is never read as SQL. Parts may hold dots where they are quoted already."""
    parts = [whole.replace("``", "`") if whole else plain for whole, plain in _PART.findall(name)]
    return ".".join(quoted(part) for part in parts)
