"""Which test modules a run on PostgreSQL leaves unread, and that none of them has a test of the database."""

from pathlib import Path

import pytest

from tests import databases

RULES = databases.UNIT / "test_order.py"
PAGES = databases.UNIT / "people" / "test_truth_table.py"


def test_no_module_with_a_test_of_the_database_is_left_unread(request: pytest.FixtureRequest) -> None:
    """Of all modules that this run has collected: a fixture or a mark by another name makes this fail."""
    using = {item.path for item in request.session.items if databases.uses_database(item)}
    assert sorted(path.name for path in using if not databases.mentions_database(path)) == []


@pytest.mark.parametrize(
    ("url", "module", "left_out"),
    [
        ("postgresql:///x", RULES, True),
        ("postgresql:///x", PAGES, False),
        ("postgresql:///x", databases.UNIT.parent / "contract" / "test_process.py", False),
        ("", RULES, False),
    ],
)
def test_postgresql_leaves_out_the_unit_tests_that_name_no_database(
    monkeypatch: pytest.MonkeyPatch, url: str, module: Path, left_out: bool
) -> None:
    monkeypatch.setenv(databases.VARIABLE, url)

    assert databases.is_left_out(module) is left_out
