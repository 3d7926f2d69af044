"""Streams are found in the messages of Connect wherever they stand."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.connect.proto import relations_pb2 as relations

from recovery.contracts.readers import SourceReader
from recovery.spark import catalog
from recovery.spark.definitions import Definitions
from recovery.spark.replay import ReaderProxy, messages_in, streaming_reads

READERS = (
    SourceReader("kafka", options={"subscribe": "t"}),
    SourceReader("", "/in/*", schema="id int", location="/in/*"),
    SourceReader("json", "/named", location="/named", name="clicks"),
    SourceReader("delta", "orders", location="file:/w/orders", table="orders"),
    SourceReader("table", "gone", table="gone"),
)


def frame(plan: Any) -> Any:
    """A DataFrame of this plan."""
    return SimpleNamespace(
        _plan=SimpleNamespace(plan=lambda client: plan), _session=SimpleNamespace(client=None)
    )


def stream(name: str) -> Any:
    read = relations.Relation()
    read.read.named_table.unparsed_identifier = name
    read.read.is_streaming = True
    return read


def names(found: list[Any]) -> list[str]:
    return [read.named_table.unparsed_identifier for read in found]


def test_streams_are_read_from_left_to_right() -> None:
    joined = relations.Relation()
    joined.join.right.CopyFrom(stream("b"))
    joined.join.left.CopyFrom(stream("a"))
    assert names(streaming_reads(frame(joined))) == ["a", "b"]


def test_a_stream_that_a_query_is_given_is_found() -> None:
    """As `spark.sql("SELECT * FROM {orders}", orders=stream)` and a subquery send it: in a list of references."""
    given = relations.Relation()
    given.with_relations.root.sql.query = "SELECT * FROM orders"
    given.with_relations.references.append(stream("orders"))
    assert names(streaming_reads(frame(given))) == ["orders"]


def test_every_message_is_walked_through_lists() -> None:
    plan = relations.Relation()
    called = plan.project.expressions.add().common_inline_user_defined_function
    called.function_name = "chance"
    assert "chance" in [getattr(one, "function_name", "") for one in messages_in(plan)]


def test_a_reader_shows_what_the_code_gives_it_and_where_the_catalog_has_its_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = {"orders": {"provider": "DELTA", "location": "file:/w/orders"}}
    monkeypatch.setattr(catalog, "describe", lambda spark, name: places.get(name, {}))
    topic = relations.Read.DataSource(format="kafka", options={"subscribe": "t"})
    folder = relations.Read.DataSource(paths=["/in/*"], schema="id int")
    named = relations.Read.DataSource(format="json", paths=["/named"], source_name="clicks")
    reads = [relations.Read(data_source=source, is_streaming=True) for source in (topic, folder, named)]
    proxy = ReaderProxy(None, Definitions())
    shown = [
        proxy.list_reads(frame(relations.Relation(read=read)))
        for read in (*reads, stream("orders").read, stream("gone").read)
    ]
    assert shown == [[reader] for reader in READERS]
