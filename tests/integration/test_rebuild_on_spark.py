"""State that a replay of what was processed builds: the new code goes on as if it had run from the first row."""

from collections import Counter
from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint, seed
from recovery.spark.api import Rehearsal, Replay, WholeInput
from tests.integration.rehearsed_flow import WINDOWED, Flow, told, windows
from tests.unit.checkpoints.seeding import free

pytestmark = pytest.mark.spark

READ_ALL = '    return read("a").select("k", "z", "t")\n'
BY_NAME = '    return read("a").dropDuplicates(["k"]).select("k", "z", "t")\n'
BY_LETTER = '    return read("a").dropDuplicates(["z"]).select("k", "z", "t")\n'
JOINED = """
    left, right = read("a").select("k", "z"), read("b").selectExpr("k as k2", "z as z2")
    return left.join(right, F.expr("k = k2")).select("k", "k2")
"""
FIRST = ([("a1", 1), ("b1", 4)], [("a1", 21), ("b1", 3)], [("b2", 24), ("a2", 18)], [("b1", 41), ("a1", 39)])


def replay(
    flow: Flow, folder: str, processed: list[str], sets: list[str] | None, **more: object
) -> Rehearsal:
    """The code over what was processed, and then over `sets`, from where the flow's checkpoint stands."""
    report = inspect_checkpoint(flow.place)
    request = flow.request(
        folder,
        sets or [],
        watermark_ms=report.closed_ms,
        conf=report.conf,
        replay=Replay(WholeInput(tuple(processed)), report.watermark_ms, first=report.last_committed == 0),
    )
    if sets is None:
        request = _without_input(request)
    from recovery.spark.api import rehearse

    found = rehearse(request, timeout=300)
    assert found.problem is None, found.problem
    return found


def _without_input(request: object) -> object:
    import dataclasses

    study = dataclasses.replace(request.study, sets={})  # type: ignore[attr-defined]
    return dataclasses.replace(request, study=study)  # type: ignore[type-var]


def go_on(flow: Flow, state: str) -> None:
    """The next version of the checkpoint: its progress, with this state."""
    plan = seed.plan_seed(inspect_checkpoint(flow.place, sink=flow.table), state=state)
    made = seed.prepare_seed(flow.place, plan, recovery="R-1", fence=1, guard=free)
    flow.version = seed.publish_checkpoint(flow.place, made, guard=free)


def rebuilt(flow: Flow, query: str) -> tuple[Counter[str], Counter[str]]:
    """Rows that the new code wrote after its state was rebuilt, and those that a rehearsal had foretold."""
    before = flow.rows_in(flow.table)
    processed = [path for folder in ("a", "b") for path, _ in flow.put_so_far.get(folder, [])]
    for rows in ([("a1", 40), ("c1", 44)], [("c1", 70), ("a3", 71)], [("a3", 90)]):
        flow.put(*rows)
    if "b" in flow.put_so_far:
        flow.put(("b1", 50), ("c1", 51), folder="b")
    waiting = [path for path in flow.uris() if path not in processed]
    flow.query(query)
    expected = replay(flow, "expected", processed, waiting)
    state = replay(flow, "state", processed, None)
    assert (state.rows, state.batches) == (None, 1)
    go_on(flow, state.checkpoint)
    after, _ = flow.update()
    assert not before - after
    return after - before, flow.rows(expected)


KEYS: dict[str, tuple[str, str, list[str]]] = {
    "dropDuplicates was added": (READ_ALL, BY_NAME, ["a3", "c1"]),
    "its key was changed": (BY_NAME, BY_LETTER, ["c1"]),
    "its key was widened": (BY_LETTER, BY_NAME, ["a3", "c1"]),
}


@pytest.mark.parametrize(("old", "new", "keys"), KEYS.values(), ids=KEYS.keys())
def test_no_new_row_repeats_a_key_that_was_processed(flow: Flow, old: str, new: str, keys: list[str]) -> None:
    flow.query(old)
    for rows in FIRST:
        flow.put(*rows)
    flow.update()
    wrote, foretold = rebuilt(flow, new)
    assert wrote == foretold
    assert sorted(row.split('"k": "')[1][:2] for row in wrote.elements()) == keys


def test_a_flow_with_one_batch_alone_gets_its_state_too(flow: Flow) -> None:
    flow.files = 100
    flow.query(BY_NAME)
    for rows in FIRST:
        flow.put(*rows)
    flow.update()
    assert inspect_checkpoint(flow.place).last_committed == 0
    wrote, foretold = rebuilt(flow, BY_LETTER)
    assert (wrote, wrote.total()) == (foretold, 1)


@pytest.mark.parametrize("closing", [True, False], ids=["windows were closed", "the last batch closed none"])
@pytest.mark.parametrize(
    "change", [('"k")', 'F.col("z").alias("k"))'), ('F.count("*")', 'F.count("k")')], ids=["key", "aggregate"]
)
def test_every_open_window_is_whole_and_none_is_written_twice(
    flow: Flow, change: tuple[str, str], closing: bool
) -> None:
    flow.query(WINDOWED)
    for rows in FIRST:
        flow.put(*rows)
    flow.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", str(closing).lower())
    try:
        flow.update()
    finally:
        flow.spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
    closed = inspect_checkpoint(flow.place).closed_ms
    assert closed
    wrote, foretold = rebuilt(flow, WINDOWED.replace(*change))
    assert wrote == foretold
    reached = inspect_checkpoint(flow.place).closed_ms
    assert reached
    every = [row for _, rows in flow.put_so_far["a"] for row in rows]
    if "z" in change[1]:
        assert told(wrote) == windows(every, closed, reached)
    else:
        ends = Counter((k, s // 5 * 5 + 5) for k, s in every)
        assert wrote.total() == len([e for k, e in ends if closed < (1704067200 + e) * 1000 <= reached])


def test_a_changed_join_knows_every_row_of_both_sides(flow: Flow) -> None:
    flow.query(JOINED.replace("k = k2", "z = z2"))
    for rows in FIRST:
        flow.put(*rows)
        flow.put(*rows[:1], folder="b")
    flow.update()
    wrote, foretold = rebuilt(flow, JOINED)
    assert wrote == foretold
    left = [k for _, rows in flow.put_so_far["a"] for k, _ in rows]
    right = [k for _, rows in flow.put_so_far["b"] for k, _ in rows]
    pairs = sum((Counter({k: left.count(k) * right.count(k)}) for k in set(left)), Counter[str]())
    old_left, old_right = [k for r in FIRST for k, _ in r], [r[0][0] for r in FIRST]
    for k in set(old_left):
        pairs[k] -= old_left.count(k) * old_right.count(k)
    assert wrote.total() == sum(pairs.values())


def test_the_scratch_folder_holds_nothing_but_what_a_rehearsal_leaves(flow: Flow) -> None:
    flow.query(BY_NAME)
    for rows in FIRST:
        flow.put(*rows)
    flow.update()
    processed = flow.uris()
    flow.put(("d1", 95))
    found = replay(flow, "expected", processed, flow.uris()[len(processed) :])
    assert found.rows == 1
    assert not Path(found.output, "_spark_metadata").exists()
