"""What goes wrong between queries: renamed flows, flows of one file table, one checkpoint for two.

A story runs queries, predicts from what they left (and from what their definitions say, where that is what tells),
runs once more, and counts rows. What the queries left is kept beside the bases, so that it is judged without Spark.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.location_checks import find_shared_locations
from recovery.checkpoints.report import CheckpointReport, Finding, Outcome
from recovery.checkpoints.sinklog import several_writers
from recovery.checkpoints.survey import survey_root
from tests.damages import frozen, recipes
from tests.damages.bases import BASES, Base, Place, Rows, run, settings
from tests.damages.bases_more import MORE, read_each
from tests.damages.judge import Judged, Prediction, counted, digest_of, said

TABLE = "_checkpoints/cat/db/orders"
FILES, CALLS = BASES["files to a file table"], MORE["foreachBatch"]


@dataclass(frozen=True)
class StoryEnd:
    """`failure` and `rows` of the run after the prediction; the rows that were `right`."""

    failure: str
    rows: Rows
    right: Rows


@dataclass(frozen=True)
class Story:
    """`lead` runs what came before on Spark, `find` predicts from the files, `end` runs once more."""

    name: str
    base: str
    lead: Callable[[Any, Path], None]
    find: Callable[[Path], Sequence[Finding]]
    end: Callable[[Any, Path], StoryEnd]
    untold: str = ""

    @property
    def recipe(self) -> str:
        """Digest of what came before."""
        return recipes.of_code(self.lead, self.end)

    def foretell(self, root: Path) -> Prediction:
        """What is predicted of the files at `root`."""
        findings = tuple(self.find(root))
        worst = CheckpointReport("", "", None, None, None, None, findings=findings).outcome
        codes = tuple(sorted({f.code for f in findings}))
        return Prediction(self.name, self.base, (), codes, worst.value, digest_of(Place(root)))

    def judge(self, spark: Any, root: Path, *, record: bool) -> Judged:
        """Run the whole story in a directory; when recording, keep what is there when it is predicted."""
        self.lead(spark, root)
        if record:
            frozen.keep(self.name, frozen.take(root), self.recipe)
        prediction = self.foretell(root)
        end = self.end(spark, root)
        outcome, detail = counted(end.rows, end.right)
        if end.failure:
            outcome, detail = Outcome.FAILS, said(end.failure, Place(root))
        return Judged(**vars(prediction), outcome=outcome.value, detail=detail)


def _ran(spark: Any, place: Place, base: Base, max_files: int | None = 1) -> None:
    failure = run(spark, place, base, max_files=max_files, conf={})
    assert failure == "", failure


def old_and_new(root: Path) -> tuple[Place, Place]:
    return Place(root, f"{TABLE}/old"), Place(root, f"{TABLE}/new")


def one_and_other(root: Path) -> tuple[Place, Place]:
    return Place(root, f"{TABLE}/one"), Place(root, f"{TABLE}/other")


def rename(spark: Any, root: Path) -> None:
    """The new name begins again with batch 0; all its batches that the table has are skipped."""
    old, new = old_and_new(root)
    old.put(0, 1, 2)
    _ran(spark, old, FILES)
    old.put(3)
    _ran(spark, new, FILES, None)  # batch 0, skipped: row 3 is lost already
    old.put(4)


def move_to_the_new_name(spark: Any, root: Path) -> None:
    """What the finding asks for, in time: the directory goes along with the name."""
    old, new = old_and_new(root)
    old.put(0, 1, 2)
    _ran(spark, old, FILES)
    old.flow.rename(new.flow)
    old.put(3)


def find_in_new(root: Path) -> Sequence[Finding]:
    _, new = old_and_new(root)
    return [
        *survey_root(str(root)).findings,
        *inspect_checkpoint(str(new.flow), sink=str(new.table)).findings,
    ]


def run_new(*right: int) -> Callable[[Any, Path], StoryEnd]:
    def end(spark: Any, root: Path) -> StoryEnd:
        _, new = old_and_new(root)
        failure = run(spark, new, FILES, max_files=None, conf={})
        return StoryEnd(failure, FILES.read(spark, new), Counter(right))

    return end


def read_one_input_twice(spark: Any, root: Path) -> None:
    """Two flows that read the same files for good: neither is the other's old name."""
    one, other = one_and_other(root)
    one.put(0, 1)
    for numbers in ((2,), (3,)):
        for place in (one, other):
            _ran(spark, place, CALLS)
        one.put(*numbers)


def find_in_other(root: Path) -> Sequence[Finding]:
    _, other = one_and_other(root)
    return [*survey_root(str(root)).findings, *inspect_checkpoint(str(other.flow)).findings]


def run_both_calls(spark: Any, root: Path) -> StoryEnd:
    one, other = one_and_other(root)
    for place in (one, other):
        _ran(spark, place, CALLS)
    return StoryEnd("", read_each(spark, one), Counter([0, 1, 2, 3] * 2))


def write_one_table_twice(spark: Any, root: Path) -> None:
    """Each counts its own batches from 0, and the table takes each number once."""
    one, other = one_and_other(root)
    one.put(0, 1)
    _ran(spark, one, FILES)
    _ran(spark, other, FILES)
    one.put(2)


def find_in_definitions_of_tables(root: Path) -> Sequence[Finding]:
    one, other = one_and_other(root)
    several = several_writers(str(one.table), {"one": str(one.table), "other": str(other.table)})
    return [several] if several else []


def run_both_files(spark: Any, root: Path) -> StoryEnd:
    one, other = one_and_other(root)
    before = FILES.read(spark, one)
    for place in (one, other):
        _ran(spark, place, FILES)
    return StoryEnd("", FILES.read(spark, one), before + Counter((2, 2)))


def put_one(spark: Any, root: Path) -> None:
    Place(root).put(0)


def find_in_definitions_of_queries(root: Path) -> Sequence[Finding]:
    place = Place(root)
    return find_shared_locations({"one": str(place.checkpoint), "other": f"file://{place.checkpoint}"})


def run_two_queries_on_one_checkpoint(spark: Any, root: Path) -> StoryEnd:
    """The second finds the first at work in the same session's JVM."""
    place = Place(root)
    writer = CALLS.query(spark, place, 1).option("checkpointLocation", str(place.checkpoint))
    first = writer.start()
    try:
        first.processAllAvailable()
        with settings(spark, {"stopActiveRunOnRestart": "false"}):
            failure = run(spark, place, CALLS, conf={})
    finally:
        first.stop()
    return StoryEnd(failure, read_each(spark, place), Counter((0,)))


_FILES, _CALLS = "files to a file table", "foreachBatch"
STORIES = [
    Story("a flow was renamed", _FILES, rename, find_in_new, run_new(0, 1, 2, 4)),
    Story(
        "a flow was renamed, and its checkpoint with it",
        _FILES,
        move_to_the_new_name,
        find_in_new,
        run_new(0, 1, 2, 3),
    ),
    Story(
        "two flows of one table read the same input",
        _CALLS,
        read_one_input_twice,
        find_in_other,
        run_both_calls,
    ),
    Story(
        "two flows write one file table",
        _FILES,
        write_one_table_twice,
        find_in_definitions_of_tables,
        run_both_files,
    ),
    Story(
        "two queries use one checkpoint",
        _CALLS,
        put_one,
        find_in_definitions_of_queries,
        run_two_queries_on_one_checkpoint,
    ),
]
