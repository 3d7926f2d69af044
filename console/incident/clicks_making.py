"""Runs the second incident: from Kafka into a Delta table, until its aggregation is changed and Spark refuses it.

As the first one it can be interrupted and called again: clicks that arrived are not written again, an update that
completed is not run again, and the marker file is written last.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from console.incident.clicks import Clicks, list_clicks, make_topic, write_clicks
from console.incident.clicks_definition import EDITED, GOOD, write_definition
from console.incident.updates import (
    CATALOG,
    Edit,
    Tell,
    WantedPipeline,
    ensure_pipeline,
    failing_update,
    good_updates,
    ignore_progress,
)
from recovery.foreign import ForeignFolder
from recovery.pipelines.client import PipelinesClient

# Not `format="delta"` in the code: Spark 4.2 then refuses the second update (DELTA_CANNOT_CHANGE_PROVIDER).
DELTA = {"spark.sql.sources.default": "delta"}


@dataclass(frozen=True)
class ClicksIncident:
    """A failed pipeline over Kafka. `flow` and `table` are the same catalog.schema.name; `source` its path."""

    pipeline_id: str
    name: str
    flow: str
    table: str
    source: str
    servers: str
    topic: str
    good_code: str
    failing_code: str
    arrivals: Clicks


def make_clicks(
    client: PipelinesClient, *, servers: str, base: Path, name: str = "clicks_by_minute", schema: str = "web",
    topic: str = "clicks", steps: tuple[str, str] = (GOOD, EDITED), what: str = "Grouped by country too",
    arrivals: Clicks | None = None, tell: Tell = ignore_progress,
) -> ClicksIncident:  # fmt: skip
    """Make the topic and the pipeline `name` and run it until its flow fails; `base` takes the marker file.

    `steps`: what the code does to the clicks, before and after the edit, and `what` names that edit. Raises Refused
    when an update ends otherwise than it must, Unreachable when one does not end or the broker is silent.
    """
    coming = arrivals or list_clicks()
    wanted = WantedPipeline(name, schema, configuration=DELTA)
    good, edited = (write_definition(table=name, servers=servers, topic=topic, steps=some) for some in steps)
    pipeline = ensure_pipeline(client, wanted, good)
    table = f"{CATALOG}.{schema}.{name}"
    made = ClicksIncident(pipeline, name, table, table, wanted.source, servers, topic, good, edited, coming)
    marker = base / "incident.json"
    if not marker.exists():
        make_topic(servers, topic)
        good_updates(client, pipeline, len(coming.good), lambda index: some_clicks(made, index), tell)
        # Without a new click Spark would not notice the edit.
        failing_update(client, pipeline, Edit(wanted.source, edited, what), lambda: the_rest(made), tell)
        base.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = ForeignFolder(base.parent)
        place.make_folder(base.name)
        place.write(f"{base.name}/{marker.name}", json.dumps(describe_incident(made)).encode())
    return made


def some_clicks(made: ClicksIncident, batch: int) -> str:
    """Let the clicks of a batch arrive; says how many."""
    upto = [c for some in made.arrivals.good[: batch + 1] for c in some]
    write_clicks(made.servers, made.topic, upto)
    return f"{len(made.arrivals.good[batch])} clicks"


def the_rest(made: ClicksIncident) -> str:
    """Let all of the clicks arrive; says how many are new."""
    write_clicks(made.servers, made.topic, made.arrivals.all())
    return f"{len(made.arrivals.waiting)} clicks"


def describe_incident(made: ClicksIncident) -> dict[str, str | int]:
    """What a person looks for: which pipeline, where its clicks are."""
    return {
        "pipeline_id": made.pipeline_id,
        "name": made.name,
        "flow": made.flow,
        "kafka": made.servers,
        "topic": made.topic,
        "read": len(made.arrivals.processed()),
        "waiting": len(made.arrivals.waiting),
    }
