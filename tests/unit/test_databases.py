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
    ("url", "module", "named", "left_out"),
    [
        ("postgresql:///x", RULES, "tests/unit", True),
        ("postgresql:///x", PAGES, "tests/unit", False),
        ("postgresql:///x", RULES, f"{RULES}::test_sort", False),
        ("postgresql:///x", databases.UNIT.parent / "contract" / "test_openapi.py", "tests", False),
        ("", RULES, "tests/unit", False),
    ],
)
def test_postgresql_leaves_out_the_unit_tests_that_name_no_database(
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
    url: str,
    module: Path,
    named: str,
    left_out: bool,
) -> None:
    monkeypatch.setenv(databases.VARIABLE, url)
    monkeypatch.setattr(pytestconfig, "args", [named])

    assert databases.is_left_out(pytestconfig, module) is left_out
