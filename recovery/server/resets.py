"""What a start request selects, checked against the graph, and the checkpoints that it resets.

A reset makes an empty checkpoint version `<latest+1>`: Spark takes the highest number, the old version stays.
"""

from dataclasses import dataclass, replace
from typing import Any

from recovery.server.driver import Driver
from recovery.server.graph import Graph, qualify_name
from recovery.server.specs import database_of


class SelectionRefused(Exception):
    """The selection does not fit the graph; the update fails with this sentence."""

    class_name = "java.lang.IllegalArgumentException"

    def __init__(self, sentence: str, *, code: str) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True)
class Selection:
    """Full names of what an update refreshes and resets."""

    refresh: tuple[str, ...]
    full_refresh: tuple[str, ...]
    full_refresh_all: bool
    reset_checkpoints: tuple[str, ...]
    validate_only: bool

    @classmethod
    def from_request(cls, options: dict[str, Any], spec: dict[str, Any]) -> "Selection":
        """The selection of a start request, with every name completed."""

        def full(key: str) -> tuple[str, ...]:
            names = options.get(key) or []
            return tuple(
                dict.fromkeys(
                    qualify_name(n, catalog=spec["catalog"], database=database_of(spec)) for n in names
                )
            )

        return cls(
            refresh=full("refresh_selection"),
            full_refresh=full("full_refresh_selection"),
            full_refresh_all=bool(options.get("full_refresh")),
            reset_checkpoints=full("reset_checkpoint_selection"),
            validate_only=bool(options.get("validate_only")),
        )


def check_selection(graph: Graph, selection: Selection) -> None:
    """Every name is in the graph. Raises SelectionRefused in the service's words."""
    for name in selection.refresh + selection.full_refresh:
        dataset = graph.dataset(name)
        if dataset is None and (sink := graph.sink(name)) is not None:
            raise SelectionRefused(
                f"The selection contains {sink.name}, which is a sink: Spark's selections name tables only. Start "
                "the update without a selection; reset_checkpoint_selection takes the sink's flows.",
                code="sink_selected",
            )
        if dataset is None or dataset.kind == "VIEW":
            raise SelectionRefused(
                f"The selection contains table {name}, which does not exist in the graph.",
                code="no_such_table",
            )
    for name in selection.reset_checkpoints:
        flow = graph.flow(name)
        if flow is None:
            raise SelectionRefused(
                f"Reset checkpoint selection should not contain flow {name}, which does not exist in the graph.",
                code="no_such_flow",
            )
        if not flow.streaming:
            raise SelectionRefused(
                f"Reset checkpoint selection should not contain flow {name}, which is not a streaming flow.",
                code="flow_not_streaming",
            )


def spell_selection(graph: Graph, selection: Selection) -> Selection:
    """With the flows of sinks as the graph has them: Spark puts no catalog and schema before those."""
    into_sinks = {f.name for f in graph.flows if graph.sink(f.dataset) is not None}
    bare = {name: name.rsplit(".", 1)[-1] for name in selection.reset_checkpoints if not graph.flow(name)}
    named = (bare[n] if bare.get(n) in into_sinks else n for n in selection.reset_checkpoints)
    return replace(selection, reset_checkpoints=tuple(named))


def prepare_run(driver: Driver, storage: str, graph: Graph, selection: Selection) -> dict[str, int]:
    """Check the selection, make the empty versions, and say which version each streaming flow will use.

    Everything is checked before the first version is made; validate_only makes none. Raises SelectionRefused.
    """
    selection = spell_selection(graph, selection)
    check_selection(graph, selection)
    versions = {}
    for flow in graph.flows:
        if not flow.streaming:
            continue
        folder = f"{storage}/_checkpoints/{flow.checkpoint}"
        latest = max(driver.versions(folder), default=-1)
        if flow.name in selection.reset_checkpoints and latest >= 0 and not selection.validate_only:
            latest += 1
            driver.make_version(folder, latest)
        fresh = selection.full_refresh_all or flow.dataset in selection.full_refresh
        if fresh and latest >= 0 and not selection.validate_only:
            versions[flow.name] = latest + 1  # Spark itself makes this one when it resets the table
        else:
            versions[flow.name] = max(latest, 0)
    return versions


def list_emptied(graph: Graph, selection: Selection) -> tuple[str, ...]:
    """What Spark empties at set-up (`DatasetManager.materializeTable`): every materialized view that an update selects,
    and every table that it refreshes in full."""
    chosen = selection.refresh + selection.full_refresh

    def is_emptied(name: str, kind: str) -> bool:
        if kind == "MATERIALIZED_VIEW":
            return not chosen or name in chosen
        anew = selection.full_refresh_all or name in selection.full_refresh
        return kind == "STREAMING_TABLE" and anew

    return tuple(d.name for d in graph.datasets if is_emptied(d.name, d.kind))
