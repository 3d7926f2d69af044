"""What Spark's catalog says of tables (child process only)."""

import re
from collections.abc import Sequence
from typing import Any

from recovery.errors import Refused
from recovery.spark.paths import plain
from recovery.spark.session import quoted

NOT_THERE = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "DELTA_TABLE_NOT_FOUND",
    "PATH_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "UNABLE_TO_INFER_SCHEMA",
)
BY_PATH = frozenset(("delta", "parquet", "json", "csv", "orc", "text"))
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def table(spark: Any, name: str | None) -> Any | None:
    """The table as the catalog shows it now; None where there is none. Raises `Refused` (`no_connector`) for a format
    that this Spark cannot read: it then says of every table that there is none."""
    from pyspark.errors import AnalysisException

    if not name:
        return None
    frame = spark.read.table(sql_name(name))
    try:
        _ = frame.schema
    except AnalysisException as error:
        if not any(mark in str(error) for mark in NOT_THERE):
            raise
        if by_path := path_of(name):
            _check_connector(spark, *by_path)
        return None
    return frame


def _check_connector(spark: Any, provider: str, path: str) -> None:
    from pyspark.errors import PySparkException

    try:
        _ = spark.read.format(provider).load(path).schema
    except PySparkException as error:
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            raise Refused(
                f"The Spark that counts and measures cannot read {provider} tables, so nothing is counted, and nothing "
                "can be proven. An admin can give it the connector (REPRISE_SPARK_JARS, or bin/demo --connectors).",
                code="no_connector",
            ) from error


def describe(spark: Any, name: str) -> dict[str, str]:
    """`location`, `provider` and `created time` of a table; {} where there is none."""
    from pyspark.errors import AnalysisException

    if by_path := path_of(name):
        return {} if table(spark, name) is None else {"provider": by_path[0], "location": by_path[1]}
    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {sql_name(name)}").collect()
    except AnalysisException as error:
        if any(mark in str(error) for mark in NOT_THERE):
            return {}
        raise
    facts = {row["col_name"]: row["data_type"] for row in rows}
    return {k.lower(): facts[k] for k in ("Location", "Provider", "Created Time") if facts.get(k)}


def is_delta_at(spark: Any, name: str, location: str) -> bool:
    """Whether the name is that of the Delta table at this place now."""
    described = describe(spark, name)
    same = plain(described.get("location", "")).rstrip("/") == plain(location).rstrip("/")
    return described.get("provider") == "delta" and same


def places(spark: Any, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """`location` of each table that there is, and when it was `made`, "" where the catalog does not say."""
    described = {name: describe(spark, name) for name in names}
    return {
        name: {"location": told["location"], "made": told.get("created time", "")}
        for name, told in described.items()
        if told.get("location")
    }


def path_of(name: str) -> tuple[str, str] | None:
    """Format and path of a table that is named by both, as in delta.`/tables/orders`; None for a name of a catalog."""
    parts = [whole.replace("``", "`") if whole else plain for whole, plain in _PART.findall(name)]
    by_path = len(parts) == 2 and parts[0].lower() in BY_PATH and "/" in parts[1]
    return (parts[0].lower(), parts[1]) if by_path else None


def sql_name(name: str) -> str:
    """Each part quoted, so that a name is never read as SQL. Parts may hold dots where they are quoted already."""
    return ".".join(quoted(part) for part in _parts(name))


def name_parts(name: str) -> tuple[str, ...]:
    """Parts of a dotted name in lower case, as Spark compares them by default."""
    return tuple(part.lower() for part in _parts(name))


def _parts(name: str) -> list[str]:
    return [whole.replace("``", "`") if whole else plain for whole, plain in _PART.findall(name)]
