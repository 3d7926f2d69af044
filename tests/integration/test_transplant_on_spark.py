"""State that real Spark wrote, carried to another checkpoint: it goes on with exactly the right rows."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect_checkpoint, publishing, repair, seed, transplant
from recovery.checkpoints.uris import encode_uri
from recovery.errors import Refused
from recovery.sources.live.files import list_files
from tests.damages.hands import remove, write
from tests.integration.test_checkpoints_on_spark import EPOCH, Stream, conf, keys, seed_next
from tests.skeletons import lay_skeleton_of
from tests.state_checkpoints import session

pytestmark = pytest.mark.spark

ROCKSDB = {
    "stateStore__providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
}
LAYOUTS = {
    "HDFS": {},
    "RocksDB": ROCKSDB,
    "RocksDB, format 2": {**ROCKSDB, "stateStore__checkpointFormatVersion": "2"},
}
layouts = pytest.mark.parametrize("settings", LAYOUTS.values(), ids=LAYOUTS.keys())


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of this process: foreachBatch hands its rows over here."""
    opened = session(tmp_path_factory.mktemp("warehouse"))
    yield opened
    opened.stop()


def free() -> None:
    """A guard that always lets pass."""


def dedup(frame: Any) -> Any:
    return frame.dropDuplicates(["k"])


def plain(frame: Any) -> Any:
    return frame


@dataclass
class Flow:
    """JSON files -> foreachBatch: what a run hands over is what counts, whatever the batch's number."""

    spark: Any
    root: Path
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return str(self.root / "flow")

    def checkpoint(self) -> Path:
        return (
            Path(inspect_checkpoint(self.place).location)
            if (self.root / "flow").exists()
            else self.root / "flow/0"
        )

    def put(self, *rows: tuple[int, list[int]], folder: str = "in") -> None:
        """(number of the file, its keys) each."""
        where = self.root / folder
        where.mkdir(parents=True, exist_ok=True)
        for number, held in rows:
            file = where / f"part {number:03d}.json"
            file.write_text("".join(json.dumps({"k": k}) + "\n" for k in held))
            os.utime(file, (EPOCH + number, EPOCH + number))

    def run(
        self,
        query: Callable[[Any], Any],
        *,
        checkpoint: Path | None = None,
        folder: str = "in",
        at_once: bool = False,
        mode: str = "append",
    ) -> list[int]:
        """One update over all that is there: the keys that came out, sorted. Raises what Spark raises."""
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        out: list[int] = []

        def take(batch: Any, number: int) -> None:
            out.extend(row.k for row in batch.collect())

        with conf(self.spark, **self.settings):
            reader = self.spark.readStream.schema("k long")
            if not at_once:
                reader = reader.option("maxFilesPerTrigger", 1)
            writer = (
                query(reader.json(str(self.root / folder))).writeStream.foreachBatch(take).outputMode(mode)
            )
            where = str(checkpoint or self.checkpoint())
            writer.option("checkpointLocation", where).trigger(availableNow=True).start().awaitTermination()
        return sorted(out)


def put_in_place(flow: Flow, plan: Any) -> None:
    makers = {repair.RepairPlan: repair.prepare_repair, seed.SeedPlan: seed.prepare_seed}
    make = makers.get(type(plan), transplant.prepare_layout)
    ready = make(flow.place, plan, recovery="R-1", fence=1, guard=free)
    publishing.publish_checkpoint(flow.place, ready, guard=free)


@layouts
def test_a_query_that_gets_its_first_state_goes_on_with_empty_state(
    spark: Any, tmp_path: Path, settings: dict[str, str]
) -> None:
    flow, scratch = Flow(spark, tmp_path, settings), tmp_path / "scratch"
    flow.put((0, [1]), (1, [2]), (2, [3]))
    assert flow.run(plain) == [1, 2, 3]
    lay_skeleton_of(flow.place, scratch)
    assert flow.run(dedup, checkpoint=scratch, folder="nothing") == []
    put_in_place(flow, seed.plan_seed(inspect_checkpoint(flow.place), state=str(scratch)))
    flow.put((3, [4, 4, 1]), (4, [4, 5]))
    assert flow.run(dedup) == [1, 4, 5], "1 is new to the empty state, 4 comes once"
    flow.put((5, [5, 6]))
    assert flow.run(dedup) == [6]
    assert inspect_checkpoint(flow.place).findings == ()


@layouts
def test_state_rebuilt_by_a_replay_knows_every_key_that_was_processed(
    spark: Any, tmp_path: Path, settings: dict[str, str]
) -> None:
    flow, scratch = Flow(spark, tmp_path, settings), tmp_path / "scratch"
    flow.put((0, [1]), (1, [2]), (2, [3]))
    assert flow.run(plain) == [1, 2, 3]
    shutil.copytree(tmp_path / "in", tmp_path / "replayed")
    assert flow.run(dedup, checkpoint=scratch, folder="replayed", at_once=True) == [1, 2, 3]
    put_in_place(flow, seed.plan_seed(inspect_checkpoint(flow.place), state=str(scratch)))
    flow.put((3, [4, 1, 2, 3]), (4, [4, 5]))
    assert flow.run(dedup) == [4, 5]
    assert inspect_checkpoint(flow.place).findings == ()


def test_state_of_several_replayed_batches_is_carried_with_its_chain(spark: Any, tmp_path: Path) -> None:
    flow, scratch = Flow(spark, tmp_path), tmp_path / "scratch"
    flow.put((0, [1]), (1, [2]), (2, [3]), (3, [4]), (4, [5]))
    assert flow.run(plain) == [1, 2, 3, 4, 5]
    flow.put((0, [1, 2, 3]), (1, [4]), (2, [5]), folder="replayed")
    assert flow.run(dedup, checkpoint=scratch, folder="replayed") == [1, 2, 3, 4, 5]
    put_in_place(flow, seed.plan_seed(inspect_checkpoint(flow.place), state=str(scratch)))
    flow.put((5, [1, 2, 3, 4, 5, 6]))
    assert flow.run(dedup) == [6]


@layouts
def test_a_rollback_reads_the_later_files_again_with_the_state_of_then(
    spark: Any, tmp_path: Path, settings: dict[str, str]
) -> None:
    flow = Flow(spark, tmp_path, settings)
    flow.put((0, [1]), (1, [1, 2]), (2, [3]), (3, [2, 4]), (4, [5]))
    assert flow.run(dedup) == [1, 2, 3, 4, 5]
    put_in_place(flow, transplant.plan_rollback(flow.place, 2))
    assert inspect_checkpoint(flow.place).last_committed == 2
    flow.put((5, [1, 4, 6]))
    assert flow.run(dedup) == [4, 5, 6]
    assert inspect_checkpoint(flow.place).findings == ()


def test_a_batch_whose_state_is_gone_cannot_be_gone_back_to(spark: Any, tmp_path: Path) -> None:
    flow = Flow(spark, tmp_path)
    flow.put((0, [1]), (1, [2]), (2, [3]))
    flow.run(dedup)
    remove(flow.checkpoint() / "state/0/1/1.delta")
    with pytest.raises(Refused, match=r"cannot be loaded from state/0/1/1\.delta: it is missing"):
        transplant.plan_rollback(flow.place, 1)
    with pytest.raises(Refused, match="Batch 7 cannot be gone back to"):
        transplant.plan_rollback(flow.place, 7)


DAMAGES: list[tuple[str, Callable[[Path], object], bool]] = [
    # what is damaged, how, does a batch wait that was planned and not committed
    ("metadata", lambda c: remove(c / "metadata"), False),
    ("the neighbour offset", lambda c: remove(c / "offsets/1"), False),
    ("the newest offset", lambda c: remove(c / "offsets/2"), False),
    ("the newest commit", lambda c: write(c / "commits/2", ""), False),
    ("the last committed offset", lambda c: remove(c / "offsets/2"), True),
    ("a half planned offset", lambda c: write(c / "offsets/3", "v1\n{"), True),
    ("a planned log entry", lambda c: remove(c / "sources/0/3"), True),
    ("operator metadata", lambda c: [remove(c / "state/0/_metadata"), remove(c / "metadata")], False),
    ("a stray", lambda c: shutil.copy(c / "offsets/2", c / "offsets/10"), False),
    ("a log entry", lambda c: write(c / "sources/0/1", "v1"), False),
]


@pytest.mark.parametrize(("damage", "planned"), [d[1:] for d in DAMAGES], ids=[d[0] for d in DAMAGES])
def test_a_mended_checkpoint_goes_on_with_its_state_and_reads_each_file_once(
    spark: Any, tmp_path: Path, damage: Callable[[Path], object], planned: bool
) -> None:
    flow = Flow(spark, tmp_path)
    flow.put((0, [1]), (1, [2]), (2, [3]))
    assert flow.run(dedup) == [1, 2, 3]
    flow.put((3, [3, 4]), (4, [5, 1]))
    if planned:
        with pytest.raises(Exception, match="STREAMING_STATEFUL_OPERATOR_NOT_MATCH"):
            flow.run(plain)
    damage(flow.checkpoint())
    files = sorted((tmp_path / "in").iterdir())
    there = repair.ListedInput(
        tuple((f"file://{f}".replace(" ", "%20"), f.stat().st_mtime_ns // 10**6) for f in files[:3]), 1
    )
    known = repair.KnownFacts(
        new_query_id="11111111-1111-4111-8111-111111111111",
        sink_kind="files",
        sink_head=2,
        listings={"0": there},
    )
    plan = repair.plan_repair(flow.place, known)
    assert plan.complete, plan.left
    put_in_place(flow, plan)
    assert flow.run(dedup) == [4, 5]
    assert inspect_checkpoint(flow.place).findings == ()


def test_an_inferred_entry_names_its_files_in_the_bytes_that_spark_wrote(spark: Any, tmp_path: Path) -> None:
    flow = Flow(spark, tmp_path)
    (tmp_path / "in").mkdir()
    for number, name in enumerate(("50% [1]#a.json", "Zürich 東京+&;,.json", "k=1 (b)'~!@$.json")):
        file = tmp_path / "in" / name
        file.write_text(json.dumps({"k": number}) + "\n")
        os.utime(file, (EPOCH, EPOCH))
    assert flow.run(dedup, at_once=True) == [0, 1, 2]
    sound = {e.path for e in inspect_checkpoint(flow.place).sources[0].committed}
    flow.put((9, [9]))
    assert flow.run(dedup) == [9]
    write(flow.checkpoint() / "sources/0/0", "v1")
    there = tuple((encode_uri(f.path), f.mtime_ms) for f in list_files(str(tmp_path / "in"), options={}))
    plan = repair.plan_repair(flow.place, repair.KnownFacts(listings={"0": repair.ListedInput(there)}))
    assert {e.path for e in plan.after.sources[0].committed if e.batch_id == 0} == sound
    put_in_place(flow, plan)
    flow.put((10, [0, 1, 2, 10]))
    assert flow.run(dedup) == [10]


def counted(frame: Any) -> Any:
    from collections.abc import Iterator

    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    class Counting(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.seen = handle.getValueState("seen", "n long")

        def handleInputRows(
            self, key: Any, rows: Iterator[pd.DataFrame], timers: Any
        ) -> Iterator[pd.DataFrame]:
            before = self.seen.get()[0] if self.seen.exists() else 0
            total = before + sum(len(r) for r in rows)
            self.seen.update((total,))
            yield pd.DataFrame({"k": [key[0] * 100 + total]})

        def close(self) -> None:
            """Nothing is held open."""

    return frame.groupBy("k").transformWithStateInPandas(
        statefulProcessor=Counting(), outputStructType="k long", outputMode="Update", timeMode="None"
    )


def test_transform_with_state_finds_its_schemas_after_a_move(spark: Any, tmp_path: Path) -> None:
    flow = Flow(spark, tmp_path, ROCKSDB)
    flow.put((0, [1]), (1, [2]))
    assert flow.run(counted, mode="update") == [101, 201]
    (tmp_path / "flow/0").rename(tmp_path / "moved")
    (tmp_path / "moved").rename(tmp_path / "flow/5")
    flow.put((2, [1]))
    plan = repair.plan_repair(flow.place, repair.KnownFacts())
    assert [m.code for m in plan.mendings] == ["STATE_SCHEMA_ELSEWHERE"]
    put_in_place(flow, plan)
    assert flow.run(counted, mode="update") == [102]


@pytest.mark.parametrize("batches", [2, 3, 11])
def test_a_seed_goes_on_after_a_batch_that_only_the_table_has_finished(
    spark: Any, tmp_path: Path, batches: int
) -> None:
    """A crash between the table's log and the commit file; then the code changes, and Spark refuses it."""
    stream = Stream(spark, tmp_path)
    stream.put(*range(batches))
    assert stream.run(dedup=True) == ""
    remove(stream.checkpoint / f"commits/{batches - 1}")
    stream.put(batches, batches + 1)
    assert "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA" in stream.run(dedup=False)
    seed_next(stream)
    assert stream.run(dedup=False) == ""
    assert stream.rows() == keys(*range(batches + 2))
    assert inspect_checkpoint(stream.flow, sink=stream.table).findings == ()
