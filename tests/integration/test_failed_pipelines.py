"""An update that fails before any flow runs, on the real server: seen by the poller with the line of the code."""

import json
from typing import Any

import pytest

from console.incident.updates import WantedPipeline, ensure_pipeline, run_update
from tests.stack import Stack

pytestmark = pytest.mark.spark
GOOD = """from pyspark import pipelines as dp


@dp.materialized_view
def numbers():
    return spark.range(3)
"""


def listed(stack: Stack, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The pipeline and its flows among what fails."""
    _, out, err = stack.manage("flows", "--fresh", "--failing", "--json", token="viewer")
    assert out, err
    found = json.loads(out)
    pipelines = [p for p in found["pipelines"] if p["name"] == name]
    return (pipelines or [{}])[0], [f for f in found["flows"] if f["pipeline"]["name"] == name]


def test_a_pipeline_whose_second_update_fails_at_an_import_is_not_ok(stack: Stack) -> None:
    wanted = WantedPipeline("imports_fail", "imports_fail", "staging")
    pipeline = ensure_pipeline(stack.client, wanted, GOOD)
    assert run_update(stack.client, pipeline)[0] == "COMPLETED"
    assert listed(stack, wanted.name) == ({}, [])

    stack.client.import_file(wanted.source, f"import nosuchmodule_xyz\n{GOOD}".encode())
    assert run_update(stack.client, pipeline)[0] == "FAILED"

    whole, flows = listed(stack, wanted.name)
    assert (whole["id"], whole["state"]) == (pipeline, "failed")
    assert whole["says"].startswith("ModuleNotFoundError: ")
    assert "imports_fail.py, line 1." in whole["says"]
    assert [(f["state"], f["condition"]) for f in flows] == [("failed", "PIPELINE_CODE_FAILED")]
    code, out, _ = stack.manage("diagnose", pipeline, "--json", token="viewer")
    assert (code, json.loads(out)["diagnosis"]["condition"]) == (1, "PIPELINE_CODE_FAILED")

    stack.client.import_file(wanted.source, GOOD.encode())
    assert run_update(stack.client, pipeline)[0] == "COMPLETED"
    assert listed(stack, wanted.name) == ({}, [])
