"""A call that only Databricks has is told as such, with what serves instead; other failures are left alone."""

import pytest

from recovery.server.only_databricks import hint_of_databricks

# what Python 3.11 and Spark 4.2 say
CASES = [
    ("No module named 'dlt'", "dlt"),
    ("name 'dbutils' is not defined", "dbutils"),
    ("module 'pyspark.pipelines' has no attribute 'expect_or_drop'", "expect_or_drop"),
    ("cannot import name 'apply_changes' from 'pyspark.pipelines' (/x/__init__.py)", "apply_changes"),
    ("create_streaming_table() got an unexpected keyword argument 'expect_all'", "expect_all"),
    ("append_flow() got an unexpected keyword argument 'once'", "once"),
    ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: cloudFiles. Make sure", "cloudFiles"),
    ("[UNRESOLVABLE_TABLE_VALUED_FUNCTION] Could not resolve `read_files` to a table-valued", "read_files"),
    ("[PARSE_SYNTAX_ERROR] Syntax error at or near 'EXPECT'. SQLSTATE: 42601", "EXPECT"),
]
OTHERS = [
    "'S3_BUCKET'",
    "No module named 'pandas'",
    "name 'tabel' is not defined",
    "cannot import name 'dumps' from 'json'",
    "mine() got an unexpected keyword argument 'once'",
    "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta.",
    "[PATH_NOT_FOUND] Path does not exist: file:/cloudFiles",
]


@pytest.mark.parametrize(("says", "what"), CASES)
def test_what_only_databricks_has_is_named(says: str, what: str) -> None:
    told = hint_of_databricks([{"message": "Update failed."}, {"message": says}])
    assert told.startswith(f"{what} ")
    assert "Databricks-only" in told


@pytest.mark.parametrize("says", OTHERS)
def test_other_failures_get_no_hint(says: str) -> None:
    assert hint_of_databricks([{"message": says}]) == ""


def test_no_exception_gets_no_hint() -> None:
    assert hint_of_databricks([]) == hint_of_databricks([{}]) == ""
