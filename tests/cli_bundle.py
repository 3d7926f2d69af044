"""What Databricks' own command line asked while it deployed a bundle, changed it, imported a folder and destroyed it.

Recorded with version 1.14.0-dev (github.com/databricks/cli, commit 7bbe285) and `DATABRICKS_BUNDLE_ENGINE=direct`:
`bundle deploy`, `bundle deploy` with other code and a setting, `bundle summary`, `workspace import-dir`, `bundle
destroy`. Left out: its telemetry, and discovery.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

RECORD = Path(__file__).parent / "fixtures" / "databricks_cli_bundle.jsonl"
PIPELINE = "{pipeline_id}"


@dataclass(frozen=True)
class Call:
    """`uri` with its query as it was sent, where `{pipeline_id}` is what the first create answered."""

    method: str
    uri: str
    status: int
    body: str = ""


def recorded() -> tuple[Call, ...]:
    """Every call, in order."""
    return tuple(Call(**json.loads(line)) for line in RECORD.read_text().splitlines())


def replay(
    calls: tuple[Call, ...], send: Callable[[Call], tuple[int, dict[str, str]]], pipeline_id: str = ""
) -> str:
    """Send each call; fails at the first whose status is not the one that was recorded. The pipeline's id."""
    for call in calls:
        known = Call(
            call.method,
            call.uri.replace(PIPELINE, pipeline_id),
            call.status,
            call.body.replace(PIPELINE, pipeline_id),
        )
        status, answer = send(known)
        assert status == call.status, f"{known.method} {known.uri}: {status} {answer}"
        if (call.method, call.uri) == ("POST", "/api/2.0/pipelines"):
            pipeline_id = answer["pipeline_id"]
    return pipeline_id
