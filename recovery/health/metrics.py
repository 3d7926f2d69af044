"""The numbers that a monitor reads, taken from the database (and, of queues, the broker) at the moment it asks.

Fourteen queries, however many recoveries there are. No process counts anything itself, so several web
processes, a worker that was killed and a restart all give the same numbers.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import (
    CharField,
    Count,
    DurationField,
    ExpressionWrapper,
    F,
    Max,
    Min,
    QuerySet,
    Sum,
    Value,
)
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric
from prometheus_client.core import SummaryMetricFamily as Summary
from prometheus_client.registry import Collector

from recovery.contracts.names import DoubtCode
from recovery.contracts.updates import CONDITIONS_WITHOUT_ERROR
from recovery.health import queues
from recovery.models import (
    AuditEntry,
    Delivery,
    DeniedTry,
    Flow,
    FlowInput,
    Heartbeat,
    KeptStudy,
    Message,
    Pipeline,
    Recovery,
    Step,
    TokenSighting,
    Workspace,
)
from recovery.models.recovery import STATES
from recovery.pipelines import retention
from recovery.pipelines.failures import PipelineState
from recovery.workflow.doubting import count_doubts

FLOW_STATES: Final = ("ok", "failed", "running", "stopped", "stale", "empty", "unknown")


def measure_recoveries(now: datetime) -> Iterable[Metric]:
    made = Gauge("reprise_recoveries", "Recoveries by state.", labels=["state"])
    counted = dict(Recovery.objects.values_list("state").annotate(Count("pk")).order_by())
    for state in STATES:  # a state that no one is in is 0, so that an alert on it works from the first day
        made.add_metric([state], counted.get(state, 0))
    yield made


def measure_steps(now: datetime) -> Iterable[Metric]:
    count = Gauge("reprise_steps", "Steps by kind and state.", labels=["kind", "state"])
    took = Summary(
        "reprise_step_seconds", "How long ended steps took, by kind and outcome.", labels=["kind", "state"]
    )
    length = ExpressionWrapper(F("ended_at") - F("started_at"), output_field=DurationField())
    rows = Step.objects.values_list("kind", "state").annotate(
        number=Count("pk"), ended=Count(length), total=Sum(length)
    )
    for kind, state, number, ended, total in rows.order_by("kind", "state"):
        count.add_metric([kind, state], number)
        if ended:
            took.add_metric(
                [kind, state], count_value=ended, sum_value=(total or timedelta()).total_seconds()
            )
    yield from (count, took)


def measure_flows(now: datetime) -> Iterable[Metric]:
    made = Gauge(
        "reprise_flows", "Flows of pipelines that exist, by state; `failed` are failing.", labels=["state"]
    )
    silent = Gauge(
        "reprise_flows_silently_wrong",
        "Flows whose updates completed though rows are lost, or may be, by what shows it.",
        labels=["condition"],
    )
    listed = Flow.objects.filter(pipeline__gone=False)
    states, conditions = Counter[str](), Counter[str]()
    for state, condition, number in listed.values_list("state", "condition").annotate(Count("pk")).order_by():
        states[state] += number
        conditions[condition] += number
    for state in FLOW_STATES:
        made.add_metric([state], states[state])
    for condition in CONDITIONS_WITHOUT_ERROR:
        silent.add_metric([condition], conditions[condition])
    yield from (made, silent)


def measure_doubts(now: datetime) -> Iterable[Metric]:
    made = Gauge(
        "reprise_flows_in_doubt",
        "Flows whose last update ended well, or that run, by what contradicts it: the gravest of each.",
        labels=["code"],
    )
    counted = count_doubts(now)
    for code in DoubtCode:
        made.add_metric([code], counted[code])
    yield made


def measure_pipelines(now: datetime) -> Iterable[Metric]:
    made = Gauge(
        "reprise_pipelines",
        "Pipelines that exist, by state; `failed` since an update did not complete, of whatever cause.",
        labels=["state"],
    )
    counted = dict(Pipeline.objects.filter(gone=False).values_list("judged").annotate(Count("pk")).order_by())
    counted["unknown"] = counted.get("unknown", 0) + counted.pop("", 0)
    for state in PipelineState:
        made.add_metric([state], counted.get(state, 0))
    yield made


def measure_queue(now: datetime) -> Iterable[Metric]:
    waiting = Step.objects.filter(state="pending", woken_at__isnull=False)
    totals = waiting.aggregate(number=Count("pk"), oldest=Min("woken_at"))
    yield Gauge(
        "reprise_steps_woken", "Steps that were woken and that no worker has begun.", totals["number"]
    )
    age = (now - totals["oldest"]).total_seconds() if totals["oldest"] else 0.0
    yield Gauge("reprise_oldest_woken_step_seconds", "How long the oldest of them has waited.", max(age, 0.0))


def queue_ages(now: datetime) -> Iterable[Metric]:
    age = Gauge(
        "reprise_queue_oldest_seconds",
        "How long the oldest task of a queue has waited, by rows and broker.",
        labels=["queue"],
    )
    length = Gauge(
        "reprise_queue_messages",
        "Messages that no worker has taken; absent while the broker does not answer.",
        labels=["queue"],
    )
    for queue in queues.measure_queues(now):
        age.add_metric([queue.name], queue.oldest)
        if queue.length is not None:
            length.add_metric([queue.name], queue.length)
    yield from (age, length)


def measure_polls(now: datetime) -> Iterable[Metric]:
    lag = Gauge(
        "reprise_poll_lag_seconds", "Time since the last good poll of a workspace.", labels=["workspace"]
    )
    failing = Gauge(
        "reprise_poll_failing", "1 while the last poll of a workspace failed.", labels=["workspace"]
    )
    for name, polled_at, problem in (
        Workspace.objects.active().order_by("name").values_list("name", "polled_at", "poll_error")
    ):
        if polled_at:
            lag.add_metric([name], max((now - polled_at).total_seconds(), 0.0))
        failing.add_metric([name], 1.0 if problem or not polled_at else 0.0)
    yield from (lag, failing)


def measure_audit(now: datetime) -> Iterable[Metric]:
    head = AuditEntry.objects.aggregate(head=Max("seq"))["head"] or 0
    yield Gauge("reprise_audit_chain_head", "Number of the newest audit entry; it never falls.", head)


PRUNED: Final[dict[str, Any]] = {
    "deliveries": Delivery,
    "denied tries": DeniedTry,
    "messages": Message,
    "sessions": Session,
    "studies": KeptStudy,
    "token sightings": TokenSighting,
}
"""What is removed by age: a number here that only grows says that nothing removes it."""


def measure_stored_rows(now: datetime) -> Iterable[Metric]:
    rows = Gauge("reprise_stored_rows", "Rows that are removed by age, by kind.", labels=["kind"])
    counts: list[QuerySet[Any, Any]] = [
        model.objects.order_by()
        .annotate(kind=Value(kind, output_field=CharField()))
        .values("kind")
        .annotate(rows=Count("pk"))
        .values_list("kind", "rows")
        for kind, model in PRUNED.items()
    ]
    counted = dict(counts[0].union(*counts[1:], all=True))
    for kind in PRUNED:
        rows.add_metric([kind], counted.get(kind, 0))
    yield rows
    if settings.REPRISE_HOME.is_dir():
        free = shutil.disk_usage(settings.REPRISE_HOME).free
        yield Gauge("reprise_home_free_bytes", "What is free on the disk of REPRISE_HOME.", free)


def measure_heartbeats(now: datetime) -> Iterable[Metric]:
    made = Gauge(
        "reprise_heartbeat_age_seconds",
        "Time since the last heartbeat of a process.",
        labels=["part", "process"],
    )
    for part, process, at in Heartbeat.objects.order_by("process").values_list("part", "process", "at"):
        made.add_metric([part, process], max((now - at).total_seconds(), 0.0))
    yield made


def measure_unread_input(now: datetime) -> Iterable[Metric]:
    made = Gauge(
        "reprise_flow_input_readable_until_seconds",
        "How long unread input of a source can still be read; 0 where it may go at any time, or some is gone.",
        labels=["workspace", "pipeline", "flow", "source"],
    )
    unknown = Gauge(
        "reprise_flow_input_unknown",
        "1 for a streaming flow of which it is not known how long its unread input can be read.",
        labels=["workspace", "pipeline", "flow"],
    )
    held: dict[int, list[FlowInput]] = {}
    listed = FlowInput.objects.filter(flow__pipeline__gone=False).order_by("flow", "index")
    for row in listed.only("flow", "index", "kind", "seen_at", "stands_since", "readable", "until"):
        held.setdefault(row.flow_id, []).append(row)
    streams = Flow.objects.filter(pipeline__gone=False, streaming=True).select_related("pipeline__workspace")
    for flow in streams.only(
        "name", "state", "streaming", "code_problem", "pipeline__name", "pipeline__workspace__name"
    ).order_by("pk"):
        labels, rows = [flow.pipeline.workspace.name, flow.pipeline.name, flow.name], held.get(flow.pk, [])
        for row in rows:
            left = retention.Retention(retention.standing(row, flow.state, now), row).seconds(now)
            if left is not None:
                made.add_metric([*labels, str(row.index)], left)
        retained = retention.of(flow, rows, now)
        if retained is not None and retained.standing is retention.RetentionState.UNKNOWN:
            unknown.add_metric(labels, 1.0)
    yield from (made, unknown)


FAMILIES: Final[tuple[Callable[[datetime], Iterable[Metric]], ...]] = (
    measure_recoveries,
    measure_steps,
    measure_flows,
    measure_doubts,
    measure_pipelines,
    measure_queue,
    queue_ages,
    measure_polls,
    measure_audit,
    measure_stored_rows,
    measure_heartbeats,
    measure_unread_input,
)


class _Now(Collector):
    """All families, read once, when they are asked for."""

    def describe(self) -> Iterable[Metric]:
        """Nothing: else registering would read the database a first time."""
        return ()

    def collect(self) -> Iterable[Metric]:
        now = timezone.now()
        for family in FAMILIES:
            yield from family(now)


def metrics_text() -> bytes:
    """Everything in Prometheus' text format. Raises Django's DatabaseError when the database is away."""
    registry = CollectorRegistry()
    registry.register(_Now())
    return generate_latest(registry)
