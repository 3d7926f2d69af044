"""Which tests stay together on one worker, and that those that strike the instance come last."""

import gc
import json
from pathlib import Path

import pytest

from tests import order

HERE = Path(__file__).relative_to(Path(__file__).parents[2]).as_posix()


@pytest.fixture(scope="module")
def dear() -> int:
    return 1


@pytest.fixture
def cheap() -> int:
    return 2


def test_tests_with_a_fixture_of_their_module_stay_together(
    request: pytest.FixtureRequest, dear: int
) -> None:
    assert order.group_of(request.node) == HERE


def test_other_tests_go_to_whoever_is_free(request: pytest.FixtureRequest, cheap: int) -> None:
    assert order.group_of(request.node) == ""


def test_those_that_strike_the_instance_are_one_group_and_come_last(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    others = [item for item in request.session.items if item is not request.node][:2]
    request.node.add_marker(order.ALONE)
    mixed = [others[0], request.node, *others[1:]]

    order.sort(mixed)
    order.group([request.node])
    order.tell(mixed, tmp_path, "gw0")

    assert (mixed[-1], order.group_of(request.node)) == (request.node, order.ALONE)
    assert json.loads((tmp_path / order.GROUPS).read_text())[request.node.nodeid] == order.ALONE
    scheduler = order.Groups.__new__(order.Groups)
    scheduler.folder, scheduler.group = tmp_path, None
    assert scheduler._split_scope(request.node.nodeid) == order.ALONE
    assert scheduler._split_scope("tests/other.py::test") == "tests/other.py::test"


def test_modules_that_begin_first_are_there() -> None:
    assert [module for module in order.LONG if not (Path(__file__).parents[2] / module).exists()] == []


def test_garbage_is_searched_for_and_what_collection_made_is_left_out() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
