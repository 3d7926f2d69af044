"""A stream that stands in a SQL text alone is a source like any other, or the code counts as not analysed."""

from typing import Any

import pytest

from recovery.contracts.readers import SourceReader
from recovery.spark.api import UNSEEN_STREAM
from recovery.spark.numbering import number_sources

HEAD = "== Analyzed Logical Plan ==\nid: bigint\n"
ORDERS = (
    "+- ~SubqueryAlias spark_catalog.default.orders\n"
    "   +- StreamingRelation delta, [id#1L], name=<Unassigned>\n"
)
RETURNS = (
    "+- ~SubqueryAlias spark_catalog.default.returns\n"
    "   +- StreamingRelation FileSource[file:/w/returns], [id#2L], name=<Unassigned>\n"
)
BY_PLACE = "+- StreamingRelation FileSource[/in/a], [id#3L], name=<Unassigned>\n"
KAFKA = "+- StreamingRelation kafka, [id#4L], name=<Unassigned>\n"
TORN = "+- ~StreamingRelationV2 org.x.P@5, kafka, org.x.T@2, [jaas=a\nb], [key#4], name=x\n"
PLACES = {"orders": ("delta", "/w/orders"), "returns": ("parquet", "/w/returns")}


def table(name: str) -> SourceReader:
    kind, location = PLACES.get(name.split(".")[-1], ("table", None))
    return SourceReader(kind, name, location=location, table=name)


def files(path: str) -> SourceReader:
    return SourceReader("json", path, schema="id int", location=path)


KAFKA_READ = SourceReader("kafka")


def places(plan: str, *reads: SourceReader, queries: tuple[str, ...] = ()) -> list[str | None]:
    found = number_sources(HEAD + plan, reads, table, queries=queries)
    assert (found.problem, found.code) == (None, "")
    return [source.location for source in found.sources]


def test_a_table_that_a_text_reads_is_a_source() -> None:
    found = number_sources(HEAD + ORDERS, (), table)
    assert [(s.format, s.location, s.table) for s in found.sources] == [
        ("delta", "/w/orders", "spark_catalog.default.orders")
    ]
    assert (found.problem, found.by_text) == (None, ("spark_catalog.default.orders",))


def test_tables_of_texts_and_readers_of_the_code_come_in_the_order_of_the_plan() -> None:
    assert places(RETURNS + BY_PLACE + ORDERS, files("/in/a")) == ["/w/returns", "/in/a", "/w/orders"]
    assert places(KAFKA + ORDERS, KAFKA_READ) == [None, "/w/orders"]


def test_a_reader_of_one_table_does_not_stand_for_another() -> None:
    assert places(ORDERS + RETURNS, table("returns")) == ["/w/orders", "/w/returns"]
    assert number_sources(HEAD + ORDERS, (files("/in/a"),), table).code == UNSEEN_STREAM


def test_a_reader_by_its_name_is_the_table_of_the_whole_name() -> None:
    for name in ("orders", "default.Orders", "spark_catalog.default.`orders`"):
        found = number_sources(HEAD + ORDERS, (table(name),), table)
        assert ([s.table for s in found.sources], found.problem, found.by_text) == ([name], None, ())


@pytest.mark.parametrize(
    ("plan", "reads", "queries"),
    [
        (BY_PLACE, (), ()),
        (KAFKA, (), ()),
        (TORN, (), ()),
        (ORDERS + TORN, (KAFKA_READ,), ()),
        (ORDERS.replace("orders", "gone"), (), ()),
        (ORDERS, (), ("SELECT * FROM STREAM orders WITH ('startingVersion' = '3')",)),
        (ORDERS, (), ("SELECT * FROM STREAM orders with(x=1)",)),
    ],
    ids=["files by place", "kafka", "torn", "torn beside a table", "no place", "options", "options close by"],
)
def test_a_stream_of_which_nothing_is_known_is_a_problem(
    plan: str, reads: tuple[Any, ...], queries: tuple[str, ...]
) -> None:
    found = number_sources(HEAD + plan, reads, table, queries=queries)
    assert (found.code, found.problem is None) == (UNSEEN_STREAM, False)


def test_a_common_table_expression_is_no_option() -> None:
    query = "WITH x AS (SELECT 1) SELECT * FROM STREAM orders"
    assert places(ORDERS, queries=(query,)) == ["/w/orders"]


def test_one_reader_whose_relation_is_torn_stays_what_it_is() -> None:
    found = number_sources(HEAD + TORN, (KAFKA_READ,), table)
    assert (found.sources, found.problem) == ((KAFKA_READ,), None)


def test_a_plan_without_streams_has_no_source() -> None:
    found = number_sources(HEAD + "+- Relation spark_catalog.default.orders[id#1L] parquet\n", (), table)
    assert (found.sources, found.problem, found.by_text) == ((), None, ())


def test_a_table_that_a_text_reads_beside_another_read_of_it_is_named() -> None:
    again = number_sources(HEAD + ORDERS + ORDERS.replace("#1", "#9"), (), table)
    beside = number_sources(HEAD + ORDERS + ORDERS.replace("#1", "#9"), (table("orders"),), table)
    once = number_sources(HEAD + ORDERS + RETURNS, (table("returns"),), table)
    assert [found.read_again for found in (again, beside, once)] == [
        "spark_catalog.default.orders",
        "spark_catalog.default.orders",
        "",
    ]
