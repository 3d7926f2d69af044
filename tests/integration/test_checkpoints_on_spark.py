"""Checkpoints that real Spark wrote: a seed restarts exactly, and listings are Spark's own."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect_checkpoint, seed
from recovery.sinks.live import files as sink_files
from recovery.sources.files import source_facts
from recovery.sources.live.files import list_files
from tests.listed_inputs import EPOCH, LISTED, ListedInput, put_files

pytestmark = pytest.mark.spark


@dataclass
class Stream:
    """JSON files -> parquet, with the checkpoint as version `version` of a flow directory."""

    spark: Any
    root: Path
    sources: int = 1
    version: int = 0

    @property
    def flow(self) -> str:
        return str(self.root / "flow")

    @property
    def table(self) -> str:
        return str(self.root / "table")

    @property
    def checkpoint(self) -> Path:
        return self.root / "flow" / str(self.version)

    def input(self, source: int = 0) -> Path:
        where = self.root / f"in{source}"
        where.mkdir(parents=True, exist_ok=True)
        return where

    def put(self, *numbers: int, source: int = 0) -> None:
        """One file with one row each; a blank in its name, so that URIs are encoded."""
        for n in numbers:
            hidden, visible = self.input(source) / ".new", self.input(source) / f"part {n:03d}.json"
            hidden.write_text(json.dumps({"k": n + 1000 * source, "v": n}) + "\n")
            os.utime(hidden, (EPOCH + n, EPOCH + n))
            hidden.rename(visible)

    def run(self, *, dedup: bool, max_files: int | None = 1) -> str:
        """One update with everything that is there: "" or the text of its failure."""
        streams = []
        for n in range(self.sources):
            reader = self.spark.readStream.schema("k long, v long")
            if max_files:
                reader = reader.option("maxFilesPerTrigger", max_files)
            streams.append(reader.json(str(self.input(n))))
        frame = streams[0]
        for other in streams[1:]:
            frame = frame.union(other)
        if dedup:
            frame = frame.dropDuplicates(["k"])
        writer = frame.writeStream.format("parquet").option("path", self.table)
        try:
            query = (
                writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
            )
            query.awaitTermination()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def rows(self) -> list[int]:
        """Keys in the table, sorted, as a reader of the table sees them."""
        self.spark.catalog.refreshByPath(self.table)
        return sorted(r.k for r in self.spark.read.parquet(self.table).select("k").collect())


def keys(*numbers: int, source: int = 0) -> list[int]:
    return [n + 1000 * source for n in numbers]


def seed_next(stream: Stream, recovery: str = "R-1") -> None:
    """Seed the next version of the stream's flow and move on to it."""
    plan = seed.plan_seed(inspect_checkpoint(stream.flow, sink=stream.table))
    prepared = seed.prepare_seed(stream.flow, plan, recovery=recovery, fence=1, guard=lambda: None)
    stream.version = seed.publish_checkpoint(stream.flow, prepared, guard=lambda: None)


@contextmanager
def conf(spark: Any, **values: str) -> Iterator[None]:
    """Settings below `spark.sql.streaming.` for a while; `__` in a name stands for a dot."""
    names = {f"spark.sql.streaming.{name.replace('__', '.')}": value for name, value in values.items()}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


@pytest.mark.parametrize(
    ("batches", "sources", "interval"),
    [
        pytest.param(1, 1, 10, id="batch 0 only"),
        pytest.param(3, 1, 10, id="three batches"),
        pytest.param(9, 1, 10, id="first compaction planned"),
        pytest.param(5, 1, 3, id="second one planned"),
        pytest.param(25, 2, 10, id="union, compacted"),
    ],
)
def test_a_seed_restarts_the_changed_query_on_exactly_the_unread_rows(
    spark: Any, tmp_path: Path, batches: int, sources: int, interval: int
) -> None:
    stream = Stream(spark, tmp_path, sources)
    with conf(spark, fileSource__log__compactInterval=str(interval)):
        for n in range(sources):
            stream.put(*range(batches), source=n)
        assert stream.run(dedup=True) == ""
        for n in range(sources):
            stream.put(batches, batches + 1, source=n)
        assert "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA" in stream.run(dedup=False)
    report = inspect_checkpoint(stream.flow)
    assert (report.last_committed, report.last_planned) == (batches - 1, batches)
    assert [len(s.planned) for s in report.sources] == [1] * sources

    seed_next(stream)

    assert stream.run(dedup=False) == ""
    assert stream.rows() == sorted(k for n in range(sources) for k in keys(*range(batches + 2), source=n))
    first = json.loads((stream.checkpoint / "offsets" / str(batches)).read_text().split("\n")[2])
    assert first["logOffset"] == batches
    after = inspect_checkpoint(stream.flow, sink=stream.table)
    assert (after.last_committed, after.findings) == (batches + 1, ())
    stream.put(batches + 2)
    assert stream.run(dedup=False) == ""
    assert keys(batches + 2)[0] in stream.rows()


def test_a_log_whose_interval_was_configured_is_cut_so_that_any_spark_reads_it(
    spark: Any, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path)
    with conf(spark, fileSource__log__compactInterval="12"):
        stream.put(*range(11))
        assert stream.run(dedup=True) == ""
        stream.put(11)
        assert stream.run(dedup=False) != ""
    assert (stream.checkpoint / "sources/0/11.compact").exists()
    seed_next(stream)
    assert [p.name for p in (stream.checkpoint / "sources/0").iterdir()] == ["10.compact"]
    assert stream.run(dedup=False) == ""
    stream.put(12, 13)
    assert stream.run(dedup=False) == ""
    assert stream.rows() == keys(*range(14))


def test_a_union_whose_second_source_has_read_nothing_yet_is_seeded(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, sources=2)
    stream.put(0, 1)
    stream.input(1)
    assert stream.run(dedup=True) == ""
    stream.put(2, source=1)
    assert stream.run(dedup=False) != ""
    assert [s.offset_json for s in inspect_checkpoint(stream.flow).sources] == ['{"logOffset":1}', None]
    seed_next(stream)
    assert stream.run(dedup=False) == ""
    assert stream.rows() == sorted(keys(0, 1) + keys(2, source=1))


def test_newer_formats_of_offsets_and_commits_are_seeded(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.put(0, 1, 2)
    with conf(
        spark,
        offsetLog__formatVersion="2",
        stateStore__checkpointFormatVersion="2",
        stateStore__providerClass="org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    ):
        assert stream.run(dedup=True) == ""
        stream.put(3)
        assert stream.run(dedup=False) != ""
        seed_next(stream)
        assert stream.run(dedup=False) == ""
    assert stream.rows() == keys(0, 1, 2, 3)
    assert (stream.checkpoint / "offsets/3").read_text().startswith("v2\n")


def test_undo_gives_the_old_version_back_until_a_batch_is_committed(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.put(0, 1)
    assert stream.run(dedup=True) == ""
    seed_next(stream)
    head = sink_files.read_table_report(stream.table).head
    assert seed.undo_refusal(stream.flow, recovery="R-1", sink_head=head) is None
    seed.undo_publish(stream.flow, recovery="R-1", sink_head=head)
    stream.version = 0
    stream.put(2)
    assert stream.run(dedup=True) == ""
    seed_next(stream, "R-2")
    stream.put(3)
    assert stream.run(dedup=False) == ""
    reason = seed.undo_refusal(
        stream.flow, recovery="R-2", sink_head=sink_files.read_table_report(stream.table).head
    )
    assert reason is not None
    assert "Batch 3 was committed in version 1" in reason
    assert stream.rows() == keys(0, 1, 2, 3)


def test_waiting_files_are_listed_in_the_order_in_which_spark_reads_them(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.put(5)
    assert stream.run(dedup=False) == ""
    for n in range(40):  # the same mtime: the order of the listing decides
        (stream.input() / f"tie {n * 7919 % 97:02d}.json").write_text('{"k": 1, "v": 1}\n')
        os.utime(stream.input() / f"tie {n * 7919 % 97:02d}.json", (EPOCH + 9, EPOCH + 9))
    stream.put(8, 7)
    facts = source_facts(
        inspect_checkpoint(stream.flow).sources[0],
        list_files(str(stream.input()), options={}),
        location=str(stream.input()),
        max_files_per_trigger=None,
    )
    assert stream.run(dedup=False, max_files=None) == ""
    after = inspect_checkpoint(stream.flow).sources[0].committed
    facts_after = source_facts(
        inspect_checkpoint(stream.flow).sources[0],
        list_files(str(stream.input()), options={}),
        location=str(stream.input()),
        max_files_per_trigger=None,
    )
    assert len(after) == 43
    assert [f.path for f in facts_after.processed[1:]] == [f.path for f in facts.waiting]
    assert facts_after.waiting == ()
    assert facts_after.position.label == f"file 43 of 43, {facts.waiting[-1].path.rsplit('/', 1)[-1]}"


@pytest.mark.parametrize("listed", LISTED, ids=[listed.name for listed in LISTED])
def test_a_listing_is_spark_s_own(spark: Any, tmp_path: Path, listed: ListedInput) -> None:
    put_files(tmp_path)
    where = f"{tmp_path}/{listed.path}"
    query = (
        spark.readStream.schema("k long")
        .format("json")
        .options(**listed.options)
        .load(where)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "ck"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    facts = source_facts(
        inspect_checkpoint(str(tmp_path / "ck")).sources[0],
        list_files(where, options=listed.options),
        location=where,
        max_files_per_trigger=None,
    )
    assert [f.path.removeprefix(f"file://{tmp_path}/") for f in facts.processed] == list(listed.files)
    assert (facts.gone, facts.waiting) == ((), ())
