"""Positions of a file source that were made up, and what real Spark then read: the forecast, to the row."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect, seed
from recovery.checkpoints.uris import decoded
from recovery.sources import files
from recovery.sources.base import Wanted
from recovery.sources.file_facts import facts_of
from recovery.sources.live.files import listing
from tests.state_checkpoints import session
from tests.unit.checkpoints.seeding import free

pytestmark = pytest.mark.spark

EPOCH_S = 1_790_000_000
ROWS = 3  # of every file


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    opened = session(tmp_path_factory.mktemp("warehouse"))
    yield opened
    opened.stop()


class Flow:
    """JSON files, two to a batch; what a run hands over is collected by file name."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root, self.source = spark, root, root / "in"
        self.source.mkdir()

    def put(self, *numbers: int) -> None:
        for n in numbers:
            file = self.source / f"part {n:02d}.json"
            file.write_text("".join(json.dumps({"f": n, "r": r}) + "\n" for r in range(ROWS)))
            os.utime(file, (EPOCH_S + n // 2, EPOCH_S + n // 2))  # two files share each second

    def run(self, checkpoint: Path) -> list[int]:
        """Numbers of the files read, one for every row."""
        seen: list[int] = []
        reader = self.spark.readStream.schema("f int, r int").option("maxFilesPerTrigger", 3)
        query = (
            reader.json(str(self.source))
            .writeStream.foreachBatch(lambda frame, _: seen.extend(row.f for row in frame.collect()))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(seen)


def placed(place: Path, to: files.FileCandidate) -> None:
    """Put a seed at a candidate's position in the place of the checkpoint."""
    held = {decoded(e.path) for e in to.read}
    committed = [decoded(e.path) for e in inspect(str(place)).sources[0].committed]
    start = seed.SourceStart(
        0,
        0,
        to.offset_json,
        again=tuple(path for path in committed if path not in held),
        skip=tuple(e for e in to.read if decoded(e.path) not in committed),
    )
    plan = seed.plan_seed(inspect(str(place)), starts=[start])
    ready = seed.prepare(str(place), plan, recovery="R-1", fence=1, guard=free)
    seed.publish(str(place), ready, guard=free)


CASES = {
    "after a file in the midst of a batch": Wanted(file="part 04.json"),
    "after a file that waits": Wanted(file="part 08.json"),
    "at a second that two files share": Wanted(at_ms=(EPOCH_S + 2) * 1000),
    "the earliest": Wanted(earliest=True),
    "the latest": Wanted(latest=True),
    "where it stood": Wanted(by_hand='{"logOffset":1}'),
    "a log entry earlier": Wanted(by_hand='{"logOffset":0}'),
}


@pytest.mark.parametrize("wanted", CASES.values(), ids=CASES.keys())
def test_spark_reads_what_was_forecast(spark: Any, tmp_path: Path, wanted: Wanted) -> None:
    flow = Flow(spark, tmp_path)
    flow.put(*range(6))
    old = tmp_path / "old"
    assert flow.run(old) == sorted(list(range(6)) * ROWS)
    flow.put(6, 7, 8, 9)
    progress = inspect(str(old)).sources[0]
    there = listing(str(flow.source), options={})
    facts = facts_of(progress, there, asked_ms=(EPOCH_S + 99) * 1000, rows={f.path: ROWS for f in there})
    if wanted.file:
        wanted = Wanted(file=str(flow.source / wanted.file))
    to = files.at(wanted, progress.offset_json, facts)
    placed(old, to)
    read = flow.run(old)
    assert to.lost.rows is not None
    assert to.reread.rows is not None
    again, new = [n for n in read if n < 6], [n for n in read if n >= 6]
    assert (len(again), 4 * ROWS - len(new)) == (to.reread.rows.value, to.lost.rows.value)


@pytest.mark.parametrize("option", ["modifiedAfter", "modifiedBefore"])
def test_spark_refuses_a_start_option_for_files(spark: Any, tmp_path: Path, option: str) -> None:
    flow = Flow(spark, tmp_path)
    flow.put(0)
    reader = spark.readStream.schema("f int").option(option, "2026-01-01T00:00:00")
    with pytest.raises(Exception, match="not allowed in file stream sources"):
        reader.json(str(flow.source)).writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path / "ck")
        ).trigger(availableNow=True).start().awaitTermination()
    assert not files.option(None, files.Facts()).supported
