"""The graph: layers from left to right, nothing overlaps, each node is as its row in the list."""

from itertools import pairwise

import pytest

from console.presenters import dag, flow, status
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


KINDS = {"ok": "ok", "stale": "stale", "empty": "bad", "unknown": "", "stopped": "", "running": ""}


@pytest.mark.django_db
@pytest.mark.parametrize(("state", "kind"), KINDS.items())
def test_each_dataset_below_a_failed_flow_is_drawn_as_its_row_says(state: str, kind: str) -> None:
    failed = factories.incident()
    failed.pipeline.flows.filter(streaming=False).update(state=state)

    graph = flow.draw_graph(failed, failed.pipeline.flows.all())

    kinds = {n.name: n.kind for n in graph.nodes}
    assert kinds == {
        "customers_incremental_flow": "bad",
        "customers_changes": "stale",  # its flow fails: nothing writes it
        "customers (view)": kind,
        "customers_snapshot_flow": "ok",
        "customers_snapshot": "ok",
    }
    view = next(n for n in graph.nodes if n.name == "customers (view)")
    assert view.says.startswith(status.state_badge(status.FLOW, state).word.lower())


@pytest.mark.django_db
@pytest.mark.parametrize("first", ["ok", "failed"])
def test_a_table_that_two_flows_write_shows_the_one_that_fails(first: str) -> None:
    one = factories.flow(state=first)
    other = "failed" if first == "ok" else "ok"
    factories.flow(one.pipeline, "other_flow", dataset=one.dataset, state=other)

    graph = flow.draw_graph(one, one.pipeline.flows.order_by("pk"))

    assert [n.kind for n in graph.nodes if n.name == "customers_snapshot"] == ["stale"]


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


@pytest.mark.django_db
def test_a_table_that_is_not_known_is_drawn_as_such() -> None:
    failed = factories.incident()
    failed.dataset = ""

    names = [node.name for node in flow.draw_graph(failed, [failed]).nodes]

    assert "not known" in names
