"""Runs the incident: good updates over arriving files, an edit, more files, and the update that fails.

It can be interrupted and called again: an update that completed is not run twice, a file that arrived
stays as it is, and the marker file, written last, says that all is done (a recovery later must not
bring the incident back).
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.incident.data import Arrivals, File, arrivals
from console.incident.definition import Variant, definition
from recovery.errors import Refused, Unreachable
from recovery.pipelines.client import PipelinesClient

CATALOG = "spark_catalog"
ENDED = ("COMPLETED", "FAILED", "CANCELED")
UPDATE_SECONDS = 300
CONFIGURATION = {
    "spark.sql.pipelines.maxFlowRetryAttempts": "0",  # a failure that cannot heal needs no second try
    "spark.sql.shuffle.partitions": "2",
}
Tell = Callable[[str, float], None]


@dataclass(frozen=True)
class Incident:
    """A failed pipeline. `flow` and `table` are catalog.schema.name; `source` its path in the workspace."""

    pipeline_id: str
    name: str
    flow: str
    table: str
    snapshot_table: str
    view: str
    base: Path
    source: str
    good_code: str
    failing_code: str
    arrivals: Arrivals


def quiet(what: str, seconds: float) -> None:
    """Tells nobody."""


def make_incident(
    client: PipelinesClient, *, base: Path, name: str = "customers", schema: str = "crm",
    explicit_flows: bool = True, sources: int = 1, batches: int = 3, environment: str = "development",
    fail: bool = True, tell: Tell = quiet,
) -> Incident:  # fmt: skip
    """Make the pipeline `name` and run it until its flow fails; with `fail=False` only the good updates.

    `base` takes the arriving files. `name` must be a Python name: tables and flows are called after it.
    Takes some seconds for every update. Raises Refused when an update ends otherwise than it must,
    Unreachable when one does not end.
    """
    variant = Variant(name, explicit_flows, sources)
    coming = arrivals(batches=batches, sources=sources)
    root = f"/Users/data-team/{name}"
    source = f"{root}/transformations/{name}.py"
    good, edited = (definition(variant, f"file:{base}", deduplicate=wanted) for wanted in (True, False))
    pipeline = find(client, name) or create(client, name, schema, root, environment, source, good)
    marker = base / "incident.json"
    if not marker.exists():
        run_good_updates(client, pipeline, coming, base, tell)
        if fail:
            run_failing_update(client, pipeline, source, edited, coming, base, tell)
            marker.write_text(json.dumps({"pipeline_id": pipeline, "name": name}))
    prefix = f"{CATALOG}.{schema}."
    return Incident(
        pipeline, name, prefix + variant.flow, prefix + variant.table, prefix + variant.snapshot,
        prefix + variant.view, base, source, good, edited, coming,
    )  # fmt: skip


def find(client: PipelinesClient, name: str) -> str | None:
    """Id of the pipeline of exactly this name."""
    matching = client.list_pipelines(filter=f"name LIKE '{name}'")
    return next((str(p["pipeline_id"]) for p in matching if p["name"] == name), None)


def create(
    client: PipelinesClient, name: str, schema: str, root: str, environment: str, source: str, code: str
) -> str:
    """Write the source, then make the pipeline that runs it."""
    client.mkdirs(source.rpartition("/")[0])
    client.import_file(source, code.encode())
    return client.create_pipeline(
        {
            "name": name,
            "catalog": CATALOG,
            "schema": schema,
            "root_path": root,
            "libraries": [{"glob": {"include": f"{root}/transformations/**"}}],
            "configuration": CONFIGURATION,
            "tags": {"environment": environment, "owner": "data-team"},
            "development": environment == "development",
        }
    )


def run_good_updates(
    client: PipelinesClient, pipeline: str, coming: Arrivals, base: Path, tell: Tell
) -> None:
    """Files arrive and an update reads them, as often as there are batches; goes on where it was left."""
    done = sum(1 for u in client.list_updates(pipeline, limit=500) if u["state"] == "COMPLETED")
    for index, files in enumerate(coming.good):
        if index < done:
            continue
        began = time.monotonic()
        arrive(files, base)
        state, why = run_update(client, pipeline)
        if state != "COMPLETED":
            raise Refused(f"Good update {index + 1} of the incident ended as {state}: {why}")
        changes = [f for f in files if f.folder != "snapshot"]
        rows = sum(len(f.records) for f in changes)
        tell(f"Good update {index + 1}: {rows} changes arrive", time.monotonic() - began)


def run_failing_update(
    client: PipelinesClient, pipeline: str, source: str, code: str, coming: Arrivals, base: Path, tell: Tell
) -> None:
    """The edit, three more files, and the update that Spark refuses."""
    client.import_file(source, code.encode(), overwrite=True)
    began = time.monotonic()
    arrive(coming.waiting, base)
    state, _ = run_update(client, pipeline)
    if state != "FAILED":
        raise Refused(f"The update after the edit should have failed and ended as {state}.")
    rows = sum(len(f.records) for f in coming.waiting)
    tell(f"dropDuplicates taken out, {rows} changes wait: it fails", time.monotonic() - began)


def arrive(files: tuple[File, ...], base: Path) -> None:
    """Put files there, whole at once, each with a later time than every one before it.

    Spark's file source orders by modification time in milliseconds.
    """
    for folder in (base.parent, base, *(base / name for name in {file.folder for file in files})):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # `mode` is not for the parents it makes
    times = [path.stat().st_mtime_ns for path in base.glob("*/*.json")]
    latest = max(times, default=0)
    for file in files:
        path = base / file.folder / file.name
        if path.exists():
            continue
        half = path.with_name(f".{path.name}")
        half.write_text(file.text)
        latest = max(time.time_ns(), latest + 2_000_000)
        os.utime(half, ns=(latest, latest))
        half.replace(path)


def run_update(client: PipelinesClient, pipeline: str) -> tuple[str, str]:
    """Start an update, or take the one that is active, and wait for its end: (state, last error message)."""
    active = next((u for u in client.list_updates(pipeline, limit=1) if u["state"] not in ENDED), None)
    update = str(active["update_id"]) if active else client.start_update(pipeline)
    deadline = time.monotonic() + UPDATE_SECONDS
    while time.monotonic() < deadline:
        state = str(client.get_update(pipeline, update)["state"])
        if state in ENDED:
            return state, "" if state == "COMPLETED" else last_error(client, pipeline, update)
        time.sleep(0.25)
    raise Unreachable(f"Update {update} of the incident did not end within {UPDATE_SECONDS} s.")


def last_error(client: PipelinesClient, pipeline: str, update: str) -> str:
    """The newest error event's message; empty when there is none."""
    wanted = f"level = 'ERROR' AND update_id = '{update}'"
    newest: dict[str, Any] = next(iter(client.events(pipeline, filter=wanted, limit=1)), {})
    return str(newest.get("message", ""))
