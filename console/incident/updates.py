"""What every incident does through the Pipelines API: finds or makes its pipeline, runs updates to their end."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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


def ignore_progress(what: str, seconds: float) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class WantedPipeline:
    """A pipeline to be made. Its one source is at `source` in the workspace; `configuration`: besides every one's."""

    name: str
    schema: str
    environment: str = "development"
    configuration: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> str:
        return f"/Users/data-team/{self.name}"

    @property
    def source(self) -> str:
        return f"{self.root}/transformations/{self.name}.py"


@dataclass(frozen=True)
class Edit:
    """What someone did to the source that is at `source`, and what a person reads of it."""

    source: str
    code: str
    says: str


def ensure_pipeline(client: PipelinesClient, wanted: WantedPipeline, code: str) -> str:
    """Id of the pipeline of exactly this name, made with this code when there is none."""
    matching = client.list_pipelines(filter=f"name LIKE '{wanted.name}'")
    pipeline_id = next((str(p["pipeline_id"]) for p in matching if p["name"] == wanted.name), None)
    return pipeline_id or create_pipeline(client, wanted, code)


def create_pipeline(client: PipelinesClient, wanted: WantedPipeline, code: str) -> str:
    """Write the source, then make the pipeline that runs it."""
    client.mkdirs(wanted.source.rpartition("/")[0])
    client.import_file(wanted.source, code.encode())
    return client.create_pipeline(
        {
            "name": wanted.name,
            "catalog": CATALOG,
            "schema": wanted.schema,
            "root_path": wanted.root,
            "libraries": [{"glob": {"include": f"{wanted.root}/transformations/**"}}],
            "configuration": {**CONFIGURATION, **wanted.configuration},
            "tags": {"environment": wanted.environment, "owner": "data-team"},
            "development": wanted.environment == "development",
        }
    )


def good_updates(
    client: PipelinesClient, pipeline: str, batches: int, arrive: Callable[[int], str], tell: Tell
) -> None:
    """As many updates as there are batches, before each its input; goes on where it was left.

    `arrive` brings the input of a batch and says what it is. Raises Refused when an update does not complete.
    """
    done = sum(1 for u in client.list_updates(pipeline, limit=500) if u["state"] == "COMPLETED")
    for index in range(done, batches):
        began = time.monotonic()
        what = arrive(index)
        state, why = run_update(client, pipeline)
        if state != "COMPLETED":
            raise Refused(f"Good update {index + 1} of the incident ended as {state}: {why}")
        tell(f"Good update {index + 1}: {what} arrive", time.monotonic() - began)


def failing_update(
    client: PipelinesClient, pipeline: str, edit: Edit, arrive: Callable[[], str], tell: Tell
) -> None:
    """The edit, more input, and the update that Spark must refuse. Raises Refused when it ends otherwise.

    `arrive` brings that input and says what it is.
    """
    client.import_file(edit.source, edit.code.encode(), overwrite=True)
    began = time.monotonic()
    what = arrive()
    state, _ = run_update(client, pipeline)
    if state != "FAILED":
        said = [str(event.get("message", "")) for event in client.events(pipeline, limit=25)]
        raise Refused(
            f"The update after the edit should have failed and ended as {state}. Its last events: {said}"
        )
    tell(f"{edit.says}, {what} wait: it fails", time.monotonic() - began)


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
