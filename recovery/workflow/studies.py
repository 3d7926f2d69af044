"""The long looks that pages wait for: facts, validation, sealing. Each runs in a task under a ticket.

A ticket is the name of one request: an answer whose ticket is no longer the recovery's is thrown
away, so a slow old look never overwrites a newer one.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Final

from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from recovery.approvals.rules import count_people
from recovery.approvals.selectors import rule_for
from recovery.checkpoints.formats import Malformed
from recovery.contracts import codec
from recovery.contracts.amounts import Amount
from recovery.contracts.choices import (
    Halt,
    LookedPositions,
    SealingAnswer,
    ValidationAnswer,
    WorkerAnswer,
    WorkProgress,
)
from recovery.contracts.facts import GatheredFacts
from recovery.contracts.plan import SinkPlace, WaitingFile
from recovery.contracts.positions import ShownSource
from recovery.contracts.value import StoredJson
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


def begin(recovery: Recovery, field: str, asked: WorkerAnswer = WorkerAnswer()) -> str:  # noqa: B008
    """Note on the row that a look has begun; returns its ticket. `asked`: what of it is known by now. Call inside the
    caller's transaction."""
    ticket = uuid.uuid4().hex
    started_at = timezone.now().isoformat()
    working = codec.change(
        asked, status="working", ticket=ticket, problem=None, repeats=0, started_at=started_at
    )
    keep_answer(recovery, field, working)
    return ticket


def _read_stored(recovery: Recovery, field: str) -> StoredJson:
    """`facts` is a column; `positions_look`, `validation` and `sealing` live in `choices`."""
    stored: StoredJson = recovery.facts if field == "facts" else recovery.choices.get(field) or {}
    return stored


def read_progress(recovery: Recovery, field: str) -> WorkProgress:
    """How far a look is."""
    return codec.read(WorkProgress, _read_stored(recovery, field))


def looked_sources(recovery: Recovery) -> tuple[ShownSource, ...]:
    """What the newest look at positions that came to its end found of each source; () before."""
    if recovery.chosen.positions_look.wishes is None:
        return ()
    row = PositionsLook.objects.filter(recovery=recovery.pk).first()
    return position_view.read_sources(row.sources) if row else ()


def keep_answer(recovery: Recovery, field: str, answer: WorkerAnswer) -> None:
    """Lay what is set of an answer over the one that is stored; what a look shows of sources goes to its own row."""
    written = codec.to_set_json(answer)
    if isinstance(answer, LookedPositions):
        sources = {"sources": written.pop("sources")}
        PositionsLook.objects.update_or_create(recovery_id=recovery.pk, defaults=sources)
    _write(recovery, field, {**_read_stored(recovery, field), **written})


def set_halt(recovery: Recovery, halt: Halt) -> None:
    """Whether the run shall end, in place of what was wished before."""
    _write(recovery, "halt", codec.to_set_json(halt))


def _write(recovery: Recovery, field: str, written: StoredJson) -> None:
    """Under the row's lock (SQLite: the immediate transaction is the lock)."""
    row = Recovery.objects.select_for_update().get(pk=recovery.pk)
    if field == "facts":
        Recovery.objects.filter(pk=row.pk).update(facts=written)
        recovery.facts = written
    else:
        choices = {**row.choices, field: written}
        Recovery.objects.filter(pk=row.pk).update(choices=choices)
        recovery.choices = choices


def _finish(recovery_id: int, field: str, ticket: str, answer: WorkerAnswer) -> bool:
    with transaction.atomic():
        recovery = Recovery.objects.select_for_update().get(pk=recovery_id)
        if read_progress(recovery, field).ticket != ticket:
            return False
        keep_answer(recovery, field, codec.change(answer, at=timezone.now().isoformat()))
        return True


def _run(recovery_id: int, field: str, ticket: str, work: Callable[[Recovery], WorkerAnswer]) -> None:
    recovery = Recovery.objects.select_related("flow__pipeline__workspace").get(pk=recovery_id)
    if read_progress(recovery, field).ticket != ticket:
        return
    try:
        answer = work(recovery)
    except RepriseError as failure:
        answer = WorkerAnswer(
            status="failed",
            problem=failure.sentence,
            says=failure.sentence,
            code=failure.code,
            costs=tuple(failure.costs) if isinstance(failure, NotAccepted) else (),
        )
    except Exception as bug:
        fault = WorkerAnswer(status="failed", problem=f"A fault in Reprise: {bug}")
        _finish(recovery_id, field, ticket, fault)
        raise
    _finish(recovery_id, field, ticket, answer)


def gather_facts(recovery_id: int, ticket: str) -> None:
    """Judge every strategy with today's code."""

    def work(recovery: Recovery) -> GatheredFacts:
        chosen = recovery.chosen
        _, facts = gather(
            recovery.flow,
            key=chosen.key,
            wishes=chosen.positions,
            confirmed=chosen.confirmed,
            refresh_below=chosen.refresh_below,
            recovery=recovery.label,
        )
        people = count_people(rule_for(recovery.flow.pipeline.environment))
        return build_gathered(facts, people=people)

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

    def work(recovery: Recovery) -> LookedPositions:
        chosen = recovery.chosen
        asked = chosen.positions_look.asked
        sources = positions_shown(recovery.flow, asked, chosen.patch)
        return LookedPositions(status="ready", wishes=asked, sources=sources)

    _run(recovery_id, LOOK, ticket, work)


def positions_shown(
    flow: Flow, wanted: Mapping[str, StartChoice], patch: Mapping[str, str] | None = None
) -> tuple[ShownSource, ...]:
    """Every source of the code as `patch` changes it, with what the wishes would cost.

    A wish that cannot be met is the source's `problem`
    (`positioning.list_unmet`). Raises Refused for a source that is not there, Unreachable.
    """
    try:
        sources = read_positions(flow, wanted, patch)
        shown = tuple(position_view.show_source(facts, index=n) for n, facts in enumerate(sources))
    except Malformed as problem:
        raise Refused(
            f"The position that was typed cannot be read: {problem.why}.", code="bad_position"
        ) from problem
    refuse_unknown(wanted, [source.source for source in shown])
    return shown


def refuse_unknown(named: Iterable[str], known: Collection[str]) -> None:
    """Raise Refused, naming the sources that there are, unless all that are named are among them."""
    if strange := sorted(set(named) - set(known)):
        names = ", ".join(sorted(known)) or "none"
        raise Refused(f"There is no source {', '.join(strange)} here. Sources: {names}.", code="no_source")


def validate_patch(recovery_id: int, ticket: str) -> None:
    """Run validate_only on the saved patch."""

    def work(recovery: Recovery) -> ValidationAnswer:
        return validate(recovery.flow, recovery.chosen.patch or {})

    _run(recovery_id, "validation", ticket, work)


def seal_plan(recovery_id: int, ticket: str) -> None:
    """Gather again with the patch, and seal."""

    def work(recovery: Recovery) -> SealingAnswer:
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
        return SealingAnswer(status="ready", plan=plan.hash)

    _run(recovery_id, "sealing", ticket, work)


REPEATS: Final = 2
"""So often a look that only reads is begun again by itself when its worker has gone silent."""


def reap(*, older_than: datetime) -> None:
    """A look whose worker died is begun again where it only reads, else says so, instead of working for ever."""
    limit = 15  # times the silence limit: a look over many files may take minutes
    for recovery in Recovery.objects.filter(active=True):
        for field in ("facts", LOOK, "validation", "sealing"):
            look = read_progress(recovery, field)
            begun = parse_datetime(look.started_at or "") if look.status == "working" else None
            if begun and (older_than - begun) > limit * (timezone.now() - older_than):
                _begin_again_or_fail(recovery, field, look)


def _begin_again_or_fail(recovery: Recovery, field: str, look: WorkProgress) -> None:
    """Under the same ticket: should the silent worker answer after all, it answers the same question."""
    from recovery.workflow import tasks

    reads = {"facts": tasks.gather_facts, LOOK: tasks.look_positions}
    if field not in reads or look.repeats >= REPEATS:
        says = "The worker that was looking has gone silent. Ask again."
        _finish(recovery.pk, field, look.ticket, WorkerAnswer(status="failed", problem=says))
        return
    begun = WorkerAnswer(started_at=timezone.now().isoformat(), repeats=look.repeats + 1)
    if _finish(recovery.pk, field, look.ticket, begun):
        broker.send_on_commit(reads[field], recovery.pk, look.ticket)
        note(
            "recovery.facts" if field == "facts" else "recovery.look",
            recovery,
            f"Begun again by itself ({begun.repeats} of {REPEATS}): the worker that was looking has gone silent.",
        )
