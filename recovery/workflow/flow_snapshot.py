"""What the API and the disk say about one flow, read once. Only of a sink that the code declares is code run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from recovery import reach
from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.inspection import inspect_with_state
from recovery.checkpoints.report import CheckpointReport
from recovery.contracts.plan import CheckpointMark, Preconditions, SinkMark
from recovery.errors import Refused
from recovery.models import Flow
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.inputs import all_noted_ids
from recovery.pipelines.workspaces import client_for, questions_service
from recovery.sinks import unknown
from recovery.sinks.base import SinkReport
from recovery.sinks.live import reading as sinks
from recovery.spark.api import (
    CatalogState,
    Study,
    StudyRequest,
    TablePlace,
    study,
    whereabouts,
)
from recovery.strategies.base import checkpoint_watched, table_watched
from recovery.workflow import (
    declared,
    fingerprints,
    inputs,
)
from recovery.workflow.budgets import budgets
from recovery.workflow.deployed import last_good_source, read_code
from recovery.workflow.places import checkpoint_of, sink_of_stream, storage_of
from recovery.workflow.studied import code_request
from recovery.workflow.usual import usual_rows_per_second, usual_update_seconds

ACTIVE = {
    "QUEUED",
    "CREATED",
    "WAITING_FOR_RESOURCES",
    "INITIALIZING",
    "RESETTING",
    "SETTING_UP_TABLES",
    "RUNNING",
    "STOPPING",
}
NO_COUNTS = inputs.CountRequest({}, {})
STATE_NOT_LOADED = "CANNOT_LOAD_STATE_STORE"
"""So the conditions begin of a run whose state could not be loaded."""
LARGEST_STATE_READ = 4 << 30
"""Bytes; a larger state is not read while somebody waits for a plan."""


def find_active_update(answer: Mapping[str, Any]) -> str | None:
    """The id of the update that has not ended yet, from a get-pipeline answer."""
    updates = answer.get("latest_updates") or []
    return next((u["update_id"] for u in updates if u.get("state") in ACTIVE), None)


@dataclass(frozen=True)
class FlowSnapshot:
    """What the API and the disk say about a flow, before any code is run. `now` fills plan preconditions."""

    flow: Flow
    client: PipelinesClient
    pipeline: Mapping[str, Any]  # get-pipeline answer
    code: Mapping[str, str]  # workspace path -> text
    libraries: tuple[str, ...]
    checkpoint_place: str
    checkpoint: CheckpointReport
    table_place: str
    sink: SinkReport
    others: Mapping[str, str]  # table name -> location, this flow's own left out
    active_update: str | None
    last_update: str | None
    storage: str = field(default="")
    noted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # ids of Kafka topics, by source
    writes: Mapping[str, Any] = field(
        default_factory=dict
    )  # the sink as the code declares it, secrets included
    driver: str = ""  # the run of Spark that told where the tables lie; "": it was not asked
    made: str = ""  # when the catalog says that the table was made
    usual_seconds: float | None = None  # of an update of this pipeline; None: none was seen
    rows_per_second: float | None = None  # that the flow reads; None: not known

    @property
    def spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.pipeline.get("spec") or {}
        return spec

    def preconditions(self) -> Preconditions:
        """What a plan relies on; read again at execution and compared."""
        return Preconditions(
            checkpoint=CheckpointMark(
                version=self.checkpoint.version,
                last_committed=self.checkpoint.last_committed,
                fingerprint=self.checkpoint.fingerprint,
            ),
            code=fingerprints.of_code(self.code),
            settings=fingerprints.of_settings(self.spec),
            sink=SinkMark(
                head=self.sink.head,
                fingerprint=self.sink.fingerprint,
                declared=self.sink.declared or None,
            ),
            active_update=self.active_update,
        )


@reach.of_flow
def read_flow_snapshot(flow: Flow, *, known: Mapping[str, str] | None = None) -> FlowSnapshot:
    """Read API, source, checkpoint and sink of a flow.

    `known`: where tables lie, from a plan; without it Spark's catalog is asked. Raises
    Unreachable (API, Spark, storage, Kafka), NotFound (pipeline gone), Refused (no storage root, no table and no sink).
    """
    client = client_for(flow.pipeline.workspace)
    answer = client.get_pipeline(flow.pipeline.pipeline_id)
    spec = answer.get("spec") or {}
    storage = storage_of(flow, spec)
    libraries, code = read_code(client, spec)
    place = checkpoint_of(flow, storage)
    told = CatalogState("", {}) if known else whereabouts_of(flow)
    known = known or {name: table.location for name, table in told.tables.items()}
    own = known.get(flow.dataset) or ""
    report = _inspect_flow_checkpoint(flow, place, own or None)
    updates = answer.get("latest_updates") or []
    snapshot = FlowSnapshot(
        flow=flow,
        client=client,
        pipeline=answer,
        code=code,
        libraries=libraries,
        checkpoint_place=place,
        checkpoint=report,
        table_place=own,
        sink=sinks.read_table(own, query_id=report.query_id) if own else unknown.empty_report(flow.dataset),
        others={name: where for name, where in known.items() if name != flow.dataset},
        active_update=find_active_update(answer),
        last_update=updates[0]["update_id"] if updates else None,
        storage=storage,
        noted=all_noted_ids(flow),
        driver=told.driver,
        made=told.tables[flow.dataset].made if flow.dataset in told.tables else "",
        usual_seconds=usual_update_seconds(flow),
        rows_per_second=usual_rows_per_second(flow),
    )
    return snapshot if own else _into_sink(snapshot)


def _inspect_flow_checkpoint(flow: Flow, place: str, table_place: str | None) -> CheckpointReport:
    """The checkpoint beside its table. After a run that could not load its state each state file is read: its names
    alone do not show what is damaged in it."""
    if flow.state == "failed" and flow.condition.startswith(STATE_NOT_LOADED):
        return inspect_with_state(place, sink=table_place, most_bytes=LARGEST_STATE_READ)
    return inspect_checkpoint(place, sink=table_place)


def _into_sink(snapshot: FlowSnapshot) -> FlowSnapshot:
    """The snapshot of a flow without a table: its code says which sink it declares. Raises Refused, Unreachable."""

    def ask(files: Mapping[str, str]) -> Study:
        return study(request_for(snapshot, files, NO_COUNTS, ()))

    codes = (lambda: snapshot.code), (lambda: last_good_code(snapshot))
    found = declared.find_declared_sink(
        snapshot.flow.dataset,
        snapshot.checkpoint,
        partial(_inspect_flow_checkpoint, snapshot.flow, snapshot.checkpoint_place),
        ask,
        codes,
    )
    return replace(
        snapshot, checkpoint=found.checkpoint, table_place=found.place, sink=found.sink, writes=found.told
    )


def whereabouts_of(flow: Flow) -> CatalogState:
    """Which run of Spark answers, and where its catalog says that the tables of this flow's pipeline lie, by
    `catalog.schema.table`."""
    if flow.pipeline.workspace.has_streams and (place := sink_of_stream(flow)):
        told = whereabouts(questions_service(flow.pipeline.workspace, flow.pipeline.environment), [])
        return CatalogState(told.driver, {flow.dataset: TablePlace(place, "")} if flow.dataset else {})
    mine = set(flow.pipeline.flows.exclude(dataset="").values_list("dataset", flat=True))
    named = sorted(name for name in mine if name.count(".") == 2)
    return whereabouts(questions_service(flow.pipeline.workspace, flow.pipeline.environment), named)


def known_tables(flow: Flow) -> dict[str, str]:
    """Where the tables of this flow's pipeline lie, by `catalog.schema.table`. Asks Spark's catalog."""
    return {name: table.location for name, table in whereabouts_of(flow).tables.items()}


def last_good_code(snapshot: FlowSnapshot) -> dict[str, str] | None:
    """Source of the newest update that completed, where the API can tell; merged over today's files."""
    found = last_good_source(snapshot.client, snapshot.flow.pipeline.pipeline_id)
    return None if found is None else {**snapshot.code, **found}


def request_for(
    snapshot: FlowSnapshot,
    files: Mapping[str, str],
    wanted: inputs.CountRequest,
    key: tuple[str, ...],
    *,
    by_file: bool = False,
) -> StudyRequest:
    """What the Spark room needs to study this flow with that code over those inputs."""
    return replace(
        code_request(
            questions_service(snapshot.flow.pipeline.workspace, snapshot.flow.pipeline.environment),
            snapshot.flow.name,
            snapshot.spec,
            snapshot.libraries,
            files,
        ),
        sets=dict(wanted.sets),
        slices=dict(wanted.slices),
        key=key or None,
        table=snapshot.flow.dataset if (wanted.sets or by_file) and not snapshot.sink.declared else None,
        by_file=by_file,
        budgets=budgets(snapshot.flow.name),
    )


def other_fingerprints(snapshot: FlowSnapshot) -> dict[str, str]:
    """Fingerprint of every other flow's checkpoint and every other table of this schema."""
    found = {
        table_watched(name): fingerprints.of_tree(where) for name, where in sorted(snapshot.others.items())
    }
    for flow in snapshot.flow.pipeline.flows.exclude(pk=snapshot.flow.pk).filter(streaming=True):
        try:
            found[checkpoint_watched(flow.name)] = fingerprints.of_checkpoint(
                checkpoint_of(flow, snapshot.storage)
            )
        except Refused:
            continue  # a flow that has never run writes nothing that could change
    return found
