"""The table of findings: whole, in the docs as it is, and the worst of several wins."""

from pathlib import Path

import pytest

from recovery.checkpoints import formats
from recovery.checkpoints.findings import BY_CODE, TABLE, document
from recovery.checkpoints.report import CheckpointReport, Finding, Outcome, Severity

PAGE = Path(__file__).resolve().parents[3] / "docs" / "findings.md"


def test_the_docs_show_the_table_of_findings_as_it_is() -> None:
    assert PAGE.read_text() == document.write_page(), (
        "python -m recovery.checkpoints.findings.document > docs/findings.md"
    )


def test_every_code_of_the_table_is_made_somewhere() -> None:
    room = Path(formats.__file__).parent
    text = "".join(p.read_text() for p in room.rglob("*.py") if p.parent.name != "findings")
    assert {k.code for k in TABLE} == {c for c in BY_CODE if f'"{c}"' in text}


def test_a_finding_blocks_unless_the_next_run_goes_on() -> None:
    assert {k.code for k in TABLE if k.severity is Severity.BLOCKER} == {
        k.code for k in TABLE if k.predicts not in (Outcome.GOES_ON, Outcome.OPEN)
    }


@pytest.mark.parametrize(
    ("outcomes", "wins"),
    [
        ([], Outcome.GOES_ON),
        ([Outcome.GOES_ON, Outcome.DOUBLES], Outcome.DOUBLES),
        ([Outcome.DOUBLES, Outcome.LOSES], Outcome.LOSES),
        ([Outcome.LOSES, Outcome.UNREADABLE_TABLE], Outcome.UNREADABLE_TABLE),
        ([Outcome.UNREADABLE_TABLE, Outcome.FAILS, Outcome.GOES_ON], Outcome.FAILS),
        ([Outcome.UNKNOWN, Outcome.GOES_ON], Outcome.UNKNOWN),
    ],
)
def test_of_several_findings_the_worst_outcome_is_predicted(outcomes: list[Outcome], wins: Outcome) -> None:
    findings = tuple(Finding("CODE", Severity.INFO, "says", "do", outcome=o) for o in outcomes)
    report = CheckpointReport("/ck", "none", None, None, None, None, findings=findings)
    assert (report.outcome, report.as_dict()["outcome"]) == (wins, wins.value)
