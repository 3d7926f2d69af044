"""Programs that were not written for this server run in it, by the official command line too."""

import pytest

from tests.cli_bundle import Call, recorded, replay
from tests.contract.lab import NO_RETRY, Api


def test_a_bundle_that_the_official_command_line_deploys_runs(api: Api) -> None:
    def send(call: Call) -> tuple[int, dict[str, str]]:
        response = api.send(call.method, call.uri.removeprefix("/api/2.0"), data=call.body.encode() or None)
        json = response.headers["Content-Type"] == "application/json"
        return response.status_code, response.json() if json else {}

    calls = recorded()
    gone = next(n for n, call in enumerate(calls) if call.method == "DELETE")
    made = replay(calls[:gone], send)
    update, state = api.run(made)
    assert state == "COMPLETED", api.last_error(made, update)
    replay(calls[gone:], send, made)
    api.call("POST", "/workspace/delete", json={"path": "/Users/reprise/imported", "recursive": True})


PUBLIC = """
import os
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

session = SparkSession.builder.appName("outside").config("spark.sql.ansi.enabled", "true").getOrCreate()
bucket = os.environ["S3_BUCKET"]
assert session is spark and not any("token=" in value for value in os.environ.values())


@dp.materialized_view(name=f"from_{bucket}")
def rows():
    return session.range(3)
"""


def made(api: Api, name: str, code: str, **settings: object) -> str:
    """A pipeline of one file."""
    path = f"/Users/tester/{name}/a.py"
    api.put_code(path, code)
    body = {
        "name": name,
        "schema": f"{name}_db",
        "libraries": [{"file": {"path": path}}],
        "configuration": NO_RETRY,
    }
    return str(api.call("POST", "/pipelines", json=body | settings)["pipeline_id"])


def test_code_finds_its_session_by_the_builder_and_its_environment(api: Api) -> None:
    pipeline = made(
        api, "outside_idioms", PUBLIC, clusters=[{"label": "default", "spark_env_vars": {"S3_BUCKET": "a"}}]
    )
    update, state = api.run(pipeline)
    assert state == "COMPLETED", api.last_error(pipeline, update)
    assert set(api.statuses(pipeline, update)) == {"from_a"}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("cloudFiles", 'return spark.readStream.format("cloudFiles").load("/in")'),
        ("dbutils", 'return spark.range(int(dbutils.widgets.get("n")))'),
    ],
)
def test_a_call_that_only_databricks_has_is_named_as_such(api: Api, name: str, line: str) -> None:
    code = f"from pyspark import pipelines as dp\n\n\n@dp.table\ndef rows():\n    {line}\n"
    pipeline = made(api, f"outside_{name.lower()}", code)
    update, state = api.run(pipeline)
    assert state == "FAILED"
    message = api.events(pipeline, update)[-1]["message"]
    assert {name, "open-source"} <= set(message.replace("`", " ").split())
