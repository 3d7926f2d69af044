"""People, workspaces, pipelines and flows; the incident's code and error."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from recovery.contracts.readers import NO_READER
from recovery.models import Flow, FlowInput, Person, Pipeline, Workspace
from recovery.people.roles import Role
from recovery.pipelines import inputs
from recovery.pipelines.listing import together

PASSWORD = "a-long-enough-password-1"
CODE = """from pyspark import pipelines as dp
from schema import BASE, SCHEMA


@dp.table(name="customers_changes")
def customers_incremental_flow():
    return (
        spark.readStream.format("json").schema(SCHEMA)
        .load(f"{BASE}/changes")
    )
"""
OLD_CODE = CODE.replace(
    '/changes")\n', '/changes")\n        .dropDuplicates(["customer_id", "sequence_num"])\n'
)
PATH = "/Workspace/customers/transformations/customers.py"
SCHEMA_PATH = "/Workspace/customers/transformations/schema.py"
CONDITION = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
MESSAGE = (
    f"[{CONDITION}] Streaming stateful operator name does not match with the operator in state metadata. "
    "This likely to happen when user adds/removes/changes stateful operator of existing streaming query.\n"
    "Stateful operators in the metadata: [(OperatorId: 0 -> OperatorName: dedupe)];\n"
    "Stateful operators in current batch: []. SQLSTATE: 42K03"
)


def ago(**delta: float) -> datetime:
    return timezone.now() - timedelta(**delta)


def person(role: str = "responder", name: str = "") -> User:
    user = User.objects.create_user(username=name or role, password=PASSWORD)
    Person.objects.create(user=user, role=Role(role).value)
    return user


def workspace(name: str = "dev-eu", **values: Any) -> Workspace:
    given = {
        "url": "http://127.0.0.1:9",
        "token_ref": "env:REPRISE_TEST_TOKEN",
        "polled_at": ago(seconds=4),
        **values,
    }
    return Workspace.objects.get_or_create(name=name, defaults=given)[0]


def pipeline(of: Workspace | None = None, name: str = "customers", **values: Any) -> Pipeline:
    given = {
        "pipeline_id": f"{name}-{Pipeline.objects.count():04}",
        "environment": "development",
        "state": "IDLE",
        "spec": {"storage": "file:/nowhere/storage", "catalog": "spark_catalog", "schema": "crm"},
        "updates": [
            {"update_id": "u-4", "state": "FAILED", "creation_time": 1},
            {"update_id": "u-3", "state": "COMPLETED", "creation_time": 0},
        ],
        "seen_at": timezone.now(),
        **values,
    }
    return Pipeline.objects.create(workspace=of or workspace(), name=name, **given)


def flow(of: Pipeline | None = None, short: str = "customers_snapshot_flow", **values: Any) -> Flow:
    """A healthy streaming flow."""
    owner = of or pipeline()
    table = short.replace("_flow", "").replace("_incremental", "_changes")
    given = {
        "name": f"spark_catalog.crm.{short}",
        "dataset": f"spark_catalog.crm.{table}",
        "flow_type": "STREAMING",
        "state": "ok",
        "last_batch": 2,
        "last_progress": {"batchId": 2, "timestamp": ago(minutes=32).isoformat(), "numInputRows": 3},
        "history": ["ok", "ok", "ok", "ok"],
        "updated_at": timezone.now(),
        **values,
    }
    return Flow.objects.create(pipeline=owner, short=short, **given)


def failed_flow(of: Pipeline | None = None, **values: Any) -> Flow:
    """The incident's flow: its code lost a dropDuplicates whose state the checkpoint still holds."""
    given = {
        "state": "failed",
        "failing_since": ago(minutes=32),
        "failed_update": "u-4",
        "condition": CONDITION,
        "error": [
            {"class_name": "org.apache.spark.sql.streaming.StreamingQueryException", "message": MESSAGE},
            {"class_name": "org.apache.spark.SparkRuntimeException", "message": MESSAGE},
        ],
        "history": ["ok", "ok", "ok", "failed"],
        **values,
    }
    return flow(of, "customers_incremental_flow", **given)


def source(of: Flow, index: int = 0, **values: Any) -> FlowInput:
    """One source of a flow, and what a look at it two minutes ago saw: a topic of which 120 records wait."""
    inputs.note_sources(of, [NO_READER] * max(index + 1, FlowInput.objects.filter(flow=of).count()))
    given = {
        "kind": "kafka",
        "place": "orders at broker-1.corp.example:9092",
        "asked_at": ago(minutes=2),
        "seen_at": ago(minutes=2),
        "position": '{"orders":{"0":2310,"1":77}}',
        "label": "orders partition 0 at 2310, orders partition 1 at 77",
        "stands_since": ago(hours=3),
        "readable": True,
        "why": "Every record after the position is still there.",
        "until": ago(hours=-5.2),
        "unread": {"rows": {"value": 120, "exact": True, "why": ""}},
        **values,
    }
    FlowInput.objects.filter(flow=of, index=index).update(**given)
    return FlowInput.objects.get(flow=of, index=index)


def view(of: Pipeline, name: str = "customers", **values: Any) -> Flow:
    """A materialized view over the streaming tables."""
    inputs = [f.dataset for f in of.flows.filter(streaming=True)]
    given = {
        "dataset": f"spark_catalog.crm.{name}",
        "streaming": False,
        "flow_type": "MATERIALIZED_VIEW",
        "last_batch": None,
        "last_progress": {},
        "inputs": inputs,
        **values,
    }
    return flow(of, name, **given)


@together()
def incident(environment: str = "development") -> Flow:
    """The whole pipeline: the failed flow, its healthy neighbour and the view over both."""
    place = workspace("dev-eu" if environment == "development" else "main-eu", environment=environment)
    owner = pipeline(place, environment=environment)
    failed = failed_flow(owner)
    flow(owner)
    view(owner)
    return failed
