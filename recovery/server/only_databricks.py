"""Calls that exist on Databricks only: how Python and Spark report them, and what serves instead. Pure."""

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
NO_SOURCE = re.compile(r"DATA_SOURCE_NOT_FOUND|UNRESOLVABLE_TABLE_VALUED_FUNCTION", re.IGNORECASE)
BLANK = re.compile(r"\s")
SOURCE = re.compile(rf"\b({'|'.join(SOURCES)})\b", re.IGNORECASE)
NO_SYNTAX = re.compile(r"PARSE_SYNTAX_ERROR", re.IGNORECASE)
EXPECT = re.compile(r"'EXPECT'", re.IGNORECASE)


def hint_of_databricks(exceptions: Iterable[Mapping[str, Any]]) -> str:
    """One sentence where an exception of a chain is about such a call; "" where none is.

    `exceptions`: of the API's shape, with `message`.
    """
    return next(filter(None, (_find_hint(str(error.get("message", ""))) for error in exceptions)), "")


def _find_hint(says: str) -> str:
    for pattern in (MODULE, NAME):
        if (match := pattern.search(says)) and match[1] in NAMES:
            return _compose_hint(match[1], NAMES[match[1]])
    if match := MEMBER.search(says):
        if "pyspark.pipelines" in says:
            return _compose_hint(match[1], _replacement_of(match[1]))
    elif match := ARGUMENT.search(says):
        return _compose_hint(f"{match[2]} of {match[1]}", _replacement_of(match[2]))
    elif match := _match_in_order(says, NO_SOURCE, BLANK, SOURCE):
        return _compose_hint(match[1], SOURCES[match[1].lower()])
    elif _match_in_order(says, NO_SYNTAX, EXPECT):
        return _compose_hint("EXPECT", EXPECTATION)
    return ""


def _match_in_order(says: str, *patterns: re.Pattern[str]) -> re.Match[str] | None:
    """The last of these, where each is somewhere behind the one before: each is looked for once, as one expression
    for all of them would not do."""
    met, at = None, 0
    for wanted in patterns:
        met = wanted.search(says, at)
        if met is None:
            return None
        at = met.end()
    return met


def _replacement_of(name: str) -> str:
    return EXPECTATION if name.startswith("expect") else "see what pyspark.pipelines has"


def _compose_hint(what: str, instead: str) -> str:
    return (
        f"{what} is not in open-source Spark, which this server runs; it may be Databricks-only: {instead}."
    )
