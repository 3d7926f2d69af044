"""Which names of a start request Spark can take, and which checkpoints are begun anew."""

from typing import Any

import pytest

from recovery.server.graph import Dataset, Graph, GraphFlow
from recovery.server.resets import Selection, SelectionRefused, list_emptied, prepare_run
from tests.refusals import refused

SPEC = {"catalog": "spark_catalog", "schema": "db"}
TABLE, SINK = "spark_catalog.db.orders", "clicks_out"
GRAPH = Graph(
    (
        GraphFlow(TABLE, TABLE, "APPEND", "PYTHON", streaming=True),
        GraphFlow("to_topic", SINK, "APPEND", "PYTHON", streaming=True),
    ),
    (Dataset(TABLE, "STREAMING_TABLE"), Dataset(SINK, "SINK")),
)


class Driver:
    """Every flow has checkpoint version 0; notes which version is made."""

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []

    def versions(self, folder: str) -> list[int]:
        return [0]

    def make_version(self, folder: str, version: int) -> None:
        self.made.append((folder, version))


def run(**options: Any) -> tuple[dict[str, int], list[tuple[str, int]]]:
    driver: Any = Driver()
    return prepare_run(driver, "/s", GRAPH, Selection.from_request(options, SPEC)), driver.made


@pytest.mark.parametrize("name", ["to_topic", "spark_catalog.db.to_topic"])
def test_the_checkpoint_of_a_flow_into_a_sink_is_reset_by_its_bare_name(name: str) -> None:
    versions, made = run(reset_checkpoint_selection=[name])

    assert versions == {TABLE: 0, "to_topic": 1}
    assert made == [("/s/_checkpoints/clicks_out/to_topic", 1)]


@pytest.mark.parametrize("selection", ["refresh_selection", "full_refresh_selection"])
@pytest.mark.parametrize("name", [SINK, f"spark_catalog.db.{SINK}"])
def test_a_sink_in_a_selection_is_refused_with_what_to_do(selection: str, name: str) -> None:
    with refused("sink_selected", SelectionRefused, names=("clicks_out",)):
        run(**{selection: [name]})


def test_a_name_that_nothing_has_is_refused_in_the_services_words() -> None:
    with refused("no_such_table", SelectionRefused, names=("spark_catalog.db.none",)):
        run(refresh_selection=["none"])
    with refused("no_such_flow", SelectionRefused, names=("spark_catalog.db.none",)):
        run(reset_checkpoint_selection=["none"])


def test_a_full_refresh_of_everything_resets_a_sink_too() -> None:
    versions, made = run(full_refresh=True)

    assert versions == {TABLE: 1, "to_topic": 1}
    assert made == [], "Spark makes these versions itself"


VIEW, COPY = "spark_catalog.db.newest", "spark_catalog.db.copy"
VIEWS = Graph(
    (),
    (
        Dataset(TABLE, "STREAMING_TABLE"),
        Dataset(COPY, "STREAMING_TABLE"),
        Dataset(VIEW, "MATERIALIZED_VIEW"),
        Dataset("passing", "VIEW"),
        Dataset(SINK, "SINK"),
    ),
)


@pytest.mark.parametrize(
    ("options", "datasets"),
    [
        ({}, {VIEW}),
        ({"refresh_selection": [TABLE]}, set()),
        ({"refresh_selection": ["newest"]}, {VIEW}),
        ({"full_refresh_selection": [TABLE]}, {TABLE}),
        ({"full_refresh_selection": [TABLE], "refresh_selection": [VIEW]}, {TABLE, VIEW}),
        ({"full_refresh": True}, {TABLE, COPY, VIEW}),
    ],
)
def test_set_up_empties_the_views_that_are_selected_and_what_is_refreshed_in_full(
    options: dict[str, Any], datasets: set[str]
) -> None:
    assert set(list_emptied(VIEWS, Selection.from_request(options, SPEC))) == datasets
