"""Fillers for a table's log: only where a batch wrote nothing, undoable, and whole after a death."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import filler, inspect_checkpoint, sinklog
from recovery.checkpoints.storage import Store
from recovery.errors import Refused
from tests.checkpoint_builder import Built, put, sink_log
from tests.unit.checkpoints.killing import deaths
from tests.unit.checkpoints.seeding import free, tree


def holed(root: Path, hole: int = 2, *, empty: bool = True, head: int = 4) -> filler.FillerPlan:
    """A table whose log lacks `hole`, and the plan; `empty`: the batch of that number read nothing."""
    Built(root / "ck", batches=head + 1).write()
    if empty:
        shutil.copy(root / f"ck/offsets/{hole - 1}", root / f"ck/offsets/{hole}")
    sink_log(root / "table", head)
    for name in (str(hole), f"{hole}.compact", f".{hole}.crc", f".{hole}.compact.crc"):
        (root / "table/_spark_metadata" / name).unlink(missing_ok=True)
    return filler.plan_filler(str(root / "table"), inspect_checkpoint(str(root / "ck")))


def test_a_hole_of_a_batch_that_read_nothing_is_filled_and_taken_back(tmp_path: Path) -> None:
    plan = holed(tmp_path)
    assert plan.names == ("2",)
    before = tree(tmp_path / "table")
    filler.fill_log(plan, recovery="R-1", guard=free)
    assert sinklog.read_sink_log(Store.open(str(tmp_path / "table"))).findings == ()
    assert (tmp_path / "table/_spark_metadata/2").read_bytes() == b"v1"
    filler.undo_fill(str(tmp_path / "table"), recovery="R-1", guard=free)
    assert tree(tmp_path / "table") == before


def sound(root: Path) -> filler.FillerPlan:
    Built(root / "ck", batches=3).write()
    sink_log(root / "table", 2)
    return filler.plan_filler(str(root / "table"), inspect_checkpoint(str(root / "ck")))


REFUSED: list[tuple[str, Callable[[Path], Any], str]] = [
    ("the batch read something", lambda r: holed(r, empty=False), "not known"),
    ("a compacted entry", lambda r: holed(r, 9, head=12), "compacted"),
    ("nothing missing", sound, "lacks no number"),
]


@pytest.mark.parametrize(("arrange", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_may_hide_rows_is_not_filled(tmp_path: Path, arrange: Callable[[Path], Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        arrange(tmp_path)


@pytest.mark.parametrize(
    ("next_batch", "names"),
    [(1, ("0",)), (3, ("0", "1", "2")), (10, ("9.compact",)), (12, ("9.compact", "10", "11"))],
)
def test_a_new_table_begins_with_the_number_that_the_checkpoint_goes_on_with(
    tmp_path: Path, next_batch: int, names: tuple[str, ...]
) -> None:
    Built(tmp_path / "ck").write()
    (tmp_path / "table").mkdir()
    plan = filler.plan_filler(
        str(tmp_path / "table"), inspect_checkpoint(str(tmp_path / "ck")), next_batch=next_batch
    )
    assert plan.names == names
    filler.fill_log(plan, recovery="R-1", guard=free)
    log = sinklog.read_sink_log(Store.open(str(tmp_path / "table")))
    assert (log.head, log.findings) == (next_batch - 1, ())
    put(tmp_path / f"table/_spark_metadata/{next_batch}", "v1")
    with pytest.raises(Refused, match="after them already"):
        filler.undo_fill(str(tmp_path / "table"), recovery="R-1", guard=free)


def test_a_log_that_moved_since_the_plan_is_left_alone(tmp_path: Path) -> None:
    plan = holed(tmp_path)
    put(tmp_path / "table/_spark_metadata/5", "v1")
    now = tree(tmp_path / "table")
    with pytest.raises(Refused, match="has moved"):
        filler.fill_log(plan, recovery="R-1", guard=free)
    assert tree(tmp_path / "table") == now


def test_a_death_at_any_write_is_completed_or_taken_back(tmp_path: Path) -> None:
    room = tmp_path / "room"
    plans: list[filler.FillerPlan] = []

    def arranged() -> Callable[[], None]:
        shutil.rmtree(room, ignore_errors=True)
        plans.append(holed(room))
        return lambda: filler.fill_log(plans[-1], recovery="R-1", guard=free)

    for number, death in enumerate(deaths(arranged)):
        if number % 2:
            filler.fill_log(plans[-1], recovery="R-1", guard=free)
            assert (room / "table/_spark_metadata/2").read_bytes() == b"v1", death
        elif (room / "table/.reprise-R-1.filler.json").exists():
            filler.undo_fill(str(room / "table"), recovery="R-1", guard=free)
            assert not (room / "table/_spark_metadata/2").exists(), death
        assert not list((room / "table/_spark_metadata").glob(".reprise*")), death
