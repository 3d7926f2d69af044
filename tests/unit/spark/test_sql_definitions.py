"""What SQL files of a pipeline define: which query writes a dataset, and the same query read once."""

import pytest

from recovery.spark.definitions import BadCode
from recovery.spark.sql_definitions import flows_of, queries, query_of

FILE = """
-- a comment; with a semicolon
SET pipelines.x = 1;
USE SCHEMA crm;
CREATE OR REFRESH MATERIALIZED VIEW IF NOT EXISTS `crm`.`Customers` (id INT COMMENT 'AS x', n BIGINT)
  COMMENT 'the; AS view' TBLPROPERTIES ('a'='b')
AS WITH x AS (SELECT * FROM changes) SELECT id, CASE WHEN n > 1 THEN 'a;b' ELSE 'c' END AS n FROM x;
/* more ; */
CREATE STREAMING TABLE copy AS SELECT *, 'stream(' AS c FROM STREAM(crm.changes) c JOIN d ON c.id = d.id;
CREATE STREAMING TABLE copy2 AS SELECT * FROM STREAM crm.changes;
CREATE TEMPORARY VIEW tv AS SELECT 1 AS x;
CREATE STREAMING TABLE filled;
CREATE FLOW fill AS INSERT INTO filled BY NAME SELECT * FROM STREAM(a);
CREATE FLOW more AS INSERT INTO filled BY NAME SELECT * FROM STREAM(b);
CREATE OR REFRESH MATERIALIZED VIEW checked (CONSTRAINT v EXPECT (id IS NOT NULL) ON VIOLATION DROP ROW) AS SELECT 1;
CREATE MATERIALIZED VIEW last AS SELECT 1 AS a UNION ALL SELECT 2
"""


def query(dataset: str) -> str:
    return query_of(queries([FILE]), dataset, "spark_catalog", "crm").over_tables


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (
            "spark_catalog.crm.customers",
            "WITH x AS (SELECT * FROM changes) SELECT id, CASE WHEN n > 1 THEN 'a;b' ELSE 'c' END AS n FROM x",
        ),
        ("spark_catalog.crm.copy", "SELECT *, 'stream(' AS c FROM (crm.changes) c JOIN d ON c.id = d.id"),
        ("spark_catalog.crm.copy2", "SELECT * FROM  crm.changes"),
        ("spark_catalog.crm.last", "SELECT 1 AS a UNION ALL SELECT 2"),
    ],
)
def test_the_query_of_a_dataset_is_read_over_its_tables(dataset: str, text: str) -> None:
    assert query(dataset) == text


@pytest.mark.parametrize(
    "dataset",
    [
        "spark_catalog.crm.filled",
        "spark_catalog.crm.tv",
        "spark_catalog.crm.none",
        "spark_catalog.crm.checked",
    ],
)
def test_two_queries_or_none_are_no_definition(dataset: str) -> None:
    with pytest.raises(BadCode):
        query(dataset)


HERE, THERE = "SELECT 1 AS here", "SELECT 2 AS there"


def view(name: str, text: str) -> str:
    return f"CREATE MATERIALIZED VIEW {name} AS {text};"


@pytest.mark.parametrize(
    ("files", "dataset", "text"),
    [
        # the same name in another schema is another table
        ([f"USE SCHEMA other; {view('v', THERE)}", view("v", HERE)], "c.s.v", HERE),
        ([f"USE SCHEMA other; {view('v', THERE)}", view("v", HERE)], "c.other.v", THERE),
        ([f"USE SCHEMA other; {view('v', THERE)}"], "c.s.v", None),
        ([f"USE DATABASE x.other; {view('v', THERE)}"], "x.other.v", THERE),
        ([f"USE x.other; {view('v', THERE)}"], "x.other.v", THERE),
        ([f"USE CATALOG x; USE SCHEMA s; {view('v', THERE)}", view("v", HERE)], "c.s.v", HERE),
        ([f"USE CATALOG x; USE SCHEMA s; {view('v', THERE)}"], "x.s.v", THERE),
        ([f"SET CATALOG x; USE NAMESPACE s; {view('v', THERE)}"], "x.s.v", THERE),
        ([f"use /* y */ schema `Other` ; {view('V', THERE)}"], "c.other.v", THERE),
        # in file order: what comes later holds from there on
        ([f"{view('v', HERE)} USE SCHEMA other; {view('v', THERE)}"], "c.s.v", HERE),
        ([f"USE SCHEMA other; USE SCHEMA s; {view('v', HERE)}"], "c.s.v", HERE),
        ([f"USE SCHEMA other; {view('s.v', HERE)}", view("other.v", THERE)], "c.s.v", HERE),
        # which schema a catalog begins with, and what a bare name names, only Spark knows
        ([f"USE CATALOG x; {view('v', THERE)}"], "x.s.v", None),
        ([f"USE CATALOG x; {view('v', THERE)}", view("v", HERE)], "c.s.v", HERE),
        ([f"USE other; {view('v', THERE)}"], "c.other.v", None),
        ([f"USE other; {view('v', THERE)}", view("v", HERE)], "c.s.v", None),
        ([f"USE IDENTIFIER('a'); {view('v', THERE)}", view("v", HERE)], "c.s.v", None),
        ([f"USE other; {view('c.s.v', HERE)}"], "c.s.v", HERE),
        ([view("`s.v`", THERE), view("v", HERE)], "c.s.v", None),
        (
            ["USE SCHEMA other; CREATE STREAMING TABLE v; CREATE FLOW f AS INSERT INTO v BY NAME SELECT 3"],
            "c.s.v",
            None,
        ),
    ],
)
def test_a_name_is_of_the_catalog_and_schema_that_hold_where_it_is_written(
    files: list[str], dataset: str, text: str | None
) -> None:
    if text is None:
        with pytest.raises(BadCode):
            query_of(queries(files), dataset, "c", "s")
    else:
        assert query_of(queries(files), dataset, "c", "s").text == text


def test_settings_before_a_query_go_with_it_and_temporary_views_are_told_apart() -> None:
    found = {q.target: q for q in queries([FILE])}
    assert [s.split()[-1] for s in found["copy"].settings] == ["1", "crm"]
    assert [name for name, q in found.items() if q.temporary] == ["tv"]
    assert [name for name, q in found.items() if q.streams] == ["copy", "copy2", "filled"]


@pytest.mark.parametrize(
    "text", ["", ";;", "CREATE", "CREATE TABLE x", "DROP TABLE x", "CREATE FLOW f AS SELECT 1", "('"]
)
def test_what_is_no_definition_is_passed_over(text: str) -> None:
    assert queries([text]) == []


def test_queries_are_flows_under_their_whole_names() -> None:
    text = (
        "CREATE STREAMING TABLE a AS SELECT 1; CREATE TEMPORARY VIEW v AS SELECT 2; USE SCHEMA other;"
        "CREATE FLOW f AS INSERT INTO `S`.b BY NAME SELECT 3"
    )
    flows, all_known = flows_of(queries([text]), "c", "s")
    assert [(f.name, f.target, f.query.text) for f in flows] == [
        ("`c`.`s`.`a`", "`c`.`s`.`a`", "SELECT 1"),
        ("`c`.`other`.`f`", "`c`.`s`.`b`", "SELECT 3"),
    ]
    assert all_known


def test_a_flow_whose_name_only_spark_knows_is_left_out_and_said() -> None:
    flows, all_known = flows_of(queries(["USE somewhere; CREATE STREAMING TABLE a AS SELECT 1"]), "c", "s")
    assert (flows, all_known) == ([], False)


def test_a_statement_that_is_too_long_to_be_read_leaves_the_others_and_may_write_anything() -> None:
    values = ", ".join(f"({n}, {n})" for n in range(3_000))
    found = queries(
        [f"CREATE MATERIALIZED VIEW big AS FROM VALUES {values}; CREATE STREAMING TABLE a AS SELECT 1"]
    )

    flows, all_known = flows_of(found, "c", "s")
    assert ([flow.target for flow in flows], all_known) == (["`c`.`s`.`a`"], False)
    with pytest.raises(BadCode):
        query_of(found, "c.s.a", "c", "s")
