"""Refreshes what is below a flow outside of any recovery: a person asks, a worker starts one update, at most once.

The update selects datasets of the flow's own pipeline that do not show what they are computed from; no flow above them
runs, no checkpoint is reset. What an ordinary update would do wrong is left out and named: a table that reads as a
stream what was written again since its last good update would get these rows a second time.
"""

import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from recovery.audit.actions import append_entry
from recovery.errors import NotFound, OutcomeUnknown, Refused, RepriseError, Unreachable
from recovery.models import Flow, Pipeline, Recovery, Workspace
from recovery.people import visible
from recovery.people.roles import SYSTEM, Actor
from recovery.pipelines import across
from recovery.pipelines.downstream import VIEWS, BehindState, Node
from recovery.pipelines.events import when
from recovery.pipelines.find import find_flow
from recovery.pipelines.workspaces import client_for, refuse_inactive
from recovery.workflow import broker
from recovery.workflow.journal import trying_flow
from recovery.workflow.steps import rerun

ASK, START = "flow.ask_refresh", "flow.refresh"
"""Audited acts: a person asks, a worker starts the update."""
PATIENCE: Final = timedelta(minutes=2)
"""After so long a request that no worker took counts as lost, and another may be made."""


class RefreshPhase(StrEnum):
    ASKED = "asked"
    SENT = "sent"  # the worker has begun to send it; without an answer nobody knows whether it arrived
    STARTED = "started"
    REFUSED = "refused"


@dataclass(frozen=True)
class BelowRefresh:
    """The last refresh that was asked for below a flow, as its row keeps it. `at`: ISO time of the request; `datasets`
    by full name; `update_id` "" until the update was started; `problem`: why it was not, in a sentence."""

    ticket: str
    by: str
    at: str
    datasets: tuple[str, ...]
    phase: RefreshPhase = RefreshPhase.ASKED
    update_id: str = ""
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "datasets": list(self.datasets), "phase": self.phase.value}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "BelowRefresh | None":
        """None for {}: no one has asked."""
        if not kept:
            return None
        return cls(**{**kept, "datasets": tuple(kept["datasets"]), "phase": RefreshPhase(kept["phase"])})

    @property
    def waits(self) -> bool:
        """Is a worker still to send it?"""
        at = when(self.at)
        return self.phase is RefreshPhase.ASKED and at is not None and timezone.now() - at < PATIENCE


@dataclass(frozen=True)
class RefreshSelection:
    """What a refresh below a flow selects (`flows`, in an order in which they can run), and what it leaves out:
    `rewritten`: tables whose stream would read rows a second time; `elsewhere`: of other pipelines."""

    flows: tuple[Flow, ...] = ()
    rewritten: tuple[Flow, ...] = ()
    elsewhere: tuple[Flow, ...] = ()


def late_below(flow: Flow) -> RefreshSelection:
    """What stands below a flow and is stale or empty."""
    late = [(n, f) for n, f in across.flows_below(flow) if f.state in tuple(BehindState)]
    elsewhere = tuple(f for _, f in late if f.pipeline_id != flow.pipeline_id)
    own = [(n, f) for n, f in late if f.pipeline_id == flow.pipeline_id]
    workspace = (
        flow.pipeline.workspace_id
    )  # a table that is read here may be written by another pipeline of it
    writers = list(Flow.objects.filter(pipeline__workspace=workspace).exclude(renewed_at=None))
    rewritten = [f for n, f in own if _would_repeat(n, f, writers)]
    return RefreshSelection(tuple(f for _, f in own if f not in rewritten), tuple(rewritten), elsewhere)


def _would_repeat(node: Node, reader: Flow, writers: list[Flow]) -> bool:
    """Was what a stream reads written again since its own last good update?"""
    if reader.flow_type in VIEWS:
        return False
    renewed = [w.renewed_at for w in writers if w.dataset in node.inputs and w.streaming and w.renewed_at]
    return bool(renewed) and (reader.good_at is None or reader.good_at < max(renewed))


def find_flow_above(pipeline: Pipeline, text: str | None) -> Flow:
    """The flow that is named; without a name the only one that is ok and has something late below it.

    Raises NotFound: none of that name, or several. Refused (`nothing_below`): nothing is late.
    """
    if text is not None:
        return find_flow(pipeline, text)
    well = Flow.objects.filter(pipeline=pipeline, state="ok").exclude(dataset="").order_by("name")
    found = [flow for flow in well if late_below(flow).flows]
    if len(found) > 1:
        names = ", ".join(flow.name for flow in found)
        raise NotFound(f"Below {len(found)} flows of {pipeline.name} something is late. Name one: {names}.")
    if not found:
        raise Refused(
            f"No flow of {pipeline.name} that is ok has anything below it that an update can refresh. Nothing was "
            "started.",
            code="nothing_below",
        )
    return found[0]


def asked_as(ticket: str, by: Actor) -> tuple[Flow, BelowRefresh]:
    """The request of that ticket, and its flow. Raises NotFound where there is none that `by` may see, or a later
    request has taken its place."""
    mine = Flow.objects.filter(visible.filter_visible(by, "pipeline__"), below_refresh__ticket=ticket)
    flow = mine.select_related("pipeline").first()
    asked = None if flow is None else BelowRefresh.from_json(flow.below_refresh)
    if flow is None or asked is None:
        raise NotFound(f"There is no request {ticket!r}, or a later one has taken its place.")
    return flow, asked


def described(flow: Flow, asked: BelowRefresh) -> dict[str, Any]:
    """Plain JSON of a request: flow, pipeline, and what the row keeps of it."""
    return {"flow": flow.name, "pipeline": flow.pipeline.pipeline_id, **asked.as_json()}


def wait_taken(flow_id: int, asked: BelowRefresh, *, seconds: float) -> BelowRefresh:
    """The request once a worker has tried to start the update. Raises Unreachable when none did in that time."""
    until = time.monotonic() + seconds
    while True:
        kept = BelowRefresh.from_json(Flow.objects.get(pk=flow_id).below_refresh)
        if kept is None or kept.ticket != asked.ticket:
            return replace(
                asked, phase=RefreshPhase.SENT, problem="A later request has taken the place of this one."
            )
        ended = kept.phase in (RefreshPhase.STARTED, RefreshPhase.REFUSED) or (
            kept.phase is RefreshPhase.SENT and kept.problem
        )
        if ended:
            return kept
        if time.monotonic() >= until:
            raise Unreachable(
                "No worker has started the update yet. The request stays open for two minutes; the flow's page "
                "shows the result."
            )
        time.sleep(0.1)


def request_refresh(*, flow_id: int, by: Actor) -> BelowRefresh:
    """Have a worker start an update of what is late below a flow; how it went stands in the flow's row.

    Raises Denied; Refused: `failing`, `recovering`, `nothing_below`, `already_asked`; Unreachable without a broker.
    """
    from recovery.workflow import tasks

    flow = Flow.objects.select_related("pipeline__workspace").get(pk=flow_id)
    with trying_flow(ASK, flow, by) as attempted:
        broker.check()
        refuse_inactive(Workspace.objects.select_for_update().get(pk=flow.pipeline.workspace_id))
        flow = Flow.objects.select_for_update().select_related("pipeline__workspace").get(pk=flow_id)
        _refuse_other_ways(flow)
        late = late_below(flow)
        if not late.flows:
            raise Refused(
                f"Nothing below {flow.short} can be refreshed by an update of its pipeline. Nothing was started.",
                code="nothing_below",
            )
        names = tuple(f.dataset for f in late.flows)
        asked = BelowRefresh(secrets.token_hex(8), by.name, timezone.now().isoformat(), names)
        Flow.objects.filter(pk=flow_id).update(below_refresh=asked.as_json())
        broker.send_on_commit(tasks.refresh_below, flow_id, asked.ticket)
        attempted.done(
            f"A refresh of what is below {flow.name} was asked for.", after={"datasets": list(names)}
        )
        return asked


def _refuse_other_ways(flow: Flow, *, waiting: BelowRefresh | None = None) -> None:
    """Raises Refused. `waiting` is the request that a worker is about to carry out."""
    if flow.state != "ok":
        raise Refused(
            f"{flow.short} is {flow.state}. What is below can be refreshed once the flow itself is ok.",
            code="failing",
        )
    opened = Recovery.objects.filter(flow__pipeline=flow.pipeline_id, active=True).first()
    if opened is not None:
        raise Refused(
            f"{opened.label} is open for this pipeline. Its plan refreshes what is below; end it first.",
            code="recovering",
        )
    before = BelowRefresh.from_json(flow.below_refresh)
    if waiting is None and before is not None and before.waits:
        raise Refused(
            f"{before.by} has already asked for this refresh, so no second one was started.",
            code="already_asked",
        )


def carry_out(flow_id: int, ticket: str) -> None:
    """Start the update that was asked for. A request that is sent already, or that another one replaced, is left."""
    with transaction.atomic():
        flow = Flow.objects.select_for_update().select_related("pipeline__workspace").get(pk=flow_id)
        asked = BelowRefresh.from_json(flow.below_refresh)
        if asked is None or asked.ticket != ticket or asked.phase is not RefreshPhase.ASKED:
            return
        problem = _moved_since(flow, asked)
        if not problem:
            _keep(flow, asked, phase=RefreshPhase.SENT)
    if problem:
        _end(flow, asked, "failed", problem, phase=RefreshPhase.REFUSED, problem=problem)
        return
    try:
        client = client_for(flow.pipeline.workspace)
        update_id = client.start_update(flow.pipeline.pipeline_id, **rerun.selected(asked.datasets))
    except OutcomeUnknown as unknown:
        _end(flow, asked, "unknown", unknown.sentence, problem=unknown.sentence)
    except RepriseError as error:
        _end(flow, asked, "failed", error.sentence, phase=RefreshPhase.REFUSED, problem=error.sentence)
    else:
        says = f"Update {update_id} was started: it refreshes what is below {flow.name}."
        _end(flow, asked, "done", says, phase=RefreshPhase.STARTED, update_id=update_id)


def _moved_since(flow: Flow, asked: BelowRefresh) -> str:
    """Why the request no longer holds by the time a worker takes it, in a sentence; "" where it does.

    An update of what was asked for could now write rows twice, or run in the middle of a recovery's steps.
    """
    if not asked.waits:
        return "The request waited too long and counts as lost. Nothing was started; ask for it again."
    try:
        _refuse_other_ways(flow, waiting=asked)
    except Refused as refused:
        return refused.sentence
    if not set(asked.datasets) <= {late.dataset for late in late_below(flow).flows}:
        return "What is below has changed since the request. Nothing was started; ask for it again."
    return ""


def _end(flow: Flow, asked: BelowRefresh, outcome: str, says: str, **changes: Any) -> None:
    with transaction.atomic():
        _keep(flow, asked, **{"phase": RefreshPhase.SENT, **changes})
        append_entry(
            action=START, outcome=outcome, by=SYSTEM, behalf=asked.by, target_kind="flow", target=flow.name,
            environment=flow.pipeline.environment, says=says, after={"datasets": list(asked.datasets)},
        )  # fmt: skip


def _keep(flow: Flow, asked: BelowRefresh, **changes: Any) -> None:
    kept = BelowRefresh(**{**asdict(asked), **changes}).as_json()
    Flow.objects.filter(pk=flow.pk).update(below_refresh=kept)
