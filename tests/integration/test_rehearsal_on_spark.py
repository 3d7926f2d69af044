"""A rehearsal yields exactly what the update then writes: on real streams, in several batches, with late rows."""

import dataclasses
import json
import os
import sys
import textwrap
from pathlib import Path

import pytest

from recovery.checkpoints.starts import SourceStart
from recovery.errors import Refused
from recovery.sources.input_ranges import InputRange
from recovery.spark import rehearsing, scratch, session
from recovery.spark.api import rehearse
from tests.integration.rehearsed_flow import START, WINDOWED, Flow, told, windows
from tests.integration.spark_room import end_session
from tests.kafka import KafkaBroker

pytestmark = pytest.mark.spark

QUERIES = {
    "windows": WINDOWED,
    "sliding windows": WINDOWED.replace('"5 seconds"', '"6 seconds", "2 seconds"'),
    "sessions": WINDOWED.replace('F.window("t", "5 seconds")', 'F.session_window("t", "4 seconds")'),
    "repeats within the watermark": """
    return read("a").withWatermark("t", "3 seconds").dropDuplicatesWithinWatermark(["k"]).select("k", "t")
""",
    "repeats with their time": """
    return read("a").withWatermark("t", "3 seconds").dropDuplicates(["k", "t"]).select("k", "t")
""",
    "a join of two streams": """
    left = read("a").withWatermark("t", "4 seconds").alias("l")
    right = read("b").withWatermark("t", "4 seconds").alias("r")
    near = F.expr("l.k = r.k and r.t between l.t - interval 3 seconds and l.t + interval 3 seconds")
    return left.join(right, near, "leftOuter").select("l.k", "l.t", F.col("r.t").alias("u"))
""",
}
OVER_KAFKA = """
from pyspark.sql import functions as F
@dp.table
def t():
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "SERVERS")
    reader = reader.option("subscribe", "TOPIC").option("startingOffsets", "earliest")
    rows = reader.option("maxOffsetsPerTrigger", 3).load().selectExpr(
        "split(cast(value as string), ' ')[0] as k",
        "timestamp_seconds(cast(split(cast(value as string), ' ')[1] as long)) as t",
    ).withColumn("z", F.substring("k", 1, 1)).withWatermark("t", "10 seconds")
    return rows.groupBy(F.window("t", "5 seconds"), "k").agg(F.count("*").alias("n"))
"""
CASES = [*((name, 1) for name in QUERIES), ("windows", 2), ("repeats within the watermark", 100)]


@pytest.mark.parametrize(("name", "files"), CASES, ids=[f"{name}, {n} at a time" for name, n in CASES])
def test_a_rehearsal_yields_what_an_update_writes_in_the_same_batches(
    flow: Flow, name: str, files: int
) -> None:
    """Rows come out of order, far behind the watermark, and again after they were forgotten."""
    flow.files = files
    flow.query(QUERIES[name])
    for rows in (
        [("a", 1), ("b", 2)],
        [("a", 21)],
        [("b", 24)],
        [("a", 3), ("a", 21)],
        [("c", 60), ("a", 25)],
    ):
        flow.put(*rows)
    for rows in ([("a", 2)], [("b", 23), ("c", 61)], [("b", 25)], [("a", 4)]):
        flow.put(*rows, folder="b")
    written, late = flow.update()
    found = flow.rehearse()
    assert flow.rows(found) == written
    assert written
    assert (found.late, found.why) == (late, "")
    assert files > 1 or late, "of single files, some come too late"


def test_records_of_a_topic_are_rehearsed_in_the_batches_that_the_reader_makes(
    flow: Flow, kafka: KafkaBroker
) -> None:
    topic = f"rehearsed-{flow.room.folder.name.replace('_', '-')}"
    kafka.topic(topic, 2)
    flow.code = textwrap.dedent(OVER_KAFKA.replace("SERVERS", kafka.address).replace("TOPIC", topic))
    rows = [
        [("a1", 1), ("b1", 3), ("a2", 22), ("b1", 24), ("a1", 19), ("a1", 41)],
        [("b2", 2), ("b1", 23), ("a2", 40)],
    ]
    for partition, held in enumerate(rows):
        kafka.put(topic, [f"{k} {START + s}" for k, s in held], partition)
    before, _ = flow.update()
    conf, watermark, _ = flow.settings()
    more = [[("a9", 5), ("b1", 44)], [("b1", 43), ("a1", 70), ("a2", 45), ("a2", 71)]]
    for partition, held in enumerate(more):
        kafka.put(topic, [f"{k} {START + s}" for k, s in held], partition)
    flow.code = flow.code.replace('"k").agg', 'F.col("z").alias("k")).agg')
    back = {topic: {"0": 2, "1": 1}}  # before the first row of a window that was still open
    sliced = InputRange("kafka", start=back, end={topic: {"0": 8, "1": 7}}).as_dict()

    primed = flow.rehearse("primed", [], watermark_ms=watermark, conf=conf)
    expected = flow.rehearse("expected", slices={"new": {"0": sliced}}, watermark_ms=watermark, conf=conf)
    flow.begin(SourceStart(0, 0, json.dumps(back, separators=(",", ":"))), watermark, primed.checkpoint)
    after, late = flow.update()

    assert after - before == flow.rows(expected)
    assert (expected.late, expected.why) == (late, "")
    assert expected.batches
    assert expected.batches > 4
    assert expected.watermark_ms == (START + 60) * 1000 + 1000
    assert late == 6, "five of windows that were written, and the last of b1, which comes after 70"
    every_row = [row for held in (*rows, *more) for row in held if row != ("b1", 44)]
    assert told(after - before) == windows(every_row, watermark, expected.watermark_ms)


def test_without_settings_it_takes_those_of_the_session(flow: Flow) -> None:
    flow.put(("a", 1), ("a", 2))
    flow.put(("b", 30))
    asked = flow.request()
    study = dataclasses.replace(asked.study, configuration={"spark.sql.shuffle.partitions": "3"})
    found = rehearse(dataclasses.replace(asked, study=study), timeout=300)
    assert (found.problem, found.rows, found.watermark_ms) == (None, 1, (START + 20) * 1000)
    assert len([p for p in Path(found.checkpoint, "state/0").iterdir() if p.name.isdigit()]) == 3
    with pytest.raises(Refused, match="is there already"):
        flow.rehearse()
    scratch.clear_scratch(asked.scratch)
    assert not Path(asked.scratch).exists()


FAILURES = {
    "a failing row": (
        """
    return read("a").selectExpr("raise_error('no such row')")
""",
        "The flow's query failed over a copy of its input: ",
    ),
    "facts of files": (
        """
    return read("a").select("*", "_metadata.file_name")
""",
        "The flow asks for facts of its input files (_metadata, input_file_name), which a copy does not have.",
    ),
    "no append": (
        """
    return read("a").groupBy("k").count()
""",
        "The flow's query failed over a copy of its input: ",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_cannot_be_rehearsed_is_said_and_what_is_there_is_left(flow: Flow, name: str) -> None:
    flow.put(("a", 1))
    flow.query(FAILURES[name][0])
    found = rehearse(flow.request(), timeout=300)
    assert (found.problem or "").startswith(FAILURES[name][1])
    assert (found.rows, found.output, found.late) == (None, "", None)


def test_a_rehearsal_that_takes_too_long_is_stopped_and_left_where_it_is(flow: Flow) -> None:
    flow.put(("a", 1))
    flow.query("""
    return read("a").where("java_method('java.lang.Thread', 'sleep', 600000L) is not null")
""")
    asked = dataclasses.asdict(flow.request()) | {"cuts": {"0": 1}, "seconds": 2.0}
    before, place = list(sys.path), Path.cwd()
    spark = session.fresh(flow.room.remote, {})
    try:
        staged = rehearsing.stage(spark, asked, flow.room.code)
        found = rehearsing.run(spark, asked, flow.room.code)
        left = spark.streams.active
    finally:
        sys.path[:] = before
        os.chdir(place)
        end_session(spark)
    assert staged["cuts"] == {"0": 1}
    assert found == {"problem": "The rehearsal did not end within 2 s and was stopped; give it more time."}
    assert left == []
    assert Path(asked["scratch"], "checkpoint/offsets/0").exists()
