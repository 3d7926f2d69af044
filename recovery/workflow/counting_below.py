"""Counts what is below a flow because a person asks: what each dataset holds, and what its definition yields now.

Reads only. A worker asks Spark, one dataset after the other; the flow's row keeps the numbers with their times. A
number that an update may have changed since is no longer shown: the page says *not known* in its place.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from recovery.audit import cleansing
from recovery.contracts.refreshed import RefreshedDataset
from recovery.errors import Refused, RepriseError
from recovery.models import Flow, Recovery, Workspace
from recovery.people.roles import Actor
from recovery.pipelines import across
from recovery.pipelines.behind import behind_of
from recovery.pipelines.downstream import BehindReason, BehindState, Node
from recovery.pipelines.events import when
from recovery.pipelines.workspaces import client_for, questions_service, refuse_inactive
from recovery.spark.api import DefinedRequest, DefinitionMeasure, StudyRequest, defined
from recovery.strategies.readers import DownstreamReader
from recovery.workflow import below, broker
from recovery.workflow.deployed import read_code
from recovery.workflow.flow_snapshot import find_active_update
from recovery.workflow.journal import trying_flow
from recovery.workflow.studied import code_request

ASK: Final = "flow.ask_count"
TAKEN: Final = timedelta(minutes=2)
"""After so long a request that no worker took counts as lost."""
OVER: Final = (
    "An update of the pipeline is running, so the tables below may change at any moment. Count again when it has "
    "ended."
)


class CountPhase(StrEnum):
    ASKED = "asked"
    COUNTING = "counting"
    COUNTED = "counted"
    FAILED = "failed"


class UncountedReason(StrEnum):
    """Why a number of rows is not known."""

    NOT_COUNTED = "not_counted"
    CHANGED = "changed"  # an update may have changed it since it was counted
    ELSEWHERE = "elsewhere"  # another pipeline defines it, and was not asked
    INPUT_BEHIND = "input_behind"  # what it reads is behind itself
    UNSURE = "unsure"  # its definition may yield another number at each run
    PROBLEM = "problem"  # Spark could not tell


@dataclass(frozen=True)
class StoredCount:
    """What was counted of one dataset, at `at` (ISO). `should`: rows that its definition yields; `missing` and `extra`:
    of the exact difference. `why` and `problem`: why `should` is not known, the problem in a sentence."""

    dataset: str
    at: str
    rows: int | None = None
    should: int | None = None
    missing: int | None = None
    extra: int | None = None
    why: UncountedReason | None = None
    problem: str = ""


@dataclass(frozen=True)
class BelowCount:
    """The last count that was asked for below a flow, as its row keeps it. `at`: ISO time of the request."""

    ticket: str
    by: str
    at: str
    phase: CountPhase = CountPhase.ASKED
    counts: tuple[StoredCount, ...] = ()
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "counts": [asdict(c) for c in self.counts]}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "BelowCount | None":
        """None for {}: no one has asked."""
        if not kept:
            return None
        counts = tuple(
            StoredCount(**{**c, "why": UncountedReason(c["why"]) if c["why"] else None})
            for c in kept["counts"]
        )
        return cls(**{**kept, "phase": CountPhase(kept["phase"]), "counts": counts})

    @property
    def waits(self) -> bool:
        """Is a worker still to count, or counting?"""
        at = when(self.at)
        longest = {
            CountPhase.ASKED: TAKEN,
            CountPhase.COUNTING: TAKEN + timedelta(seconds=settings.REPRISE_MEASURE_SECONDS),
        }
        return self.phase in longest and at is not None and timezone.now() - at < longest[self.phase]


@dataclass(frozen=True)
class RowCount:
    """A number of rows at a moment; `why` not None: it is not known. `by`: the recovery that measured it, "" none."""

    rows: int | None
    at: datetime | None = None
    why: UncountedReason | None = None
    problem: str = ""
    by: str = ""


@dataclass(frozen=True)
class DatasetCount:
    """What a dataset below holds and what it should hold. `missing` and `extra`: 0 and 0 where it agrees with its
    definition, None where that is not known."""

    now: RowCount
    should: RowCount
    missing: int | None = None
    extra: int | None = None


def request_count(*, flow_id: int, by: Actor) -> BelowCount:
    """Have a worker count what is below a flow.

    Raises Denied; Refused: `nothing_below`, `already_asked`; Unreachable without a broker.
    """
    from recovery.workflow import tasks

    flow = Flow.objects.select_related("pipeline__workspace").get(pk=flow_id)
    with trying_flow(ASK, flow, by) as attempted:
        broker.check()
        refuse_inactive(Workspace.objects.select_for_update().get(pk=flow.pipeline.workspace_id))
        flow = Flow.objects.select_for_update().select_related("pipeline__workspace").get(pk=flow_id)
        if not any(not r.pipeline for r in below.readers_of(flow)):
            raise Refused(
                f"Pipeline {flow.pipeline.name} has nothing below {flow.short} that can be counted.",
                code="nothing_below",
            )
        before = BelowCount.from_json(flow.below_count)
        if before is not None and before.waits:
            raise Refused(
                f"{before.by} has already asked for this count. Wait for the result.", code="already_asked"
            )
        asked = BelowCount(secrets.token_hex(8), by.name, timezone.now().isoformat())
        Flow.objects.filter(pk=flow_id).update(below_count=asked.as_json())
        broker.send_on_commit(tasks.count_below, flow_id, asked.ticket)
        attempted.done(f"A count of what is below {flow.name} was asked for.")
        return asked


def carry_out(flow_id: int, ticket: str) -> None:
    """Count what was asked for. A request that is taken already, or that another one replaced, is left."""
    with transaction.atomic():
        flow = Flow.objects.select_for_update().select_related("pipeline__workspace").get(pk=flow_id)
        asked = BelowCount.from_json(flow.below_count)
        if asked is None or asked.ticket != ticket or asked.phase is not CountPhase.ASKED or not asked.waits:
            return
        asked = replace(asked, phase=CountPhase.COUNTING)
        Flow.objects.filter(pk=flow_id).update(below_count=asked.as_json())
    try:
        ended = replace(asked, phase=CountPhase.COUNTED, counts=_count(flow))
    except RepriseError as problem:
        ended = replace(asked, phase=CountPhase.FAILED, problem=cleansing.cleanse_text(problem.sentence))
    with transaction.atomic():
        kept = BelowCount.from_json(Flow.objects.select_for_update().get(pk=flow_id).below_count)
        if kept is not None and kept.ticket == ticket:
            Flow.objects.filter(pk=flow_id).update(below_count=ended.as_json())


def _count(flow: Flow) -> tuple[StoredCount, ...]:
    """Raises RepriseError where the pipeline's code cannot be read, Refused while an update runs."""
    client = client_for(flow.pipeline.workspace)
    answer = client.get_pipeline(flow.pipeline.pipeline_id)
    updates = answer.get("latest_updates") or []
    if find_active_update(answer) is not None:
        raise Refused(OVER, code="busy")
    spec = answer.get("spec") or {}
    libraries, code = read_code(client, spec)
    study = code_request(
        questions_service(flow.pipeline.workspace, flow.pipeline.environment), "", spec, libraries, code
    )
    until = time.monotonic() + settings.REPRISE_MEASURE_SECONDS
    readers = below.readers_of(flow)
    late = {r.dataset for r in readers if r.state in tuple(BehindState)}
    counts = tuple(
        _counted(r, study, until, behind=bool(r.late_inputs or late & set(r.inputs))) for r in readers
    )
    after = client.get_pipeline(flow.pipeline.pipeline_id).get("latest_updates") or []
    return counts if _newest(after) == _newest(updates) else tuple(map(_without_numbers, counts))


def _newest(updates: Sequence[Mapping[str, Any]]) -> str:
    return str(updates[0].get("update_id")) if updates else ""


def _without_numbers(count: StoredCount) -> StoredCount:
    """An update began meanwhile: what was read before it and what after it is not known."""
    why = count.why if count.why is UncountedReason.ELSEWHERE else UncountedReason.CHANGED
    return StoredCount(count.dataset, count.at, why=why)


def _counted(one: DownstreamReader, study: StudyRequest, until: float, *, behind: bool) -> StoredCount:
    count = StoredCount(one.dataset, timezone.now().isoformat())
    if one.pipeline:
        return replace(count, why=UncountedReason.ELSEWHERE)
    left = until - time.monotonic()
    if left <= 0:
        return replace(
            count,
            why=UncountedReason.PROBLEM,
            problem="The time for one count was over (REPRISE_MEASURE_SECONDS).",
        )
    request = DefinedRequest(study.answers, one.dataset, replace(study, flow=one.flow))
    try:
        found = defined(request, timeout=left)
    except RepriseError as problem:
        return replace(count, why=UncountedReason.PROBLEM, problem=cleansing.cleanse_text(problem.sentence))
    return _as_count(count, found, behind=behind)


def _as_count(count: StoredCount, found: DefinitionMeasure, *, behind: bool) -> StoredCount:
    if behind:  # the definition yields what its late input holds, and not what it should
        return replace(count, rows=found.rows, why=UncountedReason.INPUT_BEHIND)
    if found.problem:
        return replace(
            count, rows=found.rows, why=UncountedReason.PROBLEM, problem=cleansing.cleanse_text(found.problem)
        )
    if found.rows_unsure:
        return replace(count, rows=found.rows, why=UncountedReason.UNSURE)
    same = replace(count, rows=found.rows, should=found.expected_rows)
    return same if found.unsure else replace(same, missing=found.missing, extra=found.extra)


def held_below(flow: Flow, found: Sequence[tuple[Node, Flow]]) -> dict[int, DatasetCount]:
    """What each dataset below holds and should hold, as far as that was counted, by its flow's key. `found`: as
    `across.flows_below` has them. Asks the database alone."""
    asked = BelowCount.from_json(flow.below_count)
    counts = _proven(flow)
    for count in asked.counts if asked else ():
        proof = counts.get(count.dataset)
        if proof is None or proof[0].at <= count.at:  # both ISO times in UTC; a later proof says more
            counts[count.dataset] = count, ""
    read = {name for node, _ in found for name in node.inputs}
    writers = list(
        across.flows_of(flow.pipeline.workspace_id).filter(dataset__in=read).select_related("pipeline")
    )
    held = {}
    for node, row in found:
        known, by = counts.get(row.dataset, (None, ""))
        held[row.pk] = _held(row, [w for w in writers if w.dataset in node.inputs], known, by)
    return held


def _proven(flow: Flow) -> dict[str, tuple[StoredCount, str]]:
    """What the newest recovery that measured anything compared below, with its label."""
    last = Recovery.objects.filter(flow=flow).exclude(measured={}).order_by("-pk").first()
    if last is None or last.proof is None:
        return {}
    proof, label = last.proof, last.label
    counted = (one for one in proof.downstream if one.rows is not None)
    return {one.dataset: (_of_proof(one, proof.at or ""), label) for one in counted}


def _of_proof(one: RefreshedDataset, at: str) -> StoredCount:
    found = DefinitionMeasure(
        rows=one.rows,
        expected_rows=one.expected_rows,
        missing=one.missing,
        extra=one.extra,
        problem=one.problem or None,
        unsure=one.unsure,
        rows_unsure=one.rows_unsure,
    )
    return _as_count(StoredCount(one.dataset, at), found, behind=False)


def _held(row: Flow, writers: Sequence[Flow], count: StoredCount | None, by: str) -> DatasetCount:
    """`writers`: the flows that write what it reads."""
    late = behind_of(row)
    emptied = late if late is not None and late.why is BehindReason.EMPTIED else None
    at = when(count.at) if count else None
    if count is None or at is None:
        now = RowCount(0, emptied.since) if emptied else RowCount(None, why=UncountedReason.NOT_COUNTED)
        return DatasetCount(now, RowCount(None, why=UncountedReason.NOT_COUNTED))
    moved = _moved([row], at, own=row.pipeline_id) or (
        emptied is not None and (emptied.since is None or emptied.since > at)
    )
    now = _now(count, at, by, moved=moved)
    if now.rows is None and emptied is not None:
        now = RowCount(0, emptied.since)
    if count.why is None and _moved(writers, at, own=row.pipeline_id):
        return DatasetCount(now, RowCount(None, at, UncountedReason.CHANGED))
    known = count.why is None and not moved
    return DatasetCount(
        now,
        RowCount(count.should, at, count.why, count.problem, by),
        count.missing if known else None,
        count.extra if known else None,
    )


def _now(count: StoredCount, at: datetime, by: str, *, moved: bool) -> RowCount:
    if moved:
        return RowCount(None, at, UncountedReason.CHANGED)
    why = None if count.rows is not None else count.why or UncountedReason.PROBLEM
    return RowCount(count.rows, at, why, "" if why is None else count.problem, by)


def _moved(flows: Sequence[Flow], at: datetime, *, own: int) -> bool:
    """May an update have changed what these flows write since then? `own`: the pipeline that was asked then whether one
    ran; what a poll of before saw running had ended by then."""
    progress = [when((f.last_progress or {}).get("timestamp")) for f in flows]
    moments = [*progress, *(f.good_at for f in flows), *(f.renewed_at for f in flows)]
    runs = any(f.state == "running" and (f.pipeline_id != own or f.pipeline.seen_at > at) for f in flows)
    return runs or any(m is not None and m > at for m in moments)
