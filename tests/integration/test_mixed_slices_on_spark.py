"""Kafka, Delta and files in one flow: sources in the order of Spark's offset log, and rows batch for batch."""

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recovery.sources.input_ranges import InputRange, of_delta
from recovery.sources.live import delta as live_delta
from tests.integration.spark_room import Room
from tests.kafka import KafkaBroker

pytestmark = pytest.mark.spark

# What every body below begins with: frames of one column, `id`.
READS = """
kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "SERVERS")
kafka = kafka.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 4 * LIMIT)
topic = kafka.option("subscribe", "TOPIC").load().selectExpr("cast(cast(value as string) as bigint) as id")
other = kafka.option("subscribe", "OTHER").load().selectExpr("cast(cast(value as string) as bigint) as id")
files = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", LIMIT).json("FOLDER/in/a")
delta = spark.readStream.format("delta").option("maxFilesPerTrigger", LIMIT)
table = delta.load("FOLDER/table").select("id")
named = spark.readStream.option("maxFilesPerTrigger", LIMIT).table("NAME").select("NAME.id")
"""
# Body, its sources in order, and the lines of its offset log where these are others.
BODIES = {
    "union": ("topic.union(files).union(table).union(named)", "topic files table named", ""),
    "union the other way": (
        "named.union(table).union(files).union(topic)", "named table files topic", ""
    ),
    "union of unions": (
        "topic.union(table).union(files.union(named).union(other))", "topic table files named other", ""
    ),
    "join": ('files.join(topic, "id").join(table, "id")', "files topic table", ""),
    "join of unions": (
        'topic.union(table).join(named.union(files), "id")', "topic table named files", ""
    ),
    "one frame twice in a union": (
        "topic.union(table).union(topic).union(table)", "topic table", "topic table topic table"
    ),
    "one frame on both sides of a join": (
        'topic.join(topic, "id").union(files)', "topic files", "topic topic files"
    ),
    "one relation on both sides of a join": (
        'delta.load("FOLDER/table").transform(lambda f: f.join(f, "id")).union(topic)', "table table topic", ""
    ),
}  # fmt: skip


@dataclass
class Flow:
    """A body of code, run as a stream and studied."""

    bare: Room
    words: dict[str, str]
    session: Any
    limit: int = 1000  # of files, and of four times as many records, in a batch

    def text(self, body: str) -> str:
        """READS and the body, with the names of this test."""
        text = f"{READS}\nframe = {body}"
        for word, value in {**self.words, "LIMIT": str(self.limit)}.items():
            text = text.replace(word, value)
        return text

    def code(self, body: str) -> str:
        inner = textwrap.indent(self.text(body), "    ")
        return f"@dp.table\ndef t():\n{inner}\n    return frame\n"

    def stream(self, body: str) -> Path:
        """Everything that is there, to Parquet with the batch each row came in; the checkpoint."""
        told = {"spark": self.session}
        exec(self.text(body), told)  # noqa: S102
        checkpoint, out = self.bare.folder / "checkpoint", str(self.bare.folder / "rows")
        writer = told["frame"].writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start(out)
        assert query.awaitTermination(120)
        assert query.exception() is None
        return checkpoint

    def what(self, line: str) -> str:
        """Which of the reads an offset line belongs to."""
        body = json.loads(line)
        if "logOffset" in body:
            return "files"
        if "reservoirId" in body:
            return {self.id_of(self.bare.folder / "table"): "table"}.get(body["reservoirId"], "named")
        return {self.words["TOPIC"]: "topic", self.words["OTHER"]: "other"}[next(iter(body))]

    @staticmethod
    def id_of(table: Path) -> str:
        lines = (table / "_delta_log" / f"{0:020}.json").read_text().splitlines()
        return str(next(json.loads(x)["metaData"]["id"] for x in lines if "metaData" in x))

    def told(self, source: Any) -> str:
        """The same of what a study says."""
        if source.format == "kafka":
            return {self.words["TOPIC"]: "topic", self.words["OTHER"]: "other"}[source.options["subscribe"]]
        if source.format == "delta":
            return "named" if source.path == self.words["NAME"] else "table"
        return "files"


@pytest.fixture
def flow(bare: Room, bare_session: Any, kafka: KafkaBroker, request: pytest.FixtureRequest) -> Flow:
    mark = f"{abs(hash(request.node.name)) % 10**10}"
    name = f"mixed_{mark}"
    for topic, first in ((f"m-{mark}", 0), (f"o-{mark}", 50)):
        kafka.topic(topic, 2)
        kafka.put(topic, range(first, first + 6), 0)
        kafka.put(topic, range(first + 6, first + 9), 1)
    for i in range(3):
        bare.put(f"a/{i}.json", {"id": 100 + i}, {"id": i})
    for i in range(3):
        rows = bare_session.range(200 + 10 * i, 204 + 10 * i, 1, 2).union(bare_session.range(i, i + 1))
        rows.write.format("delta").mode("append").save(str(bare.folder / "table"))
    bare_session.sql(f"DROP TABLE IF EXISTS {name}")
    bare_session.range(0, 6, 1, 2).write.format("delta").saveAsTable(name)
    words = {"SERVERS": kafka.address, "TOPIC": f"m-{mark}", "OTHER": f"o-{mark}", "NAME": name}
    return Flow(bare, {**words, "FOLDER": str(bare.folder)}, bare_session)


@pytest.mark.parametrize("case", BODIES)
def test_sources_stand_in_the_order_of_the_offset_log(flow: Flow, case: str) -> None:
    """A line for each time the plan names a source, a directory for each source: docs/sources.md."""
    body, *told = BODIES[case]
    sources, lines = (names.split() for names in (told[0], told[1] or told[0]))
    found = flow.bare.look(flow.code(body))
    assert found.problem is None
    assert [flow.told(s) for s in found.sources] == sources
    checkpoint = flow.stream(body)
    offsets = (checkpoint / "offsets" / "0").read_text().splitlines()[2:]
    assert [flow.what(line) for line in offsets] == lines
    folders = sorted(f.name for f in (checkpoint / "sources").iterdir())
    assert folders == [str(i) for i, name in enumerate(sources) if name in ("topic", "other", "files")]


def test_a_delta_table_by_name_tells_where_it_lies(flow: Flow) -> None:
    (source,) = flow.bare.look(flow.code("named")).sources
    assert (source.format, source.path) == ("delta", flow.words["NAME"])
    assert source.location.endswith(f"/warehouse/{flow.words['NAME']}")
    (source,) = flow.bare.look(flow.code("table")).sources
    assert source.location == source.path == f"{flow.bare.folder}/table"


def slice_between(before: str, after: str, location: str) -> InputRange:
    """What a batch read of one source, from its offset lines ("-" before the first)."""
    start = None if before == "-" else before
    if "reservoirId" in after:
        facts = live_delta.read_table(location, offsets=(start, after), options={}, look=False)
        found = of_delta(start, after, facts)
        assert found is not None
        return found
    end = json.loads(after)
    zero = {topic: dict.fromkeys(held, 0) for topic, held in end.items()}
    return InputRange("kafka", start=json.loads(start) if start else zero, end=end)


def test_every_batch_of_a_stream_is_yielded_again_by_the_slices_between_its_offsets(flow: Flow) -> None:
    flow.limit = 1
    body = "topic.union(files).union(table).union(named).selectExpr('id', 'id % 3 as k')"
    checkpoint = flow.stream(body)
    sources = flow.bare.look(flow.code(body)).sources
    batches = sorted(int(f.name) for f in (checkpoint / "commits").glob("[0-9]*"))
    assert len(batches) > 2
    held = ["-"] * 4
    sets: dict[str, tuple[str, ...]] = {}
    slices: dict[str, dict[str, Any]] = {}
    for number in batches:
        lines = (checkpoint / "offsets" / str(number)).read_text().splitlines()[2:]
        label = str(number)
        log = checkpoint / "sources" / "1" / label
        entries = [json.loads(x) for x in log.read_text().splitlines()[1:]] if log.exists() else []
        sets[label] = tuple(e["path"] for e in entries)
        slices[label] = {
            str(i): slice_between(held[i], lines[i], sources[i].location).as_dict()
            for i in (0, 2, 3)
            if lines[i] not in ("-", held[i])
        }
        held = lines
    write = {label: str(flow.bare.folder / "again" / label) for label in slices}
    found = flow.bare.look(flow.code(body), sets=sets, slices=slices, write=write)
    assert found.problem is None
    log = flow.bare.folder / "rows" / "_spark_metadata"
    for number in batches:
        paths = [json.loads(x)["path"] for x in (log / str(number)).read_text().splitlines()[1:]]
        wrote = flow.session.read.schema("id bigint, k bigint").parquet(*paths).collect() if paths else []
        again = flow.session.read.parquet(write[str(number)]).collect()
        assert sorted(again) == sorted(wrote), f"batch {number}"
    assert sum(found.rows.values()) == 9 + 6 + 15 + 6
