"""The page of damages is what was recorded on Spark, and what was recorded is the table of cases."""

from pathlib import Path

from recovery.checkpoints.report import Outcome
from tests.damages import record
from tests.damages.cases import EVERY

PAGE = Path(__file__).resolve().parents[3] / "docs" / "damage-table.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == record.page(), "run: python -m tests.damages.record > docs/damage-table.md"


def test_every_damage_is_recorded_once() -> None:
    assert len({case.name for case in EVERY}) == len(EVERY)
    assert list(record.load()) == [case.name for case in EVERY]


def test_every_prediction_is_right_and_every_outcome_is_seen() -> None:
    rows = [record.load()[case.name] for case in EVERY if not case.untold]
    assert [row["damage"] for row in rows if row["predicted"] != row["outcome"]] == []
    assert {row["outcome"] for row in rows} == {
        o.value for o in Outcome if o not in (Outcome.UNKNOWN, Outcome.OPEN)
    }
    assert len(rows) >= 60


def test_every_finding_occurs_in_a_row_or_it_is_said_why_not() -> None:
    assert {code for code, count in record.occurrences().items() if not count} == set(record.UNSEEN)


def test_what_cannot_be_predicted_is_seen_to_be_so() -> None:
    for case in EVERY:
        row = record.load()[case.name]
        assert (row["predicted"] != row["outcome"]) == bool(case.untold), case.name
