"""Builds the plan's body from facts and seals it. Reads again everything that the plan relies on."""

import difflib
import hashlib
from collections.abc import Collection, Mapping
from typing import Final, Literal

from django.db import transaction
from django.utils import timezone

from recovery.approvals.rules import strategy_allowed
from recovery.approvals.selectors import plan_in_force, rule_for
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.table_progress import reconcile_report
from recovery.contracts import codec
from recovery.contracts.acceptance import Accepted, Cost, Effect
from recovery.contracts.codec import seal
from recovery.contracts.names import BEGINNING_AGAIN, KEEPING, name_strategy
from recovery.contracts.option import Option, SettledBy
from recovery.contracts.plan import (
    SCHEMA,
    Numbering,
    PatchAuthor,
    PatchChange,
    PipelineName,
    PlanBody,
    PlannedInput,
    SealedDiagnosis,
    SinkPlace,
    WaitingFile,
)
from recovery.contracts.start_choice import StartChoice
from recovery.errors import Refused, RepriseError
from recovery.models import Plan, Recovery, Step
from recovery.people.roles import Actor
from recovery.plans.accepted import costs_of
from recovery.sources.base import SourceFacts
from recovery.sources.kafka_facts import KafkaFacts
from recovery.spark.api import NO_SUCH_COLUMN
from recovery.strategies.base import Facts
from recovery.strategies.catalogue import EXECUTABLE, judge_all
from recovery.strategies.common import files_of, state_keys, whole_rows
from recovery.strategies.revert import put_back
from recovery.verification.criteria import EDITION
from recovery.workflow import joining
from recovery.workflow.accepting import accepted_of, says_accepted
from recovery.workflow.code_users import require_own_code
from recovery.workflow.flow_snapshot import FlowSnapshot
from recovery.workflow.gather import gather
from recovery.workflow.journal import note
from recovery.workflow.moves import lock, move
from recovery.workflow.plan_basis import digest_basis, refuse_changed_basis
from recovery.workflow.transitions import WAITS
from recovery.workflow.validation import validate

SETTLED_WITH: Final[Mapping[SettledBy | None, str]] = {
    SettledBy.START: "--position",
    SettledBy.SOURCES: "--confirm",
    SettledBy.TARGET: "--to",
}
"""The option of the command line that takes a blocker away."""


def seal_recovery(*, recovery: Recovery, by: Actor, accept: Collection[Effect] | None = None) -> Plan:
    """Gather with the saved choices, check that the strategy can run, write the plan and its steps.

    `accept`: effects that this call accepts of whatever the forecast says (commands, API), in place of what was
    accepted on Review; None: what was accepted there. Raises Refused (blocked strategy, patch that does not validate,
    nothing chosen; `NotAccepted`), Unreachable.
    """
    try:
        return _seal(recovery, by, accept)
    except RepriseError as failure:
        note("plan.seal", recovery, failure.sentence, outcome="failed", by=by)
        raise


def _seal(recovery: Recovery, by: Actor, accept: Collection[Effect] | None) -> Plan:
    strategy, key = recovery.chosen.strategy, recovery.chosen.key
    if strategy not in EXECUTABLE:
        raise Refused(f"Choose a strategy first: one of {', '.join(EXECUTABLE)}.")
    if no := strategy_allowed(rule_for(recovery.flow.pipeline.environment), strategy):  # since it was chosen
        raise Refused(no.says, code=no.code)
    snapshot, facts, option = _judge(recovery, strategy, recovery.chosen.positions)
    if option.blocked:
        flag = SETTLED_WITH.get(option.blocker.settled_by) if option.blocker else None
        flags = (flag,) if flag else ()
        raise Refused(f"{name_strategy(strategy)} cannot run: {option.blocked}", code="blocked", flags=flags)
    _key_exists(facts, key)
    held = accepted_of(recovery, option.forecast, effects=accept, by=by)
    target = wanted_code(snapshot, facts, strategy)
    changed = {p: text for p, text in target.items() if snapshot.code.get(p) != text}
    if changed:
        require_own_code(recovery.flow, changed)
        _must_validate(recovery, changed)
    contents = build(recovery, snapshot, facts, option, changed, held)
    return _write(recovery, contents, by)


def _judge(
    recovery: Recovery, strategy: str, wishes: Mapping[str, StartChoice]
) -> tuple[FlowSnapshot, Facts, Option]:
    """What is there now, and the strategy judged by it, with the saved choices and these start positions."""
    chosen = recovery.chosen
    snapshot, facts = gather(
        recovery.flow,
        patch=chosen.patch or {},
        strategy=strategy,
        key=chosen.key,
        wishes=wishes,
        confirmed=chosen.confirmed,
        refresh_below=chosen.refresh_below,
        target=chosen.target,
        recovery=recovery.label,
    )
    return snapshot, facts, next(o for o in judge_all(facts) if o.strategy == strategy)


def costs_from(recovery: Recovery, wishes: Mapping[str, StartChoice]) -> tuple[Cost, ...]:
    """What a plan of the saved choices would cost from these start positions; () where it could not be sealed, or that
    cannot be read now: sealing then names the reason."""
    strategy = recovery.chosen.strategy
    if strategy not in EXECUTABLE:
        return ()
    try:
        _, _, option = _judge(recovery, strategy, wishes)
    except RepriseError:
        return ()
    return () if option.blocked else costs_of(option.forecast)


def wanted_code(snapshot: FlowSnapshot, facts: Facts, strategy: str) -> Mapping[str, str]:
    """The whole source as it shall be when the plan runs."""
    if strategy == "revert":
        assert facts.old_code is not None, "revert is blocked without old code"
        return facts.old_code.files
    return facts.new_code.files


def _key_exists(facts: Facts, key: tuple[str, ...]) -> None:
    if key and facts.new_code.problem and facts.new_code.problem_code == NO_SUCH_COLUMN:
        raise Refused(facts.new_code.problem, code=NO_SUCH_COLUMN)


def _must_validate(recovery: Recovery, changed: Mapping[str, str]) -> None:
    answer = validate(recovery.flow, changed)
    if answer.status != "valid":
        raise Refused(f"The changed code does not validate: {answer.says}", code="invalid_code")


def _editors(recovery: Recovery, changed: Mapping[str, str]) -> tuple[PatchAuthor, ...]:
    """Who edited the code that the plan changes, each once: authors of the plan, as is who seals it."""
    editors = recovery.chosen.editors
    named = {who for path in changed for who in editors.get(path, ())}
    return tuple(sorted(named, key=lambda who: str((who.name, who.user_id))))


def build(
    recovery: Recovery,
    snapshot: FlowSnapshot,
    facts: Facts,
    option: Option,
    changed: Mapping[str, str],
    accepted: Accepted,
) -> PlanBody:
    """The plan's contents. `accepted`: what people accepted of its costs."""
    if option.strategy == "revert":
        facts = put_back(facts)
    code = facts.old_code if option.strategy == "revert" and facts.old_code else facts.new_code
    return PlanBody(
        schema_number=SCHEMA,
        recovery=recovery.label,
        workspace=facts.workspace,
        environment=facts.environment,
        pipeline=PipelineName(id=facts.pipeline_id, name=facts.pipeline),
        flow=facts.flow,
        dataset=facts.dataset,
        checkpoint_place=snapshot.checkpoint_place,
        table_place=snapshot.table_place,
        sink=_sink_place(snapshot),
        other_tables=dict(snapshot.others),
        diagnosis=_diagnosis(recovery),
        strategy=option.strategy,
        key=code.key,
        key_from=code.key_from,
        written_by_function=facts.sink.by_function,
        whole_rows=whole_rows(code),
        proof=EDITION,
        positions=option.positions,
        numbering=_numbering(facts, option),
        state=_state(option),
        code_operators=None if code.operators is None else tuple(code.operators),
        rehearsed=facts.counts.rehearsed,
        state_held=state_keys(facts),
        watermark_ms=reconcile_report(facts.checkpoint).closed_ms,
        patch=tuple(
            _change(path, snapshot.code.get(path, ""), text) for path, text in sorted(changed.items())
        ),
        editors=_editors(recovery, changed),
        forecast=option.forecast,
        accepted=accepted,
        table_rows=facts.counts.table,
        preconditions=snapshot.preconditions(),
        waiting_files=tuple(
            WaitingFile(path=f.path, size=f.size, mtime_ms=f.mtime_ms) for f in files_of(facts, "waiting")
        ),
        wishes={source: wish for source, wish in recovery.chosen.positions.items() if wish is not None},
        target=recovery.chosen.target if option.strategy == "replay" else None,
        inputs=tuple(_input(source) for source in facts.sources),
        gathered_at=facts.gathered_at,
        steps=option.steps,
        criteria=option.criteria,
        rollback=option.rollback,
        findings=option.findings,
    )


def _sink_place(snapshot: FlowSnapshot) -> SinkPlace:
    sink = snapshot.sink
    return SinkPlace(kind=sink.kind, declared=sink.declared, place=sink.location)


def _numbering(facts: Facts, option: Option) -> Numbering:
    """The number of the first new batch, and whether the query keeps its id."""
    standing = _standing(facts, option)
    last, kept = standing.last_committed, option.strategy in KEEPING
    return Numbering(
        next_batch=0 if option.strategy in BEGINNING_AGAIN or last is None else last + 1,
        query_id="kept" if kept and standing.query_id == facts.checkpoint.query_id else "new",
    )


def _state(option: Option) -> Literal["keep", "drop", "rebuild"]:
    """What becomes of the state."""
    if option.strategy in KEEPING:
        return "keep"
    return "rebuild" if option.strategy == "rebuild" else "drop"


def _diagnosis(recovery: Recovery) -> SealedDiagnosis:
    why = recovery.diagnosis_value
    return SealedDiagnosis(
        condition=why.condition, title=why.title, damaged=why.damaged, severity=why.severity
    )


def _input(source: SourceFacts) -> PlannedInput:
    """What the steps need to know of a source. Only of files the reader's options: others hold passwords."""
    files = source.position.kind == "files"
    return PlannedInput(
        source=source.position.source,
        kind=source.position.kind,
        location=source.location,
        options={k: str(v) for k, v in source.options.items()} if files else {},
        waiting=tuple(f.path for f in source.waiting),
        gone=tuple(source.gone),
        ignored=tuple(f.path for f in source.ignored),
        start=source.begins,
        latest=source.latest,
        topic_ids=_topic_ids(source),
    )


def _topic_ids(source: SourceFacts) -> dict[str, str]:
    """Which Kafka topics the positions are of: one that is deleted and made again has its name, and other records."""
    facts = source.facts if isinstance(source.facts, KafkaFacts) else KafkaFacts()
    return {t: of.topic_id for t, of in facts.topics.items() if of.topic_id and t in facts.read}


def _standing(facts: Facts, option: Option) -> CheckpointReport:
    """The progress after which this strategy's first new batch comes."""
    if option.strategy == "repair" and facts.repair:
        return facts.repair.after
    return reconcile_report(facts.checkpoint) if option.strategy == "continue" else facts.checkpoint


def _change(path: str, before: str, after: str) -> PatchChange:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a{path}", f"b{path}"
    )
    return PatchChange(
        path=path,
        before_sha256=hashlib.sha256(before.encode()).hexdigest(),
        after_sha256=hashlib.sha256(after.encode()).hexdigest(),
        diff="".join(line if line.endswith("\n") else line + "\n" for line in lines),
        before=before,
        after=after,
    )


def _write(recovery: Recovery, contents: PlanBody, by: Actor) -> Plan:
    """Plan, its steps, the state and the audit row: one transaction. `recovery` holds the choices of the plan."""
    body = codec.to_json(contents)
    digest = seal(body)
    with transaction.atomic():
        fresh = lock(recovery.pk)
        refuse_changed_basis(fresh, digest_basis(recovery))
        if fresh.state in WAITS:
            withdraw(fresh, "A newer plan was sealed in its place.")
        _save_accepted(fresh, contents.accepted, by)
        move(fresh, "planned", strategy=contents.strategy)
        plan = Plan.objects.create(
            recovery=fresh, hash=digest, body=body, sealed_by=by.name, sealed_by_id=by.user_id
        )
        begun = fresh.steps.count()
        for number, step in enumerate(contents.steps, start=begun + 1):
            Step.objects.create(
                recovery=fresh,
                plan=plan,
                ordinal=number,
                kind=step.kind,
                says=step.says,
                args=codec.to_read_json(step.args),
                idempotency_key=f"{digest[:40]}-{number}",
            )
        says = f"Plan {digest[:8]} sealed: {name_strategy(contents.strategy)} for {contents.flow}."
        forecast = codec.to_json(contents.forecast.without_groups)  # the log keeps it for good
        after = {"plan": digest, "strategy": contents.strategy, "forecast": forecast}
        note("plan.seal", fresh, says, by=by, after=after)
    return plan


def _save_accepted(recovery: Recovery, held: Accepted, by: Actor) -> None:
    """What the call that seals has accepted itself is a choice of the recovery too, and an act in the log."""
    before = recovery.chosen.accepted
    if all(one is None or one == before.of(one.effect) for one in (held.loss, held.repeats)):
        return
    recovery.choices = {**recovery.choices, "accepted": codec.to_json(held)}
    Recovery.objects.filter(pk=recovery.pk).update(choices=recovery.choices)
    told = {"accepted": codec.to_json(held)}
    note(
        "recovery.accept",
        recovery,
        says_accepted(held),
        by=by,
        before={"accepted": codec.to_json(before)},
        after=told,
    )


def withdraw(recovery: Recovery, says: str, *, what: str = "plan") -> None:
    """Back to diagnosing: a plan that never ran is void, its votes with it, its steps are skipped, the choices stay.

    Call inside the caller's transaction, which records it.
    """
    _void(recovery, says, what)
    move(recovery, "diagnosing", says=says, reason=says if what == "approval" else "")


def end_plan(recovery: Recovery, says: str) -> None:
    """The plan of a recovery that has ended without running: void, its steps skipped. In the caller's transaction."""
    _void(recovery, says, "approval")


def _void(recovery: Recovery, says: str, what: str) -> None:
    drift = [{"what": what, "planned": "", "now": "", "says": says}]
    plan = plan_in_force(recovery)  # one that ran before it, whose proof does not hold, stays
    if plan is not None:
        Plan.objects.filter(pk=plan.pk).update(voided_at=timezone.now(), drift=drift)
        joining.void_with_others(plan, says)
    recovery.steps.filter(state="pending", plan__isnull=False).update(state="skipped")
