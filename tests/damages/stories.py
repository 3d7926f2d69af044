"""What goes wrong between queries: renamed flows, flows of one file table, one checkpoint for two.

A story runs queries, predicts from what they left (and from what their definitions say, where that is what tells),
runs once more, and counts rows.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recovery.checkpoints import inspect
from recovery.checkpoints.place import shared
from recovery.checkpoints.report import CheckpointReport, Finding, Outcome
from recovery.checkpoints.sinklog import several_writers
from recovery.checkpoints.survey import survey
from tests.damages.bases import BASES, Base, Place, Rows, run, settings
from tests.damages.bases_more import MORE, read_each
from tests.damages.judge import Judged, counted, said

TABLE = "_checkpoints/cat/db/orders"
FILES, CALLS = BASES["files to a file table"], MORE["foreachBatch"]


@dataclass(frozen=True)
class Told:
    """`findings` of the prediction; `failure` and `rows` of the run after it; the rows that were `right`."""

    findings: Sequence[Finding]
    failure: str
    rows: Rows
    right: Rows


@dataclass(frozen=True)
class Story:
    name: str
    base: str
    act: Callable[[Any, Path], Told]
    untold: str = ""

    def tell(self, spark: Any, root: Path) -> Judged:
        told = self.act(spark, root)
        worst = CheckpointReport("", "", None, None, None, None, findings=tuple(told.findings)).outcome
        outcome, detail = counted(told.rows, told.right)
        if told.failure:
            outcome, detail = Outcome.FAILS, said(told.failure, Place(root))
        codes = tuple(sorted({f.code for f in told.findings}))
        return Judged(self.name, self.base, (), codes, worst.value, outcome.value, detail)


def _ran(spark: Any, place: Place, base: Base, max_files: int | None = 1) -> None:
    failure = run(spark, place, base, max_files=max_files, conf={})
    assert failure == "", failure


def renamed(spark: Any, root: Path) -> Told:
    """The new name begins again with batch 0; all its batches that the table has are skipped."""
    old, new = Place(root, f"{TABLE}/old"), Place(root, f"{TABLE}/new")
    old.put(0, 1, 2)
    _ran(spark, old, FILES)
    old.put(3)
    _ran(spark, new, FILES, None)  # batch 0, skipped: row 3 is lost already
    old.put(4)
    findings = [*survey(str(root)).findings, *inspect(str(new.flow), sink=str(new.table)).findings]
    failure = run(spark, new, FILES, max_files=None, conf={})
    return Told(findings, failure, FILES.read(spark, new), Counter((0, 1, 2, 4)))


def moved_to_the_new_name(spark: Any, root: Path) -> Told:
    """What the finding asks for, in time: the directory goes along with the name."""
    old, new = Place(root, f"{TABLE}/old"), Place(root, f"{TABLE}/new")
    old.put(0, 1, 2)
    _ran(spark, old, FILES)
    old.flow.rename(new.flow)
    old.put(3)
    findings = [*survey(str(root)).findings, *inspect(str(new.flow), sink=str(new.table)).findings]
    failure = run(spark, new, FILES, max_files=None, conf={})
    return Told(findings, failure, FILES.read(spark, new), Counter((0, 1, 2, 3)))


def two_flows_of_one_input(spark: Any, root: Path) -> Told:
    """Two flows that read the same files for good: neither is the other's old name."""
    one, other = Place(root, f"{TABLE}/one"), Place(root, f"{TABLE}/other")
    one.put(0, 1)
    for numbers in ((2,), (3,)):
        for place in (one, other):
            _ran(spark, place, CALLS)
        one.put(*numbers)
    findings = [*survey(str(root)).findings, *inspect(str(other.flow)).findings]
    for place in (one, other):
        _ran(spark, place, CALLS)
    return Told(findings, "", read_each(spark, one), Counter([0, 1, 2, 3] * 2))


def two_flows_of_one_table(spark: Any, root: Path) -> Told:
    """Each counts its own batches from 0, and the table takes each number once."""
    one, other = Place(root, f"{TABLE}/one"), Place(root, f"{TABLE}/other")
    one.put(0, 1)
    _ran(spark, one, FILES)
    _ran(spark, other, FILES)
    one.put(2)
    before = FILES.read(spark, one)
    definitions = {"one": str(one.table), "other": str(other.table)}
    found = several_writers(str(one.table), definitions)
    findings = [found] if found else []
    for place in (one, other):
        _ran(spark, place, FILES)
    return Told(findings, "", FILES.read(spark, one), before + Counter((2, 2)))


def two_queries_on_one_checkpoint(spark: Any, root: Path) -> Told:
    """The second finds the first at work in the same session's JVM."""
    place = Place(root)
    place.put(0)
    findings = shared({"one": str(place.checkpoint), "other": f"file://{place.checkpoint}"})
    writer = CALLS.query(spark, place, 1).option("checkpointLocation", str(place.checkpoint))
    first = writer.start()
    try:
        first.processAllAvailable()
        with settings(spark, {"stopActiveRunOnRestart": "false"}):
            failure = run(spark, place, CALLS, conf={})
    finally:
        first.stop()
    return Told(findings, failure, read_each(spark, place), Counter((0,)))


STORIES = [
    Story("a flow was renamed", "files to a file table", renamed),
    Story("a flow was renamed, and its checkpoint with it", "files to a file table", moved_to_the_new_name),
    Story("two flows of one table read the same input", "foreachBatch", two_flows_of_one_input),
    Story("two flows write one file table", "files to a file table", two_flows_of_one_table),
    Story("two queries use one checkpoint", "foreachBatch", two_queries_on_one_checkpoint),
]
