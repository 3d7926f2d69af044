"""Updates of a pipeline as the Pipelines API tells of them, and what a poll makes of the batches that they ran."""

import json
from typing import Any

from django.utils import timezone

from recovery.models import Flow, Listed, Plan, Recovery, Step, Workspace
from recovery.pipelines.inventory import refresh
from recovery.workflow.doubting import doubts_of
from tests.factories.plans import plan_body
from tests.unit.pipelines.api import START
from tests.unit.pipelines.api import Pipeline as Shop

TABLE = "main.shop.res"
ONE, TWO = "main.shop.one", "main.shop.two"
FILES, DELTA = "FileSink[file:/tables/res]", "DeltaSink[/tables/res]"
FUNCTION, TOPIC = "ForeachBatchSink", "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1f2e"
DOUBT = "read-again"
LOST, FINE, UNREAD = ("failed", "SINK_PASSED_OVER"), ("ok", ""), ("unknown", "SINK_NOT_READ")


def run(
    shop: Shop,
    update: str,
    numbers: dict[str, list[int]],
    *,
    rows: int = 10,
    sink: str = FILES,
    tables: dict[str, str] | None = None,
    sinks: dict[str, str] | None = None,
    query: str = "",
    sources: list[dict[str, Any]] | None = None,
    makes_table: bool | None = None,
    is_over: bool = True,
    **info: object,
) -> None:
    """An update whose flows run these batches into one table, or into `tables`; no numbers: an idle look."""
    shop.begin(update, {}, **info)
    for flow in numbers:
        told = {
            "output_dataset": (tables or {}).get(flow, TABLE),
            "input_datasets": [],
            "flow_type": "APPEND",
            "once": False,
        }
        shop.event(update, "flow_definition", told, flow)
    if info.get("full_refresh_selection"):
        shop.event(update, "x_reprise_emptied", {"datasets": [TABLE]})
    for flow, batches in numbers.items():
        for batch in batches:
            into = {"description": (sinks or {}).get(flow, sink)}
            body = {
                "id": query,
                "batchId": batch,
                "numInputRows": rows,
                "sources": sources or [],
                "sink": into,
            }
            begins = {} if makes_table is None else {"x_reprise_new_table": makes_table}
            shop.event(update, "stream_progress", {"progress_json": json.dumps(body), **begins}, flow)
        shop.status(update, flow, "COMPLETED" if is_over else "RUNNING")
    if is_over:
        shop.end(update, "COMPLETED")


def seen(workspace: Workspace, name: str = ONE) -> tuple[str, str]:
    refresh(workspace_id=workspace.pk)
    flow = Flow.objects.get(name=name)
    return flow.state, flow.condition


def doubt(workspace: Workspace) -> str:
    refresh(workspace_id=workspace.pk)
    flow = Flow.objects.get(name=ONE)
    [told] = [d.code.value for d in doubts_of([flow.pk], timezone.now()).values()] or [""]
    assert told == flow.table_doubt
    assert Listed.objects.get(flow=flow).doubt == told
    return told


def opened(flow: str, *, next_batch: int, head: int | None, result: dict[str, object]) -> Step:
    """An open recovery of a flow, with the rerun step of its sealed plan."""
    recovery = Recovery.objects.create(flow=Flow.objects.get(name=flow), created_by="ann", owner="ann")
    Recovery.objects.filter(pk=recovery.pk).update(created_at=START)
    body = plan_body(
        numbering={"next_batch": next_batch, "query_id": "kept"},
        preconditions={"sink": {"head": head, "fingerprint": ""}},
    )
    plan = Plan.objects.create(recovery=recovery, hash=f"{recovery.pk:064x}", body=body, sealed_by="ann")
    return Step.objects.create(
        recovery=recovery,
        plan=plan,
        ordinal=1,
        kind="rerun",
        idempotency_key=f"k{recovery.pk}",
        result=result,
    )


def span(start: object, end: object) -> list[dict[str, Any]]:
    """What a batch was to read, as Spark's progress says it."""
    return [{"startOffset": start, "endOffset": end}]


def settle_loss() -> None:
    """As a proof that counted the whole table does."""
    flow = Flow.objects.get()
    flow.sink_memory["loss"]["settled_by"] = 7
    flow.save()
