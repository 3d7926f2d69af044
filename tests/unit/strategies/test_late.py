"""Rows that a rehearsal dropped behind the watermark: lost, unless the table has the windows they belong to."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.report import StateOperator
from recovery.contracts.readers import SourceReader
from recovery.strategies import late
from recovery.strategies.base import CodeFacts, Facts
from tests.unit.strategies.facts import WITH, WITHOUT
from tests.unit.strategies.streams import stream
from tests.unit.strategies.test_rewind import KEPT, SESSION, SUM, going, judged

SOURCES = stream().new_code.sources
OLD = CodeFacts({"/p/q.py": WITH}, (SUM,), sources=SOURCES, windows="w-1")
NEW = replace(OLD, files={"/p/q.py": WITHOUT})
CLOSED = replace(KEPT, rehearsed_late=6, rehearsed_later=0, unread_late=0)


def gone_back(**changes: Any) -> Facts:
    """From the first row on, with a new key for the same windows; six groups of rows came late, all read before."""
    return going(
        **{"operators": (SUM,), "counts": CLOSED, "old_code": OLD, "code": NEW, "new_code": NEW} | changes
    )


def held(*operators: str) -> Any:
    found = tuple(StateOperator(n, name, 2) for n, name in enumerate(operators))
    return replace(gone_back().checkpoint, state_operators=found)


def test_rows_of_windows_that_were_written_before_are_not_lost() -> None:
    option = judged(gone_back())
    forecast = option.forecast
    assert option.blocked is None
    assert [(a.rows, a.exact) for a in (forecast.lost, forecast.doubled)] == [(0, True), (0, True)]
    assert option.recommended
    codes = {f.code: f for f in option.findings}
    assert codes["LATE_ROWS_WRITTEN"].says.startswith(
        "The rehearsal dropped 6 groups of rows behind the watermark: of"
    )
    assert not {"LATE_ROWS_LOST", "REWIND_NOT_EXACT", "SAME_WINDOWS"} & codes.keys()
    assert "COUNTS_EQUAL_FORECAST" in {c.code for c in option.criteria}


# what is not as it should be -> the words that say so
MISSING: dict[str, tuple[dict[str, Any], str]] = {
    "old code not known": ({"old_code": None, "operators": (SUM,), "checkpoint": held(SESSION)}, "not known to count"),
    "windows of another length": ({"old_code": replace(OLD, windows="w-2")}, "not known to count the same rows"),
    "windows that no plan tells": (
        {"old_code": replace(OLD, windows=""), "new_code": replace(NEW, windows="")}, "not known to count"
    ),
    "another reader": ({"old_code": replace(OLD, sources=(SourceReader("delta"),))}, "not known to count"),
    "a deduplication before": ({"new_code": replace(NEW, operators=(SUM, "dedupe"))}, "not known to count"),
    "the old code had one": ({"old_code": replace(OLD, operators=(SUM, "dedupe"))}, "not known to count"),
    "the state had one": ({"checkpoint": held(SUM, "dedupe")}, "not known to count"),
    "sessions": (
        {"old_code": replace(OLD, operators=(SESSION,)), "new_code": replace(NEW, operators=(SESSION,)),
         "checkpoint": held(SESSION)}, "not known to count",
    ),
    "the watermark moved on": ({"counts": replace(CLOSED, rehearsed_later=2)}, "For 2 groups of rows of them the"),
    "not told at which": ({"counts": replace(CLOSED, rehearsed_later=None)}, "not rehearsed apart"),
    "some were never read": ({"counts": replace(CLOSED, unread_late=1)}, "never read, 1 group of rows come"),
    "not rehearsed apart": ({"counts": replace(CLOSED, unread_late=None)}, "not rehearsed apart"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), MISSING.values(), ids=MISSING.keys())
def test_late_rows_of_which_nobody_can_prove_that_the_table_has_them_count_as_lost(
    changes: dict[str, Any], words: str
) -> None:
    given = gone_back(**changes)
    assert not late.written(given)
    option = judged(given)
    assert (option.forecast.lost.rows, option.forecast.lost.exact) == (None, False)
    assert words in option.forecast.lost.why
    assert not option.recommended
    found = next(f for f in option.findings if f.code == "LATE_ROWS_LOST")
    assert (found.severity.value, found.says in option.forecast.lost.why) == ("warning", True)


def test_no_late_row_needs_no_proof() -> None:
    given = gone_back(counts=KEPT, old_code=None, checkpoint=held(SESSION))
    assert late.written(given)
    assert judged(given).forecast.lost.exact


def test_without_a_rehearsal_nothing_is_known_of_late_rows() -> None:
    assert not late.written(gone_back(counts=replace(KEPT, rehearsed=False, rehearsed_late=None)))


def test_a_start_behind_the_first_row_is_as_unsure_as_before() -> None:
    lost = judged(gone_back(at="4")).forecast.lost
    assert (lost.rows, lost.exact) == (None, False)


@pytest.mark.parametrize("old", [replace(OLD, windows="w-2"), None], ids=["other", "not known"])
def test_windows_that_are_not_proven_to_be_the_same_are_for_a_person_to_tell(old: CodeFacts | None) -> None:
    told = gone_back(old_code=old, counts=KEPT, new_code=replace(NEW, operators=(SUM, "dedupe")))
    assert "SAME_WINDOWS" in {f.code for f in judged(told).findings}
