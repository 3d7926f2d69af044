"""Runs the incident: good updates over arriving files, an edit, more files, and the update that fails.

It can be interrupted and called again: an update that completed is not run twice, a file that arrived
stays as it is, and the marker file, written last, says that all is done (a recovery later must not
bring the incident back).
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from console.incident.data import Arrivals, File, make_arrivals
from console.incident.definition import Variant, write_definition
from console.incident.updates import (
    CATALOG,
    Edit,
    Tell,
    WantedPipeline,
    ensure_pipeline,
    failing_update,
    good_updates,
    ignore_progress,
    run_update,
)
from recovery import foreign
from recovery.foreign import ForeignFolder
from recovery.pipelines.client import PipelinesClient

MOST_FILES = 1_000_000
__all__ = ["Incident", "make_incident", "put_files", "run_update"]


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


def make_incident(
    client: PipelinesClient, *, base: Path, name: str = "customers", schema: str = "crm",
    explicit_flows: bool = True, sources: int = 1, batches: int = 3, environment: str = "development",
    fail: bool = True, tell: Tell = ignore_progress,
) -> Incident:  # fmt: skip
    """Make the pipeline `name` and run it until its flow fails; with `fail=False` only the good updates.

    `base` takes the arriving files. `name` must be a Python name: tables and flows are called after it.
    Takes some seconds for every update. Raises Refused when an update ends otherwise than it must,
    Unreachable when one does not end.
    """
    variant = Variant(name, explicit_flows, sources)
    coming = make_arrivals(batches=batches, sources=sources)
    wanted = WantedPipeline(name, schema, environment)
    good, edited = (write_definition(variant, f"file:{base}", deduplicate=kept) for kept in (True, False))
    pipeline = ensure_pipeline(client, wanted, good)
    marker = base / "incident.json"
    if not marker.exists():
        good_updates(
            client, pipeline, batches, lambda index: let_files_arrive(coming.good[index], base), tell
        )
        if fail:
            edit = Edit(wanted.source, edited, "dropDuplicates taken out")
            failing_update(client, pipeline, edit, lambda: let_files_arrive(coming.waiting, base), tell)
            line = json.dumps({"pipeline_id": pipeline, "name": name})
            ForeignFolder(base.parent).write(f"{base.name}/{marker.name}", line.encode())
    prefix = f"{CATALOG}.{schema}."
    return Incident(
        pipeline, name, prefix + variant.flow, prefix + variant.table, prefix + variant.snapshot,
        prefix + variant.view, base, wanted.source, good, edited, coming,
    )  # fmt: skip


def let_files_arrive(files: tuple[File, ...], base: Path) -> str:
    """Let them arrive; says how many changes they hold."""
    put_files(files, base)
    return f"{sum(len(f.records) for f in files if f.folder != 'snapshot')} changes"


def put_files(files: tuple[File, ...], base: Path) -> None:
    """Put files there, whole at once, each with a later time than every one before it.

    Spark's file source orders by modification time in milliseconds. Pipelines' code may write in the same folders.
    """
    base.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place, name = foreign.split(base, 1)
    for folder in {file.folder for file in files}:
        place.make_folder(f"{name}/{folder}")
    present = set(place.files(name, most=MOST_FILES))
    times = [place.facts(path).st_mtime_ns for path in present if path.endswith(".json")]
    latest = max(times, default=0)
    for file in files:
        path = f"{name}/{file.folder}/{file.name}"
        if path in present:
            continue
        latest = max(time.time_ns(), latest + 2_000_000)
        place.write(path, file.text.encode(), at_ns=latest)
