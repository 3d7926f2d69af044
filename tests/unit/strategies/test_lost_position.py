"""Continue beside a position that is not known: from one that a person names, at bounds that are no exact numbers."""

from dataclasses import replace
from typing import Any

from recovery.checkpoints.findings import finding
from recovery.checkpoints.report import LostPosition, SourceProgress
from recovery.contracts.amounts import Bound
from recovery.contracts.option import BlockerCode
from recovery.sources.base import StartCandidate
from recovery.sources.lost_position import bound_from_last_known
from recovery.strategies.base import Facts
from tests.unit.strategies.facts import checkpoint
from tests.unit.strategies.streams import DELTA, NO_ROW, of, options, source, start, stream

LOST = LostPosition(2, 1, '{"orders":{"0":10}}')


def lost(begun: StartCandidate | None = None, **more: Any) -> Facts:
    """Batch 2 is committed and its offset file is gone; batch 1 ended at 10, and the topic ends at 15."""
    report = checkpoint(
        last_committed=2,
        last_planned=1,
        sources=(SourceProgress(0, "kafka", None, lost=LOST),),
        state_operators=(),
        findings=(finding("COMMITS_AHEAD", "offsets/2", batch=2, newest=1),),
    )
    waits = NO_ROW if begun else of(5)
    known = bound_from_last_known(source("kafka", start=begun, unread=waits), LOST)
    made = stream("kafka", DELTA, checkpoint=report, sources=(known,), **more)
    return replace(made, counts=replace(made.counts, waiting=0, skipped=None, reread=None))


def test_without_a_position_continue_asks_for_it_and_sends_nobody_to_a_repair() -> None:
    blocker = options(lost())["continue"].blocker
    assert blocker is not None
    assert blocker.code is BlockerCode.SEED_REFUSED
    assert "endOffset" in blocker.says
    assert "repair" not in blocker.says


def test_from_a_position_that_is_given_continue_can_run_at_bounds() -> None:
    given, begun = lost(start("15", lost=of(5))), start("15", lost=of(5))
    option = options(given)["continue"]
    assert option.blocker is None
    assert option.forecast is not None
    assert (option.forecast.lost.rows, option.forecast.lost.bound) == (5, Bound.ESTIMATE)
    assert (option.forecast.reread.rows, option.forecast.reread.bound) == (0, Bound.EXACT)
    known = options(stream("kafka", DELTA, sources=(source("kafka", start=begun),)))["continue"]
    skips, usual = (next(f for f in o.findings if f.code == "START_SKIPS") for o in (option, known))
    assert given.sources[0].position.label in skips.says
    assert skips.do != usual.do
