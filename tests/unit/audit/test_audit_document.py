"""The list of codes in the documentation is the list in the code."""

from pathlib import Path

from recovery.audit import document, tags

PAGE = Path(__file__).resolve().parents[3] / "docs" / "audit-actions.md"


def test_the_page_is_what_the_registry_says() -> None:
    assert PAGE.read_text() == document.write_page(), (
        "python -m recovery.audit.document > docs/audit-actions.md"
    )


def test_success_and_failure_have_codes_of_their_own_and_no_two_are_alike() -> None:
    codes = [tags.code_of_action(action, outcome) for action in tags.ACTIONS for outcome in tags.OUTCOMES]
    assert len(set(codes)) == len(codes) == 4 * len(tags.ACTIONS)
