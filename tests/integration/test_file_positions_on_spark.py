"""Positions of a file source that were made up, and what real Spark then read: the forecast, to the row."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect_checkpoint, seed
from recovery.checkpoints.uris import decode_uri
from recovery.sources import files
from recovery.sources.base import StartChoice
from recovery.sources.file_facts import facts_of, list_unread
from recovery.sources.live.files import list_files
from tests.state_checkpoints import session
from tests.unit.checkpoints.seeding import free

pytestmark = pytest.mark.spark

EPOCH_S = 1_790_000_000
DAY_S = 86_400
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

    def put_at(self, **days: int) -> None:
        """Files by name, `x_0` is `d=x/0`, with one row each that holds the name's number."""
        for name, day in days.items():
            file = (
                self.source
                / "/".join(f"d={part}" for part in name.split("_")[:-1] if part)
                / name.split("_")[-1]
            )
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps({"f": int(name.split("_")[-1]), "r": day}))
            os.utime(file, (EPOCH_S + day * DAY_S, EPOCH_S + day * DAY_S))

    def run(self, checkpoint: Path) -> list[int]:
        """Numbers of the files read, one for every row."""
        return sorted(row.f for rows in self.batches(checkpoint, {"maxFilesPerTrigger": "3"}) for row in rows)

    def batches(self, checkpoint: Path, options: dict[str, str]) -> list[list[Any]]:
        """The rows that each batch hands over."""
        seen: list[list[Any]] = []
        reader = self.spark.readStream.schema("f int, r int").options(**options)
        query = (
            reader.json(str(self.source))
            .writeStream.foreachBatch(lambda frame, _: seen.append(frame.collect()))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return seen


def placed(place: Path, to: files.FileCandidate) -> None:
    """Put a seed at a candidate's position in the place of the checkpoint."""
    held = {decode_uri(e.path) for e in to.read}
    committed = [decode_uri(e.path) for e in inspect_checkpoint(str(place)).sources[0].committed]
    start = seed.SourceStart(
        0,
        0,
        to.offset_json,
        again=tuple(path for path in committed if path not in held),
        skip=tuple(e for e in to.read if decode_uri(e.path) not in committed),
    )
    plan = seed.plan_seed(inspect_checkpoint(str(place)), starts=[start])
    ready = seed.prepare_seed(str(place), plan, recovery="R-1", fence=1, guard=free)
    seed.publish_checkpoint(str(place), ready, guard=free)


CASES = {
    "after a file in the midst of a batch": StartChoice(file="part 04.json"),
    "after a file that waits": StartChoice(file="part 08.json"),
    "at a second that two files share": StartChoice(at_ms=(EPOCH_S + 2) * 1000),
    "the earliest": StartChoice(earliest=True),
    "the latest": StartChoice(latest=True),
    "where it stood": StartChoice(by_hand='{"logOffset":1}'),
    "a log entry earlier": StartChoice(by_hand='{"logOffset":0}'),
}


@pytest.mark.parametrize("wanted", CASES.values(), ids=CASES.keys())
def test_spark_reads_what_was_forecast(spark: Any, tmp_path: Path, wanted: StartChoice) -> None:
    flow = Flow(spark, tmp_path)
    flow.put(*range(6))
    old = tmp_path / "old"
    assert flow.run(old) == sorted(list(range(6)) * ROWS)
    flow.put(6, 7, 8, 9)
    progress = inspect_checkpoint(str(old)).sources[0]
    there = list_files(str(flow.source), options={})
    facts = facts_of(progress, there, asked_ms=(EPOCH_S + 99) * 1000, rows={f.path: ROWS for f in there})
    if wanted.file:
        wanted = StartChoice(file=str(flow.source / wanted.file))
    to = files.find_position(wanted, progress.offset_json, facts)
    placed(old, to)
    read = flow.run(old)
    assert to.lost.rows is not None
    assert to.reread.rows is not None
    again, new = [n for n in read if n < 6], [n for n in read if n >= 6]
    assert (len(again), 4 * ROWS - len(new)) == (to.reread.rows.value, to.lost.rows.value)


FIRST, ONE = {"latestFirst": "true", "maxFilesPerTrigger": "1"}, {"maxFilesPerTrigger": "1"}
# days of the files that are read first, days of what is written then, and (number, day) of the rows that come then
OPTIONS: dict[str, tuple[dict[str, int], dict[str, int], dict[str, str], list[tuple[int, int]]]] = {
    "written again, and forgotten": ({"_0": 0, "_1": 29}, {"_0": 30}, {}, [(0, 30)]),
    "written again, and still known": ({"_0": 25, "_1": 29}, {"_0": 30}, {}, []),
    "forgotten in the midst of an update": ({"_0": 0}, {"_0": 20, "_1": 10}, {}, [(1, 10), (0, 20)]),
    "written again too long ago": ({"_0": 0, "_1": 29}, {"_0": 20}, {}, []),
    "the newest first": ({"_0": 50}, {"_1": 1, "_2": 2, "_3": 3}, FIRST, [(3, 3), (2, 2), (1, 1)]),
    "the oldest first": ({"_0": 0}, {"_1": 1, "_2": 2, "_3": 3}, ONE, [(1, 1), (2, 2), (3, 3)]),
    "known by its name alone": ({"a_0": 0}, {"b_0": 1, "b_1": 1}, {"fileNameOnly": "true"}, [(1, 1)]),
}


@pytest.mark.parametrize(("before", "after", "options", "rows"), OPTIONS.values(), ids=OPTIONS.keys())
def test_spark_takes_the_files_that_were_said_to_wait_in_that_order(
    spark: Any,
    tmp_path: Path,
    before: dict[str, int],
    after: dict[str, int],
    options: dict[str, str],
    rows: list[tuple[int, int]],
) -> None:
    flow, place = Flow(spark, tmp_path), tmp_path / "ck"
    flow.put_at(**before)
    flow.batches(place, options)
    flow.put_at(**after)
    progress = inspect_checkpoint(str(place)).sources[0]
    facts = facts_of(progress, list_files(str(flow.source), options={}), options=options)
    waits = list_unread(facts.entries, facts)
    assert waits.unsure == ""
    assert [int(f.path[-1]) for f in waits.new] == [number for number, _ in rows]
    read = [(row.f, row.r) for batch in flow.batches(place, options) for row in batch]
    assert read == rows


@pytest.mark.parametrize("option", ["modifiedAfter", "modifiedBefore"])
def test_spark_refuses_a_start_option_for_files(spark: Any, tmp_path: Path, option: str) -> None:
    flow = Flow(spark, tmp_path)
    flow.put(0)
    reader = spark.readStream.schema("f int").option(option, "2026-01-01T00:00:00")
    with pytest.raises(Exception, match="not allowed in file stream sources"):
        reader.json(str(flow.source)).writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path / "ck")
        ).trigger(availableNow=True).start().awaitTermination()
    assert not files.find_start_option(None, files.FileSourceFacts()).supported
