"""The report of a recovery, made of what is stored: times, numbers, criteria, votes, audit. Nothing is measured here.

What no one stored is None, and is shown as not known. Codes of criteria and names of measured numbers are taken as they
stand, so that a proof of any edition can be reported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from recovery.contracts import codec
from recovery.contracts.acceptance import Accepted, Effect
from recovery.contracts.criteria import Criterion
from recovery.contracts.diagnosis import LastGoodBatch
from recovery.contracts.measured import JudgedCriterion, Measured, ReachedInput
from recovery.contracts.names import ChangeIntent, StepKind
from recovery.contracts.plan import PlanBody
from recovery.contracts.positions import PositionChange
from recovery.contracts.step_notes import Statement
from recovery.models import AuditEntry, Plan, Recovery, Step
from recovery.people.roles import Actor, Right
from recovery.people.visible import filter_entries
from recovery.pipelines.events import when
from recovery.verification.below import DONE
from recovery.verification.criteria import FIRST_BATCH_AT_POSITION
from recovery.workflow.selectors import plan_of

MOST_ENTRIES: Final = 500


@dataclass(frozen=True)
class Times:
    """ISO times, UTC; None where no one noted one. `proven` only of a recovery that ended as proven.

    `seconds_to_recover`: from the failure to the proof.
    """

    failed: str | None
    opened: str
    sealed: str | None
    ran: str | None
    proven: str | None
    ended: str | None
    seconds_to_recover: int | None


@dataclass(frozen=True)
class ReportedVote:
    """One vote on the plan; a void one was given, and counts no more."""

    voter: str
    choice: str
    reason: str
    at: str
    void: bool


@dataclass(frozen=True)
class ReportedAuditEntry:
    """One entry of the audit log about this recovery."""

    seq: int
    at: str
    actor: str
    action: str
    outcome: str
    says: str


@dataclass(frozen=True)
class ReportedReader:
    """A dataset that reads the flow's table, in the flow's or another pipeline (`pipeline`; None: the flow's own), and
    what the plan did to it. `refreshed_at`: when a refresh of the plan ended that reached it; None: none did."""

    dataset: str
    kind: str
    pipeline: str | None
    effect: str
    refreshed_at: str | None


@dataclass(frozen=True)
class ReportedStep:
    """One step: how it ended, and how long it took in seconds (None: it has not ended, or did not begin)."""

    kind: str
    state: str
    began: str | None
    seconds: float | None
    says: str


@dataclass(frozen=True)
class TimeTaken:
    """How long the steps of the plan were estimated to take, and took together, in seconds. What waited for a person
    or a vote is in neither. None: not known, or not every step is done."""

    estimated: float | None
    took: float | None


@dataclass(frozen=True)
class Report:
    """Everything about one recovery. `forecast` is the plan's, `accepted` who accepted what it costs, `measured` the
    newest proof's without its criteria and samples, `criteria` as measured, or as planned before that. `meant`: whether
    the owner called the change of the code meant, and `meant_by` who said so; None and "": not asked, or not kept.
    `last_good`: the last batch before the failure; `first_batch`: the first after it, `last_batch` and `reached` how
    far its checkpoint had come when it was measured. `entries` None: the reader may not read the log."""

    recovery: str
    state: str
    reason: str
    workspace: str
    environment: str
    pipeline: str
    flow: str
    dataset: str
    owner: str
    cause: str
    meant: ChangeIntent | None
    meant_by: str
    last_good: LastGoodBatch | None
    first_batch: int | None
    last_batch: int | None
    reached: tuple[ReachedInput, ...]
    readers: tuple[ReportedReader, ...]
    strategy: str
    plan_hash: str | None
    sealed_by: str | None
    times: Times
    forecast: Mapping[str, Any]
    accepted: Accepted
    measured: Measured | None
    criteria: tuple[JudgedCriterion | Criterion, ...]
    positions: tuple[PositionChange, ...]
    patch: tuple[Mapping[str, Any], ...]
    steps: tuple[ReportedStep, ...]
    time: TimeTaken
    statements: tuple[Statement, ...]
    votes: tuple[ReportedVote, ...]
    broken_glass: str | None
    entries: tuple[ReportedAuditEntry, ...] | None
    more_entries: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        held = {effect: self.accepted.of(effect) for effect in Effect}
        accepted = {e.value: one and {"effect": e.value, **codec.to_json(one)} for e, one in held.items()}
        measured = codec.to_read_json(self.measured) if self.measured else {}
        return {
            **asdict(self),
            "accepted": accepted,
            "measured": {k: v for k, v in measured.items() if k not in ("criteria", "samples")},
            "last_good": self.last_good and codec.to_json(self.last_good),
            "reached": [codec.to_json(one) for one in self.reached],
            "positions": [codec.to_read_json(position) for position in self.positions],
            "criteria": [codec.to_read_json(criterion) for criterion in self.criteria],
            "statements": [codec.to_json(statement) for statement in self.statements],
        }


def compare_time(plan: Plan | None, steps: Sequence[Step]) -> TimeTaken:
    """The sealed estimate against what the plan's steps took. A skipped step, or one that failed, leaves no sum."""
    if plan is None:
        return TimeTaken(None, None)
    mine = [step for step in steps if step.plan_id == plan.pk and step.kind != "rollback"]
    took = [
        (step.ended_at - step.started_at).total_seconds()
        for step in mine
        if step.state == "done" and step.notes.skipped is None and step.started_at and step.ended_at
    ]
    whole = round(sum(took), 3) if took and len(took) == len(mine) else None
    return TimeTaken(plan.contents.forecast.seconds, whole)


def report(recovery: Recovery, by: Actor) -> Report:
    """The report as `by` may read it: audit entries are for who may read the log."""
    plan = plan_of(recovery) or recovery.plans.order_by("-pk").first()
    contents = plan.contents if plan else None
    proof, flow = recovery.proof, recovery.flow
    entries, more = _entries(recovery, by)
    steps = list(recovery.steps.order_by("ordinal"))
    glass = recovery.glasses.order_by("-pk").first()
    return Report(
        recovery=recovery.label,
        state=recovery.state,
        reason=recovery.reason,
        workspace=flow.pipeline.workspace.name,
        environment=flow.pipeline.environment,
        pipeline=flow.pipeline.name,
        flow=flow.name,
        dataset=flow.dataset,
        owner=recovery.owner,
        cause=recovery.diagnosis_value.title,
        meant=recovery.chosen.meant,
        meant_by=recovery.chosen.meant_by,
        last_good=recovery.diagnosis_value.last_good,
        first_batch=_first_batch(proof),
        last_batch=proof.last_batch if proof else None,
        reached=proof.reached if proof else (),
        readers=_list_readers(contents, proof, steps),
        strategy=contents.strategy if contents else recovery.strategy,
        plan_hash=plan.hash if plan else None,
        sealed_by=plan.sealed_by if plan else None,
        times=times(recovery, plan),
        forecast=codec.to_read_json(contents.forecast) if contents else {},
        accepted=contents.accepted if contents else Accepted(),
        measured=proof,
        criteria=(proof.criteria if proof else ()) or (contents.criteria if contents else ()),
        positions=contents.positions if contents else (),
        patch=tuple(change.without_texts for change in contents.patch) if contents else (),
        time=compare_time(plan, steps),
        steps=tuple(_step(s) for s in steps),
        statements=tuple(said for s in steps for said in s.notes.statements),
        votes=_votes(plan),
        broken_glass=f"{glass.by}: {glass.reason}" if glass else None,
        entries=entries,
        more_entries=more,
    )


def _first_batch(proof: Measured | None) -> int | None:
    """The first batch of the rerun, as it was measured; None where none was due, or that is not known."""
    judged = proof.criterion(FIRST_BATCH_AT_POSITION) if proof else None
    return judged.measured_number("batch") if judged else None


def _list_readers(
    contents: PlanBody | None, proof: Measured | None, steps: Sequence[Step]
) -> tuple[ReportedReader, ...]:
    """Every dataset that the plan knew to read the table. One was refreshed if its update completed."""
    done = [s for s in steps if s.kind == StepKind.REFRESH and s.state == "done" and s.notes.skipped is None]
    ended = _iso(done[-1].ended_at) if done else None
    completed = {one.dataset for one in proof.downstream if one.status == DONE} if proof else set()
    return tuple(
        ReportedReader(
            one.dataset, one.kind, one.pipeline, one.effect, ended if one.dataset in completed else None
        )
        for one in (contents.forecast.downstream if contents else ())
    )


def times(recovery: Recovery, plan: Plan | None) -> Times:
    """When it failed, was opened, sealed, run and proven."""
    failed = failed_at(recovery)
    proven = when(recovery.proof.at) if recovery.proof and recovery.state == "succeeded" else None
    first = (
        recovery.steps.filter(plan=plan).exclude(started_at=None).order_by("ordinal").first()
        if plan
        else None
    )
    took = round((proven - failed).total_seconds()) if proven and failed else None
    return Times(
        failed=_iso(failed),
        opened=recovery.created_at.isoformat(),
        sealed=_iso(plan.sealed_at if plan else None),
        ran=_iso(first.started_at if first else None),
        proven=_iso(proven),
        ended=_iso(recovery.ended_at),
        seconds_to_recover=took,
    )


def failed_at(recovery: Recovery) -> datetime | None:
    """When the flow began to fail, as noted when the recovery was opened; for one that an older version opened, as the
    flow still says, where that was before the recovery."""
    noted = when(recovery.diagnosis_value.failed_at)
    since = recovery.flow.failing_since
    return noted or (since if since is not None and since <= recovery.created_at else None)


def _votes(plan: Plan | None) -> tuple[ReportedVote, ...]:
    given = plan.votes.order_by("pk") if plan else ()
    return tuple(
        ReportedVote(v.voter, v.choice, v.reason, v.at.isoformat(), v.voided_at is not None) for v in given
    )


def _entries(recovery: Recovery, by: Actor) -> tuple[tuple[ReportedAuditEntry, ...] | None, bool]:
    if not by.may(Right.READ_AUDIT):
        return None, False
    kept = AuditEntry.objects.filter(filter_entries(by), recovery=recovery.label).order_by("seq")
    rows = list(kept.defer("before", "after")[: MOST_ENTRIES + 1])
    entries = tuple(
        ReportedAuditEntry(e.seq, e.at.isoformat(), e.actor, e.action, e.outcome, e.says)
        for e in rows[:MOST_ENTRIES]
    )
    return entries, len(rows) > MOST_ENTRIES


def _step(step: Any) -> ReportedStep:
    ended = step.started_at and step.ended_at
    seconds = round((step.ended_at - step.started_at).total_seconds(), 3) if ended else None
    return ReportedStep(step.kind, step.state, _iso(step.started_at), seconds, step.problem or step.says)


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
