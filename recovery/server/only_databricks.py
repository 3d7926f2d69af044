"""Calls that exist on Databricks only: told from what Python and Spark say of them, with what serves instead. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

NAMES = {
    "dlt": "write `from pyspark import pipelines as dp`",
    "dbutils": "read settings from spark.conf or the environment",
    "display": "leave it out",
    "displayHTML": "leave it out",
}
FUNCTIONS = (
    *("append_flow", "create_auto_cdc_flow", "create_sink", "create_streaming_table"),
    *("materialized_view", "table", "temporary_view"),
)
"""Of pyspark.pipelines. An argument that they do not know is one of Databricks' own, or a misspelt one."""
SOURCES = {
    "cloudfiles": "read the folder by its file format, as in spark.readStream.format('json')",
    "cloud_files": "read the folder by its file format, as in spark.readStream.format('json')",
    "read_files": "read the folder by its file format, as in spark.readStream.format('json')",
}
EXPECTATION = "filter the rows in the query"
MODULE = re.compile(r"No module named '(\w+)'")
NAME = re.compile(r"name '(\w+)' is not defined")
MEMBER = re.compile(r"(?:module 'pyspark\.pipelines(?:\.api)?' has no attribute|cannot import name) '(\w+)'")
ARGUMENT = re.compile(rf"\b({'|'.join(FUNCTIONS)})\(\) got an unexpected keyword argument '(\w+)'")
SOURCE = re.compile(
    rf"(?:DATA_SOURCE_NOT_FOUND|UNRESOLVABLE_TABLE_VALUED_FUNCTION)\S*\s.*?\b({'|'.join(SOURCES)})\b",
    re.IGNORECASE | re.DOTALL,
)
EXPECT = re.compile(r"PARSE_SYNTAX_ERROR.*?'EXPECT'", re.IGNORECASE | re.DOTALL)


def hint(exceptions: Iterable[Mapping[str, Any]]) -> str:
    """One sentence where an exception of a chain is about such a call; "" where none is.

    `exceptions`: of the API's shape, with `message`.
    """
    return next(filter(None, (_hint(str(one.get("message", ""))) for one in exceptions)), "")


def _hint(says: str) -> str:
    for pattern in (MODULE, NAME):
        if (found := pattern.search(says)) and found[1] in NAMES:
            return _sentence(found[1], NAMES[found[1]])
    if found := MEMBER.search(says):
        if "pyspark.pipelines" in says:
            return _sentence(found[1], _instead(found[1]))
    elif found := ARGUMENT.search(says):
        return _sentence(f"{found[2]} of {found[1]}", _instead(found[2]))
    elif found := SOURCE.search(says):
        return _sentence(found[1], SOURCES[found[1].lower()])
    elif EXPECT.search(says):
        return _sentence("EXPECT", EXPECTATION)
    return ""


def _instead(name: str) -> str:
    return EXPECTATION if name.startswith("expect") else "see what pyspark.pipelines has"


def _sentence(what: str, instead: str) -> str:
    return (
        f"{what} is not in open-source Spark, which this server runs; it may be Databricks-only: {instead}."
    )
