"""A dataset below beside what its definition yields over the tables: views and tables, in Python and in SQL."""

from typing import Any

import pytest

from recovery.spark.api import Defined, DefinedRequest, defined
from tests.integration.spark_room import SCHEMA, Room

pytestmark = pytest.mark.spark
SOURCE = [(1, "a"), (2, "b"), (2, "b")]
AGREES, DIFFERS, NOT_KNOWN = (0, 0), (1, 0), None


@pytest.fixture
def tables(connect: Any) -> None:
    """A table, and what was made of it: whole, and without one of its rows."""
    for name, rows in {"def_source": SOURCE, "def_whole": SOURCE, "def_short": SOURCE[:2]}.items():
        if not connect.catalog.tableExists(name):
            connect.createDataFrame(rows, "id INT, kind STRING").write.saveAsTable(name)


PYTHON = {
    "a view": (
        """
        @dp.materialized_view(name="NAME")
        def view():
            return spark.read.table("def_source")
        """,
        True,
    ),
    "a table that reads a stream": (
        """
        @dp.table(name="NAME")
        def copy():
            return spark.readStream.option("maxFilesPerTrigger", 1).table("def_source").where("id > 0")
        """,
        True,
    ),
    "a stream through a view": (
        """
        @dp.temporary_view
        def through():
            return spark.readStream.table("def_source")
        @dp.table(name="NAME")
        def copy():
            return spark.readStream.table("through")
        """,
        True,
    ),
    "a stream with state": (
        """
        @dp.table(name="NAME")
        def copy():
            return spark.readStream.table("def_source").dropDuplicates(["id", "kind"])
        """,
        False,
    ),
    "a stream of files": (
        f"""
        @dp.table(name="NAME")
        def copy():
            return spark.readStream.schema("{SCHEMA}").json("IN/a").select("id", "kind")
        """,
        False,
    ),
    "two flows": (
        """
        dp.create_streaming_table("NAME")
        @dp.append_flow(target="NAME", name="NAME")
        def one():
            return spark.readStream.table("def_source")
        @dp.append_flow(target="NAME", name="other")
        def other():
            return spark.readStream.table("def_source")
        """,
        False,
    ),
}
SQL = {
    "a view": (
        "CREATE MATERIALIZED VIEW NAME AS WITH s AS (SELECT * FROM def_source) SELECT * FROM s;",
        True,
    ),
    "a view over a view": (
        "USE SCHEMA default; CREATE TEMPORARY VIEW w AS SELECT * FROM v; CREATE TEMPORARY VIEW v AS "
        "SELECT * FROM def_source; CREATE OR REFRESH MATERIALIZED VIEW IF NOT EXISTS `NAME` COMMENT 'AS; x' AS "
        "SELECT id, kind FROM w",
        True,
    ),
    "a table that reads a stream": (
        "CREATE STREAMING TABLE NAME AS SELECT * FROM STREAM(def_source) s",
        True,
    ),
    "a stream without brackets": ("CREATE STREAMING TABLE NAME AS SELECT * FROM STREAM def_source", True),
    "a stream with state": (
        "CREATE STREAMING TABLE NAME AS SELECT DISTINCT * FROM STREAM(def_source)",
        False,
    ),
    "no query": ("DROP TABLE def_source; CREATE MATERIALIZED VIEW other AS SELECT 1", False),
    "a view of another place": ("CREATE MATERIALIZED VIEW NAME AS SELECT * FROM is_not_there", False),
}


def compared(
    room: Room, name: str, python: str = "", sql: str = ""
) -> tuple[Defined, tuple[int, int] | None]:
    study = room.request(
        python.replace("NAME", name),
        helpers={"/Users/ann/p/q.sql": sql.replace("NAME", name)},
        libraries=("/Users/ann/p/flow.py", *(["/Users/ann/p/q.sql"] if sql else [])),
        flow=f"spark_catalog.default.{name}",
    )
    found = defined(DefinedRequest(room.remote, f"spark_catalog.default.{name}", study))
    missing, extra = found.missing, found.extra
    return found, None if missing is None or extra is None else (missing, extra)


@pytest.mark.parametrize("case", PYTHON)
def test_a_dataset_of_python_is_compared_where_a_read_computes_it(
    room: Room, tables: None, case: str
) -> None:
    code, known = PYTHON[case]
    found, told = compared(room, "def_short", python=code)
    assert (told, found.problem is None) == (DIFFERS if known else NOT_KNOWN, known), found


@pytest.mark.parametrize("case", SQL)
def test_a_dataset_of_sql_is_compared_where_a_read_computes_it(room: Room, tables: None, case: str) -> None:
    text, known = SQL[case]
    found, told = compared(room, "def_short", sql=text)
    assert (told, found.problem is None) == (DIFFERS if known else NOT_KNOWN, known), found


def test_a_whole_table_agrees(room: Room, tables: None) -> None:
    code, text = PYTHON["a stream through a view"][0], SQL["a view over a view"][0]
    assert [compared(room, "def_whole", python=code)[1], compared(room, "def_whole", sql=text)[1]] == [
        AGREES
    ] * 2
