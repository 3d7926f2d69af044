"""Positions of a file source that were made up, and what real Spark then read: the forecast, to the row."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import filelog, inspect
from recovery.sources import files
from recovery.sources.base import Wanted
from recovery.sources.file_facts import facts_of
from recovery.sources.live.files import listing
from tests.state_checkpoints import session

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


def placed(flow: Flow, old: Path, to: files.FileCandidate) -> Path:
    """A checkpoint without state at a candidate's position, as a seed would write it."""
    new = flow.root / "new"
    report = inspect(str(old))
    at = report.last_committed or 0
    header = (old / f"offsets/{at}").read_text().splitlines()[:2]
    for name in ("offsets", "commits", "sources/0"):
        (new / name).mkdir(parents=True)
    for batch in (at - 1, at):
        (new / f"offsets/{batch}").write_text("\n".join([*header, to.offset_json]))
    shutil.copy(old / f"commits/{at}", new / f"commits/{at}")
    (new / "metadata").write_text(json.dumps({"id": "5b1c6c1e-92a5-4f0a-9d54-3a8f2f0c7a11"}))
    reached = json.loads(to.offset_json)["logOffset"]
    if to.read:
        (new / f"sources/0/{reached}.compact").write_bytes(filelog.source_lines(to.read))
    return new


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
    read = flow.run(placed(flow, old, to))
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
