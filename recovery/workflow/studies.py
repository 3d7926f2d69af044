"""The long looks that pages wait for: facts, validation, sealing. Each runs in a task under a ticket.

A ticket is the name of one request: an answer whose ticket is no longer the recovery's is thrown
away, so a slow old look never overwrites a newer one.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from recovery.approvals.rules import count_people
from recovery.approvals.selectors import rule_for
from recovery.checkpoints.formats import Malformed
from recovery.contracts import codec
from recovery.contracts.amounts import Amount
from recovery.contracts.facts import GatheredFacts
from recovery.contracts.plan import SinkPlace, WaitingFile
from recovery.contracts.positions import ShownSource
from recovery.errors import Refused, RepriseError
from recovery.models import Flow, PositionsLook, Recovery
from recovery.people.roles import Actor, Role
from recovery.sources import position_view
from recovery.sources.base import StartChoice
from recovery.strategies.base import Facts
from recovery.strategies.catalogue import judge_all
from recovery.strategies.common import files_of, whole_rows
from recovery.strategies.effort import measure_all
from recovery.workflow import broker, sealing
from recovery.workflow.accepting import NotAccepted
from recovery.workflow.gather import gather, read_positions
from recovery.workflow.journal import note
from recovery.workflow.plan_basis import refuse_changed_basis
from recovery.workflow.validation import validate

LOOK: Final = "positions_look"


def begin(recovery: Recovery, field: str, **values: Any) -> str:
    """Note on the row that a look has begun; returns its ticket. Call inside the caller's transaction."""
    ticket = uuid.uuid4().hex
    state = {
        **slot(recovery, field),
        **values,
        "status": "working",
        "ticket": ticket,
        "problem": None,
        "repeats": 0,
    }
    state["started_at"] = timezone.now().isoformat()
    put(recovery, field, state)
    return ticket


def slot(recovery: Recovery, field: str) -> dict[str, Any]:
    """`facts` is a column; `positions_look`, `validation` and `sealing` live in `choices`."""
    if field == "facts":
        return dict(recovery.facts)
    return dict(recovery.choices.get(field) or {})


def looked_sources(recovery: Recovery) -> tuple[ShownSource, ...]:
    """What the newest look at positions that came to its end found of each source; () before."""
    if recovery.chosen.positions_look.wishes is None:
        return ()
    row = PositionsLook.objects.filter(recovery=recovery.pk).first()
    return position_view.read_sources(row.sources) if row else ()


def put(recovery: Recovery, field: str, value: Mapping[str, Any]) -> None:
    """Write one slot, under the row's lock (SQLite: the immediate transaction is the lock).

    What a look found goes to its own row.
    """
    row = Recovery.objects.select_for_update().get(pk=recovery.pk)
    if field == LOOK and "sources" in value:
        value = dict(value)
        PositionsLook.objects.update_or_create(recovery=row, defaults={"sources": value.pop("sources")})
    if field == "facts":
        Recovery.objects.filter(pk=row.pk).update(facts=dict(value))
        recovery.facts = dict(value)
    else:
        choices = {**row.choices, field: dict(value)}
        Recovery.objects.filter(pk=row.pk).update(choices=choices)
        recovery.choices = choices


def _finish(recovery_id: int, field: str, ticket: str, values: Mapping[str, Any]) -> bool:
    with transaction.atomic():
        recovery = Recovery.objects.select_for_update().get(pk=recovery_id)
        now = slot(recovery, field)
        if now.get("ticket") != ticket:
            return False
        put(recovery, field, {**now, **values, "at": timezone.now().isoformat()})
        return True


def _run(recovery_id: int, field: str, ticket: str, work: Callable[[Recovery], Mapping[str, Any]]) -> None:
    recovery = Recovery.objects.select_related("flow__pipeline__workspace").get(pk=recovery_id)
    if slot(recovery, field).get("ticket") != ticket:
        return
    try:
        values = work(recovery)
    except RepriseError as failure:
        values = {
            "status": "failed",
            "problem": failure.sentence,
            "says": failure.sentence,
            "code": failure.code,
            "costs": [codec.to_json(c) for c in failure.costs] if isinstance(failure, NotAccepted) else [],
        }
    except Exception as bug:
        _finish(recovery_id, field, ticket, {"status": "failed", "problem": f"A fault in Reprise: {bug}"})
        raise
    _finish(recovery_id, field, ticket, values)


def gather_facts(recovery_id: int, ticket: str) -> None:
    """Judge every strategy with today's code."""

    def work(recovery: Recovery) -> Mapping[str, Any]:
        chosen = recovery.chosen
        _, facts = gather(
            recovery.flow,
            key=chosen.key,
            wishes=chosen.positions,
            confirmed=chosen.confirmed,
            refresh_below=chosen.refresh_below,
        )
        people = count_people(rule_for(recovery.flow.pipeline.environment))
        return codec.to_set_json(build_gathered(facts, people=people))

    _run(recovery_id, "facts", ticket, work)


def build_gathered(facts: Facts, *, people: Amount) -> GatheredFacts:
    """Facts as they are stored and shown. `people`: how many the environment's rule asks for."""
    sink, files = facts.sink, files_of(facts, "waiting")
    return GatheredFacts(
        status="ready",
        options=tuple(measure_all(facts, judge_all(facts), people=people)),
        table_rows=facts.counts.table,
        sink=SinkPlace(kind=sink.kind, declared=sink.declared, place=sink.location),
        waiting_rows=facts.counts.waiting,
        waiting_files=tuple(WaitingFile(path=f.path, size=f.size, mtime_ms=f.mtime_ms) for f in files),
        processed_files=len(files_of(facts, "processed")),
        key=tuple(facts.new_code.key),
        key_from=facts.new_code.key_from,
        whole_rows=whole_rows(facts.new_code),
        code_operators=None if facts.code.operators is None else tuple(facts.code.operators),
    )


def look_positions(recovery_id: int, ticket: str) -> None:
    """What the positions that were asked for would cost: `looked_sources`. Changes nothing else.

    `wishes` and `sources` are of the newest look that came to its end; a look that fails leaves them as they were.
    """

    def work(recovery: Recovery) -> Mapping[str, Any]:
        chosen = recovery.chosen
        sources = positions_shown(recovery.flow, chosen.positions_look.asked, chosen.patch)
        stored = [codec.to_json(source) for source in sources]
        return {"status": "ready", "wishes": slot(recovery, LOOK)["asked"], "sources": stored}

    _run(recovery_id, LOOK, ticket, work)


def positions_shown(
    flow: Flow, wanted: Mapping[str, StartChoice], patch: Mapping[str, str] | None = None
) -> tuple[ShownSource, ...]:
    """Every source of the code as `patch` changes it, with what the wishes would cost.

    A wish that cannot be met is the source's `problem`
    (`positioning.list_unmet`). Raises Refused for a source that is not there, Unreachable.
    """
    try:
        found = read_positions(flow, wanted, patch)
        shown = tuple(position_view.show_source(facts, index=n) for n, facts in enumerate(found))
    except Malformed as problem:
        raise Refused(
            f"The position that was typed cannot be read: {problem.why}.", code="bad_position"
        ) from problem
    refuse_unknown(wanted, [one.source for one in shown])
    return shown


def refuse_unknown(named: Iterable[str], known: Collection[str]) -> None:
    """Raise Refused, naming the sources that there are, unless all that are named are among them."""
    if strange := sorted(set(named) - set(known)):
        there = ", ".join(sorted(known)) or "none"
        raise Refused(f"There is no source {', '.join(strange)} here. Sources: {there}.", code="no_source")


def validate_patch(recovery_id: int, ticket: str) -> None:
    """Run validate_only on the saved patch."""

    def work(recovery: Recovery) -> Mapping[str, Any]:
        return validate(recovery.flow, recovery.chosen.patch or {})

    _run(recovery_id, "validation", ticket, work)


def seal_plan(recovery_id: int, ticket: str) -> None:
    """Gather again with the patch, and seal."""

    def work(recovery: Recovery) -> Mapping[str, Any]:
        request = recovery.chosen.sealing
        refuse_changed_basis(recovery, request.basis)
        asked = request.by
        assert asked is not None, "a plan is asked for by a person"
        by = Actor(asked.name, Role(asked.role), asked.user_id, "task", asked.request_id)
        try:
            plan = sealing.seal_recovery(recovery=recovery, by=by, accept=request.accept)
        except (
            NotAccepted
        ):  # of choices that were changed meanwhile: these costs are not those of the next plan
            refuse_changed_basis(Recovery.objects.get(pk=recovery.pk), request.basis)
            raise
        return {"status": "ready", "plan": plan.hash}

    _run(recovery_id, "sealing", ticket, work)


REPEATS: Final = 2
"""So often a look that only reads is begun again by itself when its worker has gone silent."""


def reap(*, older_than: datetime) -> None:
    """A look whose worker died is begun again where it only reads, else says so, instead of working for ever."""
    limit = 15  # times the silence limit: a look over many files may take minutes
    for recovery in Recovery.objects.filter(active=True):
        for field in ("facts", LOOK, "validation", "sealing"):
            state = slot(recovery, field)
            begun = (
                parse_datetime(state.get("started_at") or "") if state.get("status") == "working" else None
            )
            if begun and (older_than - begun) > limit * (timezone.now() - older_than):
                _begin_again_or_fail(recovery, field, state)


def _begin_again_or_fail(recovery: Recovery, field: str, state: Mapping[str, Any]) -> None:
    """Under the same ticket: should the silent worker answer after all, it answers the same question."""
    from recovery.workflow import tasks

    reads = {"facts": tasks.gather_facts, LOOK: tasks.look_positions}
    repeats = int(state.get("repeats", 0))
    if field not in reads or repeats >= REPEATS:
        says = "The worker that was looking has gone silent. Ask again."
        _finish(recovery.pk, field, state["ticket"], {"status": "failed", "problem": says})
        return
    begun = {"started_at": timezone.now().isoformat(), "repeats": repeats + 1}
    if _finish(recovery.pk, field, state["ticket"], begun):
        broker.send_on_commit(reads[field], recovery.pk, state["ticket"])
        note(
            "recovery.facts" if field == "facts" else "recovery.look",
            recovery,
            f"Begun again by itself ({repeats + 1} of {REPEATS}): the worker that was looking has gone silent.",
        )
