"""A rehearsal yields exactly what the update then writes: on real streams, in several batches, with late rows."""

import contextlib
import dataclasses
import json
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect, seed
from recovery.checkpoints.formats import parse_commit, parse_offsets
from recovery.checkpoints.starts import SourceStart
from recovery.errors import Refused
from recovery.sources.slices import Slice
from recovery.spark import rehearsing, scratch, session
from recovery.spark.api import Rehearsal, RehearsalRequest, rehearse
from tests.connected_spark import connect_server
from tests.integration.spark_room import Room
from tests.kafka import KafkaBroker
from tests.unit.checkpoints.seeding import free

pytestmark = pytest.mark.spark

EPOCH = 1_700_000_000
START = 1_704_067_200  # 2024-01-01T00:00:00Z
READ = """
from pyspark.sql import functions as F
def read(folder):
    reader = spark.readStream.schema("k string, z string, t timestamp")
    return reader.option("maxFilesPerTrigger", FILES).json("IN/" + folder)
@dp.table
def t():
"""
WINDOWED = """
    rows = read("a").withWatermark("t", "10 seconds")
    return rows.groupBy(F.window("t", "5 seconds"), "k").agg(F.count("*").alias("n"))
"""
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


@pytest.fixture(scope="module")
def connected() -> Iterator[tuple[Any, str]]:
    """A session of Spark Connect, on a Spark with the connectors, and its address."""
    with (
        connect_server(**{"spark.sql.shuffle.partitions": "1"}) as address,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        opened = session.fresh(address, {})
        yield opened, address
        opened.stop()


@dataclass
class Flow:
    """JSON files (or a topic) -> parquet; version `version` of its checkpoint is in use."""

    spark: Any
    room: Room
    files: int = 1
    version: int = 0
    code: str = ""
    put_so_far: dict[str, list[tuple[str, list[tuple[str, int]]]]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return str(self.room.folder / "flow")

    @property
    def table(self) -> str:
        return str(self.room.folder / "table")

    def query(self, text: str) -> None:
        """What the code of the flow is from now on."""
        self.code = (READ + text).replace("FILES", str(self.files)).replace("IN/", f"{self.room.folder}/in/")

    def put(self, *rows: tuple[str, int], folder: str = "a") -> None:
        """One file of rows: (the key, its second)."""
        so_far = self.put_so_far.setdefault(folder, [])
        told = [{"k": k, "z": k[0], "t": datetime.fromtimestamp(START + s, UTC).isoformat()} for k, s in rows]
        uri = self.room.put(f"{folder}/part {len(so_far):03d}.json", *told)
        os.utime(uri.removeprefix("file://"), (EPOCH + len(so_far),) * 2)
        so_far.append((uri, list(rows)))

    def uris(self) -> list[str]:
        return [uri for files in self.put_so_far.values() for uri, _ in files]

    def update(self) -> tuple[Counter[str], int]:
        """Rows in the table after one more update, and how many it dropped."""
        defined: list[Any] = []

        class Pipelines:
            table = staticmethod(defined.append)

        exec(self.code, {"spark": self.spark, "dp": Pipelines})  # noqa: S102 - the update of a pipeline, by hand
        writer = defined[0]().writeStream.format("parquet").option("path", self.table)
        writer = writer.option("checkpointLocation", f"{self.place}/{self.version}")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        late = sum(s.numRowsDroppedByWatermark for p in query.recentProgress for s in p.stateOperators)
        return self.rows_in(self.table), late

    def rows_in(self, folder: str) -> Counter[str]:
        """By a fresh session: another one keeps an index of the files."""
        fresh = session.fresh(self.room.remote, {})
        rows = fresh.read.parquet(folder).collect()
        fresh.stop()
        return Counter(json.dumps(r.asDict(recursive=True), default=str) for r in rows)

    def request(
        self, folder: str = "scratch", sets: Sequence[str] | None = None, **more: Any
    ) -> RehearsalRequest:
        named = {"new": tuple(self.uris() if sets is None else sets)}
        study = self.room.request(self.code, sets=named, slices=more.pop("slices", {}))
        return RehearsalRequest(study, str(self.room.folder / folder), **more)

    def rehearse(self, folder: str = "scratch", sets: Sequence[str] | None = None, **more: Any) -> Rehearsal:
        found = rehearse(self.request(folder, sets, **more), timeout=300)
        assert found.problem is None, found.problem
        return found

    def rows(self, found: Rehearsal) -> Counter[str]:
        rows = self.rows_in(found.output)
        assert found.rows == rows.total()
        return rows

    def settings(self) -> tuple[dict[str, str], int, str]:
        """Of the last committed batch: its header's settings, its header's watermark, its first source's line."""
        report = inspect(self.place)
        read = parse_offsets(Path(report.location, f"offsets/{report.last_committed}").read_bytes())
        assert read.sources[0].offset_json
        return dict(read.conf), read.watermark_ms, read.sources[0].offset_json

    def begin(self, start: SourceStart, watermark_ms: int, state: str) -> None:
        """The next version of the checkpoint: seeded."""
        plan = seed.plan_seed(
            inspect(self.place, sink=self.table), starts=[start], watermark_ms=watermark_ms, state=state
        )
        made = seed.prepare(self.place, plan, recovery="R-1", fence=1, guard=free)
        self.version = seed.publish(self.place, made, guard=free)


@pytest.fixture
def flow(connected: tuple[Any, str], tmp_path: Path) -> Flow:
    for side in ("a", "b"):
        (tmp_path / "in" / side).mkdir(parents=True)
    found = Flow(connected[0], Room(connected[1], tmp_path))
    found.query(WINDOWED)
    return found


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


def windows(rows: Sequence[tuple[str, int]], after_ms: int, until_ms: int) -> Counter[tuple[str, int]]:
    """(letter, end in s) of the windows of five seconds that close after one watermark and up to another one."""
    ends = ((k[0], START + s // 5 * 5 + 5) for k, s in rows)
    return Counter((k, end) for k, end in ends if after_ms < end * 1000 <= until_ms)


def told(rows: Counter[str]) -> Counter[tuple[str, int]]:
    """The same of rows that were written; each window is there once."""
    assert set(rows.values()) == {1}
    found = [json.loads(row) for row in rows]
    ends = [datetime.fromisoformat(row["window"]["end"]).replace(tzinfo=UTC) for row in found]
    return Counter({(r["k"], int(end.timestamp())): r["n"] for r, end in zip(found, ends, strict=True)})


@pytest.mark.parametrize("closing", [True, False], ids=["windows were closed", "the last batch closed none"])
def test_a_changed_key_goes_on_with_every_open_window_whole_and_none_twice(flow: Flow, closing: bool) -> None:
    """Its state is of no use to the new key: it is dropped, and what the open windows held is read again."""
    for rows in (
        [("a1", 1), ("b1", 4)],
        [("a1", 21), ("b1", 3)],
        [("b2", 24), ("a2", 18)],
        [("b1", 41), ("a1", 39)],
    ):
        flow.put(*rows)
    with contextlib.ExitStack() as stack:
        if not closing:
            flow.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
            stack.callback(flow.spark.conf.unset, "spark.sql.streaming.noDataMicroBatches.enabled")
        before, _ = flow.update()
    conf, watermark, line = flow.settings()
    flow.put(("a3", 2), ("b3", 44))
    flow.put(("a1", 70))
    flow.query(WINDOWED.replace('"k")', 'F.col("z").alias("k"))'))
    back_to_ms = (
        watermark - 5000 + 1
    )  # an open window ends 1 ms after the watermark at the earliest, and is 5 s long
    every = flow.put_so_far["a"]
    first = next(
        i for i, (_, rows) in enumerate(every) if any((START + s) * 1000 >= back_to_ms for _, s in rows)
    )
    again, waiting = [uri for uri, _ in every[first:4]], [uri for uri, _ in every[4:]]

    primed = flow.rehearse("primed", [], watermark_ms=watermark, conf=conf)
    assert (primed.rows, primed.batches, primed.watermark_ms) == (0, 1, watermark)
    expected = flow.rehearse("expected", [*again, *waiting], watermark_ms=watermark, conf=conf)
    flow.begin(SourceStart(0, 0, line, again=tuple(again)), watermark, primed.checkpoint)
    after, late = flow.update()

    assert after - before == flow.rows(expected)
    assert (expected.late, expected.why) == (late, "")
    assert not before - after
    assert expected.watermark_ms == (START + 60) * 1000
    every_row = [row for _, rows in every for row in rows]
    assert told(after - before) == windows(every_row, watermark, expected.watermark_ms)
    if not closing:
        later = parse_commit(
            Path(flow.place, f"0/commits/{inspect(f'{flow.place}/0').last_committed}").read_bytes()
        )
        lost = flow.rehearse("later", [*again, *waiting], watermark_ms=later.watermark_ms, conf=conf)
        assert told(flow.rows(lost)) < told(after - before), "windows between the two were never written"
    flow.put(("a1", 90))
    assert told(flow.update()[0] - after) == Counter({("a", START + 75): 1})


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
    sliced = Slice("kafka", start=back, end={topic: {"0": 8, "1": 7}}).as_dict()

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
    scratch.clear(asked.scratch)
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
        spark.stop()
    assert staged["cuts"] == {"0": 1}
    assert found == {"problem": "The rehearsal did not end within 2 s and was stopped; give it more time."}
    assert left == []
    assert Path(asked["scratch"], "checkpoint/offsets/0").exists()
