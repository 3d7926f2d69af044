"""A file table put back to an earlier batch: what its log then names, at every crash, and the way back."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recovery.checkpoints import earlierlog, sinklog
from recovery.checkpoints.earlierlog import LogState
from recovery.checkpoints.storage import Store
from recovery.errors import Refused

LABEL = "R-7"


class Killed(Exception):
    """The worker died."""


def free() -> None:
    """Nobody else holds the fence."""


def entry(batch: int) -> str:
    path = f"file:///t/part-{batch}.parquet"
    body = {"path": path, "size": 1, "isDir": False, "modificationTime": batch, "action": "add"}
    return json.dumps(body)


def table(root: Path, last: int, *, compacted: int | None = None, from_batch: int = 0) -> str:
    """A table whose log ends at `last`; `compacted`: that entry holds all before it."""
    log = root / "table" / sinklog.FOLDER
    log.mkdir(parents=True)
    for batch in range(from_batch, last + 1):
        held = range(batch + 1) if batch == compacted else (batch,)
        name = f"{batch}.compact" if batch == compacted else str(batch)
        (log / name).write_text("\n".join(["v1", *(entry(n) for n in held)]))
        (log / f".{name}.crc").write_bytes(b"crc")
    return str(root / "table")


def named(location: str) -> list[str]:
    """The data files that a reader of the table takes."""
    return sorted(e.path[len("file:///t/") :] for e in sinklog.read_sink_log(Store.open(location)).files)


def parts(*batches: int) -> list[str]:
    return sorted(f"part-{n}.parquet" for n in batches)


def tree(location: str) -> dict[str, bytes]:
    root = Path(location) / sinklog.FOLDER
    return {p.name: p.read_bytes() for p in root.iterdir()}


@pytest.mark.parametrize(
    ("last", "compacted", "batch"), [(3, None, 1), (12, 9, 11), (12, 9, 9), (12, 9, 4), (3, None, 0)]
)
def test_the_log_of_then_names_what_the_table_held_after_the_batch(
    tmp_path: Path, last: int, compacted: int | None, batch: int
) -> None:
    place = table(tmp_path, last, compacted=compacted)
    before = tree(place)
    plan = earlierlog.plan_earlier_log(place, batch)
    assert (plan.head, len(plan.kept), len(plan.removed)) == (last, batch + 1, last - batch)

    earlierlog.put_back(plan, recovery=LABEL, guard=free)

    log = sinklog.read_sink_log(Store.open(place))
    assert (log.head, log.findings, named(place)) == (batch, (), parts(*range(batch + 1)))
    assert earlierlog.find_state(place, recovery=LABEL) is LogState.IN_PLACE
    assert earlierlog.undo_refusal(place, recovery=LABEL) is None
    earlierlog.undo_put_back(place, recovery=LABEL, guard=free)
    assert tree(place) == before
    assert earlierlog.find_state(place, recovery=LABEL) is LogState.UNDONE


@pytest.mark.parametrize(
    ("arrange", "batch"),
    [
        (lambda root: table(root, 12, compacted=9, from_batch=9), 4),
        (lambda root: table(root, 3), 7),
        (lambda root: table(root, 3, from_batch=2), 3),
    ],
    ids=["within a compacted entry", "not written yet", "a hole before it"],
)
def test_what_the_log_no_longer_tells_is_refused(
    tmp_path: Path, arrange: Callable[[Path], str], batch: int
) -> None:
    with pytest.raises(Refused) as refusal:
        earlierlog.plan_earlier_log(arrange(tmp_path), batch)
    assert refusal.value.code == earlierlog.NOT_KEPT


def test_a_log_that_has_moved_since_the_plan_is_left_alone(tmp_path: Path) -> None:
    place = table(tmp_path, 3)
    plan = earlierlog.plan_earlier_log(place, 1)
    (Path(place) / sinklog.FOLDER / "4").write_text(f"v1\n{entry(4)}")
    with pytest.raises(Refused) as refusal:
        earlierlog.put_back(plan, recovery=LABEL, guard=free)
    assert (refusal.value.code, named(place)) == ("stale", parts(0, 1, 2, 3, 4))


@pytest.mark.parametrize("strike", range(6))
def test_a_worker_that_dies_anywhere_leaves_a_log_that_the_next_one_completes(
    tmp_path: Path, strike: int
) -> None:
    place = table(tmp_path, 3)
    plan = earlierlog.plan_earlier_log(place, 1)
    left = [strike]

    def guard() -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1

    try:
        earlierlog.put_back(plan, recovery=LABEL, guard=guard)
    except Killed:
        state = earlierlog.find_state(place, recovery=LABEL)
        assert state in (LogState.NOTHING, LogState.PREPARED, LogState.HALF)
        assert (state is LogState.HALF) != (Path(place) / sinklog.FOLDER).is_dir()
    earlierlog.put_back(plan, recovery=LABEL, guard=free)
    assert named(place) == parts(0, 1)


def test_a_half_swapped_log_can_be_undone(tmp_path: Path) -> None:
    place = table(tmp_path, 3)
    before = tree(place)
    earlierlog.put_back(earlierlog.plan_earlier_log(place, 1), recovery=LABEL, guard=free)
    (Path(place) / sinklog.FOLDER).rename(Path(place) / f".reprise-{LABEL}-log")
    assert earlierlog.find_state(place, recovery=LABEL) is LogState.HALF
    earlierlog.undo_put_back(place, recovery=LABEL, guard=free)
    assert tree(place) == before


def test_a_batch_that_was_written_since_closes_the_way_back(tmp_path: Path) -> None:
    place = table(tmp_path, 3)
    earlierlog.put_back(earlierlog.plan_earlier_log(place, 1), recovery=LABEL, guard=free)
    (Path(place) / sinklog.FOLDER / "2").write_text(f"v1\n{entry(2)}")
    assert earlierlog.undo_refusal(place, recovery=LABEL) is not None
    with pytest.raises(Refused) as refusal:
        earlierlog.undo_put_back(place, recovery=LABEL, guard=free)
    assert refusal.value.code == "cannot_undo"
