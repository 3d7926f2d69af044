"""revert: judged by what the old code reads, whatever the code of today reads."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.report import Finding, Severity, SourceProgress
from recovery.contracts.option import BlockerCode, Option
from recovery.contracts.readers import SourceReader
from recovery.sources.base import Distance, SourceRetention
from recovery.strategies.base import CodeFacts, Counts, Facts
from recovery.strategies.revert import put_back
from tests.unit.strategies.facts import WITH, WITHOUT, checkpoint, facts
from tests.unit.strategies.streams import LINES, of, source, start, stream
from tests.unit.strategies.test_sources_and_sinks import options

KAFKA = SourceReader("kafka")
DELTA = SourceReader("delta", "/t/new")
OLD = CodeFacts({"/p/q.py": WITH}, (), sources=(KAFKA,))
ROWS = Counts(processed=10, waiting=5, everything=15)
LOST = SourceRetention(False, "The table was recreated.", lost=Distance())


def edited(*readers: SourceReader, **changes: Any) -> Facts:
    """Old code over one topic, without state; the new code reads `readers`."""
    base = stream(checkpoint=checkpoint(
        last_planned=2, sources=(SourceProgress(0, "kafka", LINES["kafka"]),), state_operators=()
    ))  # fmt: skip
    new = CodeFacts({"/p/q.py": WITHOUT}, (), sources=readers)
    told: dict[str, Any] = {
        "old_code": OLD,
        "code": new,
        "new_code": new,
        "old_counts": ROWS,
        "old_sources": (source("kafka"),),
        "sources": tuple(source(reader.format, reach=LOST) for reader in readers),
        "source_map": (0, *(None for _ in readers[1:])),
    }
    return replace(base, **{**told, **changes})


def judged(given: Facts) -> Option:
    return options(given)["revert"]


def test_a_damaged_checkpoint_is_named_before_code_is_asked_for_that_would_not_help() -> None:
    lost = Finding("STATE_FILE_MISSING", Severity.BLOCKER, "state/0/0/2.delta is missing.", "Put it back.")
    given = edited(KAFKA, old_code=None)
    damaged = replace(given, checkpoint=replace(given.checkpoint, findings=(lost,)))
    codes = [option.blocker.code for option in map(judged, (given, damaged)) if option.blocker]
    assert codes == [BlockerCode.OLD_CODE_UNKNOWN, BlockerCode.CHECKPOINT_DAMAGED]


def test_where_a_source_was_added_the_rows_of_the_old_ones_are_told() -> None:
    option = judged(edited(KAFKA, DELTA))
    assert option.blocked is None
    assert (option.forecast.new_rows, option.forecast.table_after) == (5, 15)
    assert [(a.rows, a.exact) for a in (option.forecast.lost, option.forecast.doubled)] == [
        (0, True),
        (0, True),
    ]
    assert [position.kind for position in option.positions] == ["kafka"]
    assert "COUNTS_EQUAL_FORECAST" in {c.code for c in option.criteria}


def test_where_a_source_was_removed_the_rows_of_both_old_ones_are_told() -> None:
    both = checkpoint(last_planned=2, state_operators=(), sources=(
        SourceProgress(0, "kafka", LINES["kafka"]), SourceProgress(1, "delta", LINES["delta"])
    ))  # fmt: skip
    old = replace(OLD, sources=(KAFKA, DELTA))
    before = (source("kafka"), source("delta", reach=SourceRetention(True, "All is there.")))
    option = judged(edited(KAFKA, checkpoint=both, old_code=old, old_sources=before))
    assert (option.blocked, option.forecast.new_rows) == (None, 5)
    assert [position.kind for position in option.positions] == ["kafka", "delta"]


def test_what_only_the_new_code_reads_does_not_stand_in_its_way() -> None:
    """Another table in the place of the one that was read: the old code reads the old one."""
    given = edited(DELTA)
    assert "The table was recreated." in (options(given)["continue"].blocked or "")
    assert judged(given).blocked is None


BLOCKED: dict[str, tuple[dict[str, Any], str]] = {
    "what the old code reads cannot be read on": ({"old_sources": (source("kafka", reach=LOST),)}, "recreated"),
    "nobody could look": ({"old_sources": (), "old_problem": "/in does not exist."}, "looked at: /in does not exist."),
    "old code of one source too many": (
        {"old_code": replace(OLD, sources=(KAFKA, KAFKA))}, "Spark would refuse the old code too."
    ),
    "a start was chosen": ({"sources": (source("kafka", start=start("4", reread=of(6))),)}, "choose continue"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), BLOCKED.values(), ids=BLOCKED.keys())
def test_what_the_old_code_cannot_do_is_said(changes: dict[str, Any], words: str) -> None:
    assert words in (judged(edited(KAFKA, **changes)).blocked or "")


def test_what_nobody_counted_of_the_old_code_is_not_told() -> None:
    forecast = judged(edited(KAFKA, DELTA, old_counts=None)).forecast
    assert (forecast.new_rows, forecast.table_after) == (None, None)


def test_the_same_readers_are_looked_at_once() -> None:
    same = edited(KAFKA, old_sources=None)
    assert put_back(same) is same


@pytest.mark.parametrize(
    ("operators", "watermarked", "is_known"),
    [
        (("dedupe",), False, True),
        (("dedupe",), True, False),
        (("dedupeWithinWatermark",), True, False),
        (("stateStoreSave",), True, False),
        ((), True, True),
    ],
)
def test_a_plan_says_before_the_run_that_kept_state_decides_what_no_batch_can_tell(
    operators: tuple[str, ...], watermarked: bool, is_known: bool
) -> None:
    given = facts()
    assert given.old_code is not None
    given = replace(given, old_code=replace(given.old_code, operators=operators, watermarked=watermarked))
    codes = [finding.code for finding in judged(given).findings]
    assert ("ROWS_NOT_PROVABLE" not in codes) == is_known
