"""Going back with a changed key: every open window is whole, none is written twice, and which late rows are lost."""

import contextlib
from collections import Counter
from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.formats import parse_commit
from recovery.checkpoints.starts import SourceStart
from tests.integration.rehearsed_flow import START, WINDOWED, Flow, told, windows

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("closing", [True, False], ids=["windows were closed", "the last batch closed none"])
def test_a_changed_key_goes_on_with_every_open_window_whole_and_none_twice(flow: Flow, closing: bool) -> None:
    """Its state is of no use to the new key: it is dropped, and what the open windows held is read again."""
    for rows in (
        [("a1", 1), ("b1", 4)],
        [("a1", 21), ("b1", 3)],
        [("b2", 24), ("a2", 18)],
        [("b1", 41), ("a1", 39)],
    ):
        flow.put(*rows)
    with contextlib.ExitStack() as stack:
        if not closing:
            flow.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
            stack.callback(flow.spark.conf.unset, "spark.sql.streaming.noDataMicroBatches.enabled")
        before, _ = flow.update()
    conf, watermark, line = flow.settings()
    flow.put(("a3", 2), ("b3", 44))
    flow.put(("a1", 70))
    flow.query(WINDOWED.replace('"k")', 'F.col("z").alias("k"))'))
    back_to_ms = watermark - 5000 + 1  # an open window ends 1 ms after the watermark, and is 5 s long
    every = flow.put_so_far["a"]
    first = next(
        i for i, (_, rows) in enumerate(every) if any((START + s) * 1000 >= back_to_ms for _, s in rows)
    )
    again, waiting = [uri for uri, _ in every[first:4]], [uri for uri, _ in every[4:]]

    primed = flow.rehearse("primed", [], watermark_ms=watermark, conf=conf)
    assert (primed.rows, primed.batches, primed.watermark_ms) == (0, 1, watermark)
    expected = flow.rehearse("expected", [*again, *waiting], watermark_ms=watermark, conf=conf)
    flow.begin(SourceStart(0, 0, line, again=tuple(again)), watermark, primed.checkpoint)
    after, late = flow.update()

    assert after - before == flow.rows(expected)
    assert (expected.late, expected.why) == (late, "")
    assert not before - after
    assert expected.watermark_ms == (START + 60) * 1000
    every_row = [row for _, rows in every for row in rows]
    assert told(after - before) == windows(every_row, watermark, expected.watermark_ms)
    if not closing:
        later = parse_commit(
            Path(flow.place, f"0/commits/{inspect_checkpoint(f'{flow.place}/0').last_committed}").read_bytes()
        )
        lost = flow.rehearse("later", [*again, *waiting], watermark_ms=later.watermark_ms, conf=conf)
        assert told(flow.rows(lost)) < told(after - before), "windows between the two were never written"
    flow.put(("a1", 90))
    assert told(flow.update()[0] - after) == Counter({("a", START + 75): 1})


NOTHING_READ = '{"logOffset":-1}'
# rows that were never read, a file after the other -> of what is late: all, at a later watermark, never read
LATE: dict[str, tuple[list[list[tuple[str, int]]], tuple[int, int, int]]] = {
    "all were read before": ([[("a3", 44)], [("a1", 70)]], (6, 0, 0)),
    "one was never read": ([[("a3", 2), ("b3", 44)], [("a1", 70)]], (7, 0, 1)),
    "the watermark had moved on": ([[("a1", 70)], [("a1", 71)], [("b1", 44)]], (7, 1, 1)),
}


@pytest.mark.parametrize(("coming", "dropped"), LATE.values(), ids=LATE.keys())
def test_late_rows_are_lost_unless_they_were_read_before_and_their_windows_were_written(
    flow: Flow, coming: list[list[tuple[str, int]]], dropped: tuple[int, int, int]
) -> None:
    """Back to the first row, the key changed: what the table then has beside all that ever came."""
    for rows in ([("a1", 1), ("b1", 4)], [("a1", 21), ("b1", 3)], [("b2", 24), ("a2", 18)], [("b1", 41)]):
        flow.put(*rows)
    before, late = flow.update()
    assert late == 0
    conf, watermark, _ = flow.settings()
    again = flow.uris()
    for rows in coming:
        flow.put(*rows)
    old = flow.room.look(flow.code).windows
    flow.query(WINDOWED.replace('"k")', 'F.col("z").alias("k"))'))
    assert flow.room.look(flow.code).windows == old != ""
    assert flow.room.look(flow.code.replace('"5 seconds"', '"6 seconds"')).windows not in ("", old)

    expected = flow.rehearse("expected", watermark_ms=watermark, conf=conf)
    unread = flow.rehearse("unread", flow.uris()[len(again) :], watermark_ms=watermark, conf=conf)
    primed = flow.rehearse("primed", [], watermark_ms=watermark, conf=conf)
    flow.begin(SourceStart(0, 0, NOTHING_READ, again=tuple(again)), watermark, primed.checkpoint)
    after, _ = flow.update()

    assert (expected.late, expected.later, unread.late) == dropped
    assert after - before == flow.rows(expected)
    assert expected.watermark_ms
    every = windows([r for _, rows in flow.put_so_far["a"] for r in rows], 0, expected.watermark_ms)
    has = Counter[tuple[str, int]]()
    for (key, end), number in (*told(before).items(), *told(after - before).items()):
        has[key[0], end] += number
    missing = (every - has).total()
    assert (missing, (has - every).total()) == (1 if dropped[1:] != (0, 0) else 0, 0)
