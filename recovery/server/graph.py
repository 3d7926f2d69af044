"""A dataflow graph as plain values, read from the driver: exact for Python and SQL definitions alike."""

from dataclasses import dataclass
from typing import Any

from recovery.server.driver import Driver

DATASET_TYPES = {
    "STREAMING_TABLE": "APPEND",
    "MATERIALIZED_VIEW": "MATERIALIZED_VIEW",
    "VIEW": "VIEW",
    "SINK": "APPEND",
}


@dataclass(frozen=True)
class Dataset:
    """A table, view or sink. `kind` is STREAMING_TABLE, MATERIALIZED_VIEW, VIEW or SINK."""

    name: str
    kind: str


@dataclass(frozen=True)
class GraphFlow:
    """A flow: `catalog.schema.flow` into `catalog.schema.table`; `inputs`, `schema_json`: None before analysis."""

    name: str
    dataset: str
    flow_type: str
    language: str
    once: bool = False
    streaming: bool = False
    inputs: tuple[str, ...] | None = None
    schema_json: str | None = None

    @property
    def checkpoint(self) -> str:
        """Where Spark keeps its checkpoint, below `<storage>/_checkpoints/` (`FlowSystemMetadata` of Spark)."""
        return "/".join([*self.dataset.split("."), self.name.rsplit(".", 1)[-1]])


@dataclass(frozen=True)
class Graph:
    """All flows and datasets of a pipeline, in the order of their definition."""

    flows: tuple[GraphFlow, ...] = ()
    datasets: tuple[Dataset, ...] = ()

    def flow(self, name: str) -> GraphFlow | None:
        """The flow of this full name."""
        return next((flow for flow in self.flows if flow.name == name), None)

    def dataset(self, name: str) -> Dataset | None:
        """The dataset of this full name."""
        return next((dataset for dataset in self.datasets if dataset.name == name), None)

    def sink(self, name: str) -> Dataset | None:
        """The sink of this name, whatever catalog and schema stand before it: a sink has neither."""
        bare = name.rsplit(".", 1)[-1]
        return next((held for held in self.datasets if held.kind == "SINK" and held.name == bare), None)


def qualify_name(name: str, *, catalog: str, database: str) -> str:
    """A name as people write it (`t`, `db.t`, `` `t` ``), with the pipeline's catalog and database before it."""
    parts = name.replace("`", "").split(".")
    return ".".join([catalog, database][: max(0, 3 - len(parts))] + parts)


def read_graph(driver: Driver, raw: Any) -> Graph:
    """The values of Spark's `DataflowGraph`, analysed or not."""
    datasets = [
        Dataset(identifier_of(table), "STREAMING_TABLE" if table.isStreamingTable() else "MATERIALIZED_VIEW")
        for table in driver.elements(raw.tables())
    ]
    datasets += [Dataset(identifier_of(view), "VIEW") for view in driver.elements(raw.views())]
    datasets += [Dataset(identifier_of(sink), "SINK") for sink in driver.elements(raw.sinks())]
    kinds = {dataset.name: dataset.kind for dataset in datasets}
    flows = tuple(read_flow(driver, flow, kinds) for flow in driver.elements(raw.flows()))
    return Graph(flows, tuple(datasets))


def identifier_of(element: Any) -> str:
    """`catalog.schema.name` of a graph element (a temporary view has its bare name)."""
    return str(element.identifier().unquotedString())


def read_inputs(driver: Driver, raw: Any) -> set[str]:
    """Every table that an analysed flow reads, of this pipeline and from outside of it."""
    inner, outer = raw.inputs(), raw.funcResult().usedExternalInputs()
    return {str(i.unquotedString()) for names in (inner, outer) for i in driver.elements(names)}


def read_flow(driver: Driver, raw: Any, kinds: dict[str, str]) -> GraphFlow:
    """The values of one Spark flow; inputs and schema only where it was analysed."""
    name = str(raw.getClass().getSimpleName())
    dataset = str(raw.destinationIdentifier().unquotedString())
    kind = kinds.get(dataset, "STREAMING_TABLE")
    language = raw.origin().language()
    text = str(language.get().toString()) if language.isDefined() else "Python"
    analysed = name in ("StreamingFlow", "CompleteFlow", "AppendOnceFlow", "AutoCdcMergeFlow")
    inputs = sorted(read_inputs(driver, raw)) if analysed else None
    return GraphFlow(
        name=identifier_of(raw),
        dataset=dataset,
        flow_type="CHANGE" if name.startswith("AutoCdc") else DATASET_TYPES[kind],
        language="SQL" if text.lower().startswith("sql") else "PYTHON",
        once=bool(raw.once()),
        streaming=kind in ("STREAMING_TABLE", "SINK"),
        inputs=tuple(inputs) if inputs is not None else None,
        schema_json=str(raw.schema().json()) if analysed else None,
    )
