"""The page of the documentation says what the table says."""

from pathlib import Path

from recovery.diagnosis.guide import write_markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "diagnosis.md"


def test_the_page_equals_the_table() -> None:
    assert PAGE.read_text() == write_markdown(), "run: python -m recovery.diagnosis.guide > docs/diagnosis.md"
