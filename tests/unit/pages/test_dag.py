"""The graph: layers from left to right, nothing overlaps, what a failure feeds is marked."""

from itertools import pairwise

import pytest

from console.presenters import dag, flow
from tests import factories

ITEMS = [dag.Item(k, k * 5, "ok", "ok") for k in "abcd"]


def test_what_is_fed_stands_to_the_right_of_what_feeds_it() -> None:
    graph = dag.draw_graph("p", "", ITEMS, [("a", "b"), ("b", "d"), ("c", "d"), ("a", "d")])

    x = {n.name[0]: n.x for n in graph.nodes}
    assert x["a"] < x["b"] < x["d"]
    assert x["c"] < x["d"]


def test_nodes_do_not_overlap_and_stay_inside_the_picture() -> None:
    graph = dag.draw_graph("p", "", ITEMS, [("a", "b"), ("a", "c"), ("a", "d")])

    column = sorted(n.y for n in graph.nodes if n.x > 2)
    assert all(b - a >= dag.HEIGHT for a, b in pairwise(column))
    assert all(
        n.x >= 0 and n.x + n.width <= graph.width and n.y + dag.HEIGHT <= graph.height for n in graph.nodes
    )


@pytest.mark.parametrize("edges", [[("a", "a")], [("a", "b"), ("b", "a")], [("a", "z")], []])
def test_a_graph_that_should_not_be_is_drawn_all_the_same(edges: list[tuple[str, str]]) -> None:
    assert len(dag.draw_graph("p", "", ITEMS, edges).nodes) == 4


def test_no_item_gives_an_empty_graph() -> None:
    assert dag.draw_graph("p", "", [], []).nodes == ()


@pytest.mark.django_db
def test_the_table_and_the_view_behind_a_failed_flow_are_out_of_date_and_its_neighbour_is_not() -> None:
    failed = factories.incident()

    graph = flow.graph(failed, failed.pipeline.flows.all())

    kinds = {n.name: n.kind for n in graph.nodes}
    assert kinds == {
        "customers_incremental_flow": "bad",
        "customers_changes": "stale",
        "customers (view)": "stale",
        "customers_snapshot_flow": "ok",
        "customers_snapshot": "ok",
    }


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("FileStreamSource[file:/a/b/changes]", "changes"),
        ("KafkaV2[Subscribe[orders]]", "orders"),
        ("KafkaV2[Subscribe[orders, payments]]", "orders, payments"),
        ("rate", "rate"),
    ],
)
def test_a_source_is_named_by_its_last_part(description: str, name: str) -> None:
    assert dag.source_name(description) == name
