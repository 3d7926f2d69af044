"""Reads what a verdict needs after the rerun: checkpoint, table log, events, and Spark's comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from recovery.checkpoints import inspect
from recovery.checkpoints.reconciled import counted
from recovery.checkpoints.report import CheckpointReport, Entries, SourceProgress
from recovery.pipelines import events as api_events
from recovery.pipelines.workspaces import spark_remote
from recovery.sinks.base import SinkReport
from recovery.sinks.live import files as sink_files
from recovery.sources.uris import decoded
from recovery.spark.api import Measure, MeasureRequest, StudyRequest, measure, study
from recovery.verification.evidence import Evidence, FirstBatch, arrivals, new_data_files, new_inputs
from recovery.workflow.gather import Scene, listing, request_for

# a repaired version holds the old one's logs, mended: it is cut back to the position as one that went on
SCOPES = {"continue": "both", "revert": "same", "repair": "same", "full-refresh": "new"}


def listed(body: Mapping[str, Any]) -> dict[str, list[str]]:
    """Input files that lie there now, by source index (as text: it is kept as JSON)."""
    return {str(s["source"]): [f.path for f in listing(s["location"], s["options"])] for s in body["inputs"]}


def collect(
    scene: Scene,
    body: Mapping[str, Any],
    *,
    seen: Mapping[str, Sequence[str]],
    sink_before: Sequence[str],
    update_id: str,
) -> Evidence:
    """Evidence of one rerun, but for the other places and the further update, which come after.

    `seen`: what was listed right before the rerun; `sink_before`: the data files of the table's log then.
    """
    scope = SCOPES[body["strategy"]]
    new = scene.checkpoint
    old = _old(scene, body, scope)
    before = _sink_before(scene, body, sink_before)
    evidence = Evidence(
        scope=scope,
        old=old,
        new=new,
        listed=_listed(old, body, seen, scope),
        first_batch=first_batch(scene, update_id),
        sink_before=before,
        sink_after=scene.sink,
        measure=None,
        planned=_planned(old, body),
    )
    inputs, files = new_inputs(scope, old, new), new_data_files(scope, before, scene.sink)
    found = _measure(scene, body, scope, inputs, files, sink_before)
    evidence = replace(evidence, measure=found, measured_inputs=inputs, measured_files=files)
    late = arrivals(evidence)
    return replace(evidence, arrived_rows=_arrived_rows(scene, body, late)) if late else evidence


def _old(scene: Scene, body: Mapping[str, Any], scope: str) -> CheckpointReport:
    """The checkpoint as it was when the plan was sealed. A version that went on is cut back to then."""
    planned = body["preconditions"]["checkpoint"]
    if scope != "same":
        found = inspect(f"{scene.checkpoint_place}/{planned['version']}")
        return counted(found, body["numbering"]["next_batch"] - 1) if scope == "both" else found
    offsets = [p["before"]["offset_json"] for p in body["positions"]]
    cut = tuple(_cut(s, o) for s, o in zip(scene.checkpoint.sources, offsets, strict=True))
    return replace(scene.checkpoint, sources=cut, last_committed=planned["last_committed"])


def _cut(source: SourceProgress, offset: str | None) -> SourceProgress:
    edge = api_events.as_object(offset).get("logOffset") if offset else None
    edge = -1 if edge is None else int(edge)
    kept = Entries.of(e for e in source.committed if e.batch_id <= edge)
    return replace(source, committed=kept, offset_json=offset, log_offset=edge, planned=Entries())


def _sink_before(scene: Scene, body: Mapping[str, Any], files: Sequence[str]) -> SinkReport:
    head = body["preconditions"]["sink"]["head"]
    return SinkReport("files", scene.sink.location, head, older=tuple(files))


def _planned(old: CheckpointReport, body: Mapping[str, Any]) -> dict[int, tuple[str, ...]]:
    read = {s.index: tuple(decoded(e.path) for e in s.committed) for s in old.sources}
    return {int(s["source"]): (*read.get(int(s["source"]), ()), *s["waiting"]) for s in body["inputs"]}


def _listed(
    old: CheckpointReport, body: Mapping[str, Any], seen: Mapping[str, Sequence[str]], scope: str
) -> dict[int, tuple[str, ...]]:
    """Files that must stand in one batch: known to the plan, or there when the rerun began.

    Read again from nothing ("new"), a file that is gone cannot come back and is not asked for.
    """
    found = {}
    for index, paths in _planned(old, body).items():
        gone = (
            set(next(s["gone"] for s in body["inputs"] if int(s["source"]) == index))
            if scope == "new"
            else set()
        )
        here = seen.get(str(index), ())
        found[index] = tuple(dict.fromkeys(p for p in (*paths, *here) if p not in gone))
    return found


def first_batch(scene: Scene, update_id: str) -> FirstBatch | None:
    """The first batch of this flow that the update's events tell of; None when they tell of none."""
    flow = scene.flow
    told = scene.client.events(flow.pipeline.pipeline_id, filter=f"update_id = '{update_id}'", limit=1000)
    first: FirstBatch | None = None
    for event in told:
        if event.get("event_type") != "stream_progress" or api_events.flow_name(event) != flow.name:
            continue
        body = api_events.details(event)
        body = api_events.as_object(body.get("progress_json") or body.get("progress") or body)
        batch, sources = body.get("batchId"), body.get("sources")
        if isinstance(batch, int) and isinstance(sources, list) and (first is None or batch < first.batch):
            first = FirstBatch(batch, tuple(api_events.as_object(s).get("startOffset") for s in sources))
    return first


def _measure(
    scene: Scene,
    body: Mapping[str, Any],
    scope: str,
    inputs: tuple[str, ...],
    files: tuple[str, ...],
    sink_before: Sequence[str],
) -> Measure:
    key = tuple(body["key"])
    return measure(
        MeasureRequest(
            remote=spark_remote(scene.flow.pipeline.workspace),
            table=body["dataset"],
            old_files=() if scope == "new" else tuple(sink_before),
            new_files=files,
            study=_request(scene, {"new": inputs}, key),
            key=key or None,
            state_kept=scope == "same",
        )
    )


def _request(scene: Scene, sets: Mapping[str, tuple[str, ...]], key: tuple[str, ...]) -> StudyRequest:
    return request_for(scene, scene.code, sets, key)


def _arrived_rows(scene: Scene, body: Mapping[str, Any], late: tuple[str, ...]) -> int | None:
    """Rows of the files that the plan did not know; with kept state nobody can tell them apart."""
    if body["state"] == "keep" and scene.checkpoint.state_operators:
        return None
    return study(_request(scene, {"arrived": late}, tuple(body["key"]))).rows.get("arrived")


def table_rows(scene: Scene, dataset: str) -> int | None:
    """Rows of the table, counted in a session of its own."""
    request = replace(_request(scene, {}, ()), table=dataset)
    return study(request).table_rows


def sink_of(body: Mapping[str, Any]) -> SinkReport:
    """The table's log as it is now."""
    return sink_files.read(body["table_place"])
