"""Writes what lists show (`models.Listed`): the one place that says how a flow or a pipeline is shown in a list.

Whoever changes a row of flow, pipeline or source need not know of lists: the models tell of it, and the rows of that
pipeline are derived again within the same transaction. The poller derives them again from time to time in any case.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import F
from django.db.models.fields.json import KT
from django.utils import timezone

from recovery.models import Flow, FlowInput, Listed, ListVersion, Pipeline
from recovery.models.listed import hold_pipelines
from recovery.pipelines import retention
from recovery.pipelines.alone import health_of, say_pipeline
from recovery.pipelines.behind import NOT_OK, since_of
from recovery.pipelines.events import when
from recovery.pipelines.failures import PipelineState, say_error

AT_ONCE: Final = 200
"""Pipelines whose rows are derived in one go."""
_waiting: ContextVar[set[int] | None] = ContextVar("pipelines whose lists wait", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Derive the rows of pipelines that change within the block once, at its end. Use it inside the transaction."""
    if _waiting.get() is not None:
        yield
        return
    waiting: set[int] = set()
    token = _waiting.set(waiting)
    try:
        yield
    finally:
        _waiting.reset(token)
    keep_lists(waiting)


def keep_lists(pipeline_ids: Collection[int]) -> None:
    """Bring the listed rows of these pipelines up to date; only what differs is written."""
    keys = sorted(set(pipeline_ids))
    for start in range(0, len(keys), AT_ONCE):
        with transaction.atomic():
            if _keep(keys[start : start + AT_ONCE]):
                count_change()


def derive_again(pipeline_ids: Iterable[int]) -> None:
    """Bring the rows of these pipelines up to date now, or at the end of the block that `together` began."""
    waiting = _waiting.get()
    if waiting is None:
        keep_lists(list(pipeline_ids))
    else:
        waiting.update(pipeline_ids)


def derive_later(pipeline_id: int) -> None:
    """The same once the transaction is through, in which the pipeline itself may be about to go."""
    transaction.on_commit(lambda: keep_lists([pipeline_id]), robust=True)


def keep_all_lists() -> None:
    """The same for every pipeline."""
    keep_lists(list(Pipeline.objects.values_list("pk", flat=True)))


def count_change() -> None:
    """Give the list another version, once the transaction is through: open pages ask for it again."""
    transaction.on_commit(_count, robust=True)


def _count() -> None:
    if not ListVersion.objects.filter(pk=1).update(number=F("number") + 1):
        ListVersion.objects.get_or_create(pk=1, defaults={"number": 1})


def _keep(pipeline_ids: Sequence[int]) -> bool:
    """Was anything written? One at a time derives the rows of a pipeline, and by what the one before has written."""
    hold_pipelines(pipeline_ids)
    wanted = {(r.pipeline_id, r.flow_id): r for r in _derive(pipeline_ids)}
    gone, changed = [], False
    for row in Listed.objects.filter(pipeline__in=pipeline_ids):
        new = wanted.pop((row.pipeline_id, row.flow_id), None)
        if new is None:
            gone.append(row.pk)
        elif changes := {n: value for n in COLUMNS if getattr(row, n) != (value := getattr(new, n))}:
            Listed.objects.filter(pk=row.pk).update(**changes)
            changed = True
    if gone:
        Listed.objects.filter(pk__in=gone).delete()
    if wanted:  # another process may have been faster
        Listed.objects.bulk_create(wanted.values(), ignore_conflicts=True, batch_size=500)
    return bool(gone or changed or wanted)


COLUMNS: Final = [f.attname for f in Listed._meta.concrete_fields if f.name not in ("id", "pipeline", "flow")]


def _derive(pipeline_ids: Sequence[int]) -> Iterator[Listed]:
    now = timezone.now()
    existing = Pipeline.objects.filter(pk__in=pipeline_ids, gone=False)
    pipelines = list(existing.select_related("workspace").defer("spec", "updates").order_by("pk"))
    flows: dict[int, list[Flow]] = defaultdict(list)
    known = Flow.objects.filter(pipeline__in=pipelines).annotate(committed=KT("last_progress__timestamp"))
    for row in known.defer("last_progress", "inputs").order_by("pk"):
        flows[row.pipeline_id].append(row)
    sources: dict[int, list[FlowInput]] = defaultdict(list)
    seen = FlowInput.objects.filter(flow__pipeline__in=pipelines).order_by("index")
    for source in seen.only("flow", "index", *FlowInput.on_lists):
        sources[source.flow_id].append(source)
    for pipeline in pipelines:
        own = flows[pipeline.pk]
        if not own or (pipeline.judged == PipelineState.FAILED and not any(f.state == "failed" for f in own)):
            yield _row_of_pipeline(pipeline, bool(own))
        for flow in own:
            yield _row_of_flow(pipeline, flow, sources[flow.pk], now)


def _row_of_pipeline(pipeline: Pipeline, has_flows: bool) -> Listed:
    health = health_of(pipeline)
    says = "" if health.state is PipelineState.OK else say_pipeline(pipeline)
    condition = health.failure.condition if health.failure else ""
    return Listed(
        pipeline=pipeline,
        flow=None,
        environment=pipeline.environment,
        state=health.state.value,
        broken=health.state is PipelineState.FAILED,
        since=health.since,
        streaming=False,
        condition=condition,
        name=pipeline.name,
        short=pipeline.name,
        pipeline_name=pipeline.name,
        has_flows=has_flows,
        says=says,
        searched=_searched(pipeline.name, says, condition),
    )


def _row_of_flow(pipeline: Pipeline, flow: Flow, sources: Sequence[FlowInput], now: datetime) -> Listed:
    unread = retention.of(flow, sources, now)
    risks = [at for row in sources if (at := retention.at_risk_from(row, flow.state)) is not None]
    wrong = flow.state == "failed" or (flow.state == "unknown" and flow.condition)
    says = say_error(flow.causes, flow.condition) if wrong else ""
    messages = [error.message for error in flow.causes]
    places = [row.place for row in sources]
    return Listed(
        pipeline=pipeline,
        flow=flow,
        environment=pipeline.environment,
        state=flow.state,
        broken=flow.state in NOT_OK,
        since=since_of(flow) or flow.failing_since,
        at_risk_from=min(risks, default=None) if flow.streaming else None,
        readable_until=unread.until if unread else None,
        committed_at=when(getattr(flow, "committed", None)),
        last_batch=flow.last_batch,
        streaming=flow.streaming,
        behind_why=flow.behind_why,
        doubt=flow.table_doubt if flow.state in retention.GOING_ON else "",
        condition=flow.condition,
        history=",".join(str(outcome) for outcome in flow.history[-5:]),
        name=flow.name,
        short=flow.short,
        pipeline_name=pipeline.name,
        has_flows=True,
        says=says,
        searched=_searched(flow.name, flow.dataset, pipeline.name, flow.condition, says, *messages, *places),
    )


def _searched(*texts: str) -> str:
    """NUL, which PostgreSQL keeps in no text, is in none of these columns."""
    return "\n".join(dict.fromkeys(text.lower() for text in texts if text))
