"""How far back a stream must begin when its state is dropped: what can be told, and what cannot."""

import pytest

from recovery.sources.rewinding import needed

WATERMARK = 1_704_067_200_000


@pytest.mark.parametrize(
    ("operators", "window", "back"),
    [
        (["stateStoreSave"], 5_000, WATERMARK - 4_999),
        (["stateStoreSave"], None, None),
        (["sessionWindowStateStoreSaveExec"], 5_000, None),
        (["stateStoreSave", "dedupe"], 5_000, WATERMARK - 4_999),
    ],
)
def test_rows_from_the_watermark_on_are_needed_and_a_window_s_length_before_it(
    operators: list[str], window: int | None, back: int | None
) -> None:
    found = needed(WATERMARK, operators, window_ms=window)
    assert (found.surely_ms, found.back_to_ms) == (WATERMARK, back)
    assert ("longest" in " ".join(found.says)) == (back is None)


@pytest.mark.parametrize("watermark", [None, 0])
def test_without_a_watermark_every_row_may_count(watermark: int | None) -> None:
    found = needed(watermark, ["stateStoreSave"], window_ms=5_000)
    assert (found.surely_ms, found.back_to_ms, found.twice) == (None, None, ())
    assert "start at the beginning" in found.says[-1]


def test_steps_that_write_rows_as_they_come_would_write_them_again() -> None:
    found = needed(WATERMARK, ["symmetricHashJoin", "stateStoreSave", "dedupeWithinWatermark"])
    assert found.twice == ("dedupeWithinWatermark", "symmetricHashJoin")
    assert "written again" in found.says[0]
    assert needed(WATERMARK, ["stateStoreSave"]).twice == ()
