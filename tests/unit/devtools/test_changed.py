"""What a change asks for, by the import graph."""

import grimp
import pytest

from devtools import changed

ALL = [str(path.relative_to(changed.ROOT)) for path in (changed.ROOT / "tests/unit").rglob("test_*.py")]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*changed.PACKAGES, cache_dir=None)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("recovery/audit/chain.py", "tests/unit/audit/test_audit_chain.py"),
        ("recovery/strategies/rewind.py", "tests/unit/strategies/test_rewind.py"),
    ],
)
def test_a_module_asks_the_tests_that_import_it_directly_or_through_others(
    graph: grimp.ImportGraph, path: str, asked: str
) -> None:
    chosen = changed.choose_tests([path], graph)

    assert asked in chosen.unit
    assert chosen.smoke


def test_the_nearest_tests_come_first_and_those_past_three_minutes_are_left_out(
    graph: grimp.ImportGraph,
) -> None:
    path, near = "recovery/audit/chain.py", "tests/unit/audit/test_audit_chain.py"
    every = changed.choose_tests([path], graph, dict.fromkeys(ALL, 0.0))
    some = changed.choose_tests([path], graph, dict.fromkeys(ALL, 10.0))

    assert every.left_out == ()
    assert some.unit + some.left_out == every.unit
    assert len(some.unit) == changed.HELD_WITH_SMOKE / 10
    assert near in some.unit
    steps = dict(changed.count_imports(changed.module_of(path), graph))
    far = [steps.get(changed.module_of(test), 1) for test in every.unit]
    assert far == sorted(far)


def test_a_test_that_imports_the_change_itself_is_never_left_out(graph: grimp.ImportGraph) -> None:
    path = "recovery/audit/chain.py"
    chosen = changed.choose_tests([path], graph, dict.fromkeys(ALL, 1000.0))

    direct = graph.find_modules_that_directly_import(changed.module_of(path))
    assert {changed.path_of(m) for m in direct if "test_" in m} <= set(chosen.unit)
    assert chosen.left_out


def test_a_module_that_few_import_asks_few(graph: grimp.ImportGraph) -> None:
    every = len(list((changed.ROOT / "tests/unit").rglob("test_*.py")))

    assert 0 < len(changed.choose_tests(["console/presenters/diff.py"], graph).unit) < every / 4


def test_a_process_that_nobody_imports_asks_the_tests_that_name_it(graph: grimp.ImportGraph) -> None:
    chosen = changed.choose_tests(["recovery/server/runner.py"], graph)

    assert chosen.unit
    assert all(path.startswith("tests/unit/") for path in chosen.unit)


@pytest.mark.parametrize("path", ["tests/conftest.py", "pyproject.toml", "console/settings.py"])
def test_what_every_test_stands_on_asks_them_all(graph: grimp.ImportGraph, path: str) -> None:
    assert changed.choose_tests([path], graph).unit == ("tests/unit",)


def test_a_test_asks_itself_and_no_recovery(graph: grimp.ImportGraph) -> None:
    unit = changed.choose_tests(["tests/unit/audit/test_audit_chain.py"], graph)
    running = changed.choose_tests(["tests/integration/test_measures.py"], graph)

    assert unit == changed.ChangedTests(("tests/unit/audit/test_audit_chain.py",), (), (), smoke=False)
    assert running == changed.ChangedTests((), (), ("tests/integration/test_measures.py",), smoke=False)


@pytest.mark.parametrize(
    "path", ["templates/base.html", "console/presenters/reviewing.py", "console/pages/run.py"]
)
def test_what_only_pages_show_asks_the_pages_and_no_recovery(graph: grimp.ImportGraph, path: str) -> None:
    """Pages are reached by their address, so no test imports them."""
    chosen = changed.choose_tests([path], graph)

    assert "tests/unit/pages/test_approvals.py" in chosen.unit
    assert not chosen.smoke


def test_the_api_asks_its_tests(graph: grimp.ImportGraph) -> None:
    assert "tests/unit/api/test_recoveries.py" in changed.choose_tests(["console/api/base.py"], graph).unit


def test_a_presenter_asks_the_tests_that_import_it_too(graph: grimp.ImportGraph) -> None:
    chosen = changed.choose_tests(["console/presenters/diff.py"], graph)

    assert "tests/unit/pages/test_presenters.py" in chosen.unit


def test_a_page_of_docs_asks_the_tests_that_read_it(graph: grimp.ImportGraph) -> None:
    chosen = changed.choose_tests(["docs/operators-guide.md"], graph)

    assert "tests/unit/supervisor/test_operators_guide.py" in chosen.unit
    assert not chosen.smoke
