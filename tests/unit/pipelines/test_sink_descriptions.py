"""The sink that a query's progress describes, as Spark 4.2 and its connectors write it."""

import pytest

from recovery.pipelines.sink_descriptions import SinkClass, read_sink

KAFKA = "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable"


@pytest.mark.parametrize(
    ("description", "kind", "place", "identity"),
    [
        ("FileSink[file:/t/a b]", SinkClass.FILES, "/t/a b", "FileSink[/t/a b]"),
        ("FileSink[s3a://bucket/t/]", SinkClass.FILES, "s3a://bucket/t", "FileSink[s3a://bucket/t/]"),
        ("DeltaSink[/t]", SinkClass.DELTA, "/t", "DeltaSink[/t]"),
        ("DeltaSink[file:///t]", SinkClass.DELTA, "/t", "DeltaSink[/t]"),
        ("FileSink[file:/t/`x`]", SinkClass.FILES, "", "FileSink[/t/`x`]"),
        ("ForeachBatchSink", SinkClass.FUNCTION, "", "ForeachBatchSink"),
        (f"{KAFKA}@1f2e", SinkClass.KAFKA, "", KAFKA),
        ("KafkaTable[orders]", SinkClass.KAFKA, "", "KafkaTable[orders]"),
        ("org.apache.spark.sql.execution.streaming.ConsoleTable$@7a0b", SinkClass.OTHER, "", None),
        ("MyFileSink[/t]", SinkClass.OTHER, "", None),
        ("", SinkClass.OTHER, "", None),
    ],
)
def test_a_sink_is_what_its_description_says(
    description: str, kind: SinkClass, place: str, identity: str | None
) -> None:
    sink = read_sink({"sink": {"description": description}})
    assert (sink.kind, sink.place) == (kind, place)
    assert identity in (None, sink.identity)


@pytest.mark.parametrize(
    "progress", [None, {}, {"sink": None}, {"sink": {"description": 7}}, [], "x"], ids=str
)
def test_what_describes_no_sink_is_another_one(progress: object) -> None:
    assert read_sink(progress).kind is SinkClass.OTHER
