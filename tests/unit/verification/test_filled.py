"""A table that got rows back from a backup is proven by the input and the backup, or not at all."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts.criterion_values import ExpectedFill, ExpectedGrowth
from recovery.sinks.base import SinkReport
from recovery.spark.api import Measure
from recovery.spark.backups import FilledRows
from recovery.verification import filled
from recovery.verification.evidence import Evidence, KeptRows
from recovery.verification.finding import CriterionFinding

ROWS = FilledRows(due=4, missing=0, extra=0, batch_rows=5, filled=4, backup_rows=7, backup_digest="d")
MEASURE = Measure(table_rows=9, new_rows=9, expected_rows=9, missing=0, extra=0, key=("n",), filled=ROWS)
KEPT = KeptRows(7, "d")


def evidence(measure: Measure | None = MEASURE, kept: KeptRows | None = KEPT) -> Evidence:
    return Evidence(
        scope="new", old=None, new=None, listed=None, first_batch=None, sink_before=None,
        sink_after=SinkReport("delta", "/w", None, version=9), measure=measure, backup=kept,
    )  # fmt: skip


def as_before(given: Evidence) -> CriterionFinding:
    return filled.filled_rows_as_before(ExpectedFill(key=("n",)), given)


def with_rows(**changes: Any) -> Evidence:
    return evidence(replace(MEASURE, filled=replace(ROWS, **changes)))


@pytest.fixture(autouse=True)
def _whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the measure is of all that was read is asked, and answered, elsewhere."""
    monkeypatch.setattr(filled, "usable", lambda given: (given.measure, "nothing was measured"))


def test_rows_that_are_there_once_as_the_backup_has_them_hold() -> None:
    assert as_before(evidence()).ok is True


@pytest.mark.parametrize(
    "changes",
    [{"missing": 1}, {"extra": 1}, {"filled": 3}, {"filled": 8}, {"backup_rows": 6}, {"backup_digest": "e"}],
    ids=str,
)
def test_a_row_that_is_missing_doubled_or_changed_does_not_hold(changes: dict[str, Any]) -> None:
    assert as_before(with_rows(**changes)).ok is False


@pytest.mark.parametrize(
    "given",
    [evidence(None), evidence(kept=None), evidence(replace(MEASURE, filled=None))],
    ids=["no measure", "no backup", "no fill"],
)
def test_what_was_not_measured_is_not_met(given: Evidence) -> None:
    assert as_before(given).ok is None


def test_another_key_than_the_plans_is_not_measured() -> None:
    assert filled.filled_rows_as_before(ExpectedFill(key=("m",)), evidence()).ok is None


@pytest.mark.parametrize(("rows", "ok"), [(9, True), (8, False), (10, False)])
def test_the_table_has_the_rows_of_the_batches_and_of_the_fill_and_no_others(rows: int, ok: bool) -> None:
    found = filled.table_grew(
        ExpectedGrowth(before=0, filled=True), evidence(replace(MEASURE, table_rows=rows))
    )
    assert found.ok is ok
