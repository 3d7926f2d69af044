"""The run page: steps with how long they took, the log of all of them, what can be done now. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from console.presenters import status, words
from console.presenters.reviewing import STEP_NAMES
from console.presenters.stopping import EvidenceRow, StopLogLine
from console.presenters.wizard import AdviceRung, TroubleAnswer, safe_to_wait
from recovery.contracts import codec
from recovery.contracts.names import Strategy
from recovery.contracts.probes import ProbeQuestion, read_evidence
from recovery.contracts.results import SeedResult
from recovery.models import Plan, Recovery, Step
from recovery.workflow import probing, repeating, unknowns
from recovery.workflow.awaited import AwaitedAct, PersonAct
from recovery.workflow.steps.rollback import RollbackRefusal
from recovery.workflow.transitions import SKIPS
from recovery.workflow.usual import UsualDuration

LIVE: Final = ("running", "verifying")


@dataclass(frozen=True)
class RunStepRow:
    kind: str
    name: str
    badge: status.Badge
    says: str
    problem: str
    took: str
    attempt: int
    now: bool
    #: of a step that runs
    began: datetime | None = None
    usual: UsualDuration | None = None


def step_rows(
    steps: Sequence[Step], plan: Plan | None, now: datetime, usual: Mapping[str, UsualDuration] | None = None
) -> list[RunStepRow]:
    """The steps of the plan in force, in order; a rollback after them. `usual`: how long they took before, by kind."""
    own_steps = [s for s in steps if plan is not None and s.plan_id == plan.pk]
    return [
        RunStepRow(
            s.kind,
            STEP_NAMES.get(s.kind, s.kind),
            status.state_badge(status.STEP, s.state),
            step_result(s),
            s.problem if s.state in ("failed", "unknown") else "",
            _duration_text(s, now),
            s.attempt,
            s.state in ("running", "failed", "unknown"),
            s.started_at if s.state == "running" else None,
            (usual or {}).get(s.kind) if s.state in ("running", "pending") else None,
        )
        for s in own_steps
    ]


def mark_waiting(rows: Sequence[RunStepRow]) -> list[RunStepRow]:
    """The step of now waits for a person: that is not called running, and its usual time says nothing of it."""
    waits = status.Badge("attention", "Waits for you")
    return [replace(row, badge=waits, usual=None) if row.now else row for row in rows]


def step_result(step: Step) -> str:
    """What was read back, where the step left an artefact; else what it is to do."""
    says = step.state in ("done", "running") or repeating.next_repeat(step) is not None
    if step.notes.skipped or (says and step.log):
        return str(step.log[-1][1])
    if step.kind == "seed" and step.state == "done":
        seeded = codec.read(SeedResult, step.result)
        if seeded.version is not None:
            return f"Version {seeded.version} is in use. Version {seeded.from_version} is untouched."
    return str(step.says)


def _duration_text(step: Step, now: datetime) -> str:
    if step.started_at is None or step.state in ("pending", "skipped"):
        return "–"
    if step.ended_at is not None:
        return words.format_duration((step.ended_at - step.started_at).total_seconds())
    return f"since {words.format_clock(step.started_at, now, zone=False)}"


def log_lines(steps: Sequence[Step]) -> list[StopLogLine]:
    """Every step's lines, oldest first, the problem of a failed one at its end."""
    lines = [StopLogLine(str(at), s.kind, str(text)) for s in steps for at, text in s.log]
    for s in steps:
        if s.problem and s.state in ("failed", "unknown"):
            at = s.ended_at or s.heartbeat_at or s.started_at
            lines.append(StopLogLine(at.isoformat() if at else "", s.kind, s.problem, warn=True))
    return sorted(lines, key=lambda line: line.at)


def stuck_step(steps: Sequence[Step], plan: Plan | None) -> Step | None:
    """The step that failed or is unknown; of a run that was stopped, the one that did not begin."""
    own_steps = [s for s in steps if plan is not None and s.plan_id == plan.pk and s.kind != "rollback"]
    ended_badly = next((s for s in own_steps if s.state in ("failed", "unknown")), None)
    return ended_badly or next((s for s in own_steps if s.state == "pending"), None)


def halted_step(steps: Sequence[Step], plan: Plan | None) -> Step | None:
    """The step at which a recovery that needs a person is: the stuck one, else the newest verification."""
    own_steps = [s for s in steps if plan is not None and s.plan_id == plan.pk]
    return stuck_step(steps, plan) or next((s for s in reversed(own_steps) if s.kind == "verify"), None)


def name_skip(kind: str) -> str:
    """What skipping a step of this kind is called."""
    return "End without proof" if SKIPS[kind].ends else f"Skip {STEP_NAMES.get(kind, kind)}"


@dataclass(frozen=True)
class SkipOffer:
    """What is skipped, and what follows. `ends`: the recovery ends without proof; `label`: of the button."""

    kind: str
    name: str
    label: str
    because: str
    then: str
    ends: bool


def offer_skip(step: Step | None) -> SkipOffer | None:
    """None before a plan."""
    if step is None:
        return None
    rule, name = SKIPS[step.kind], STEP_NAMES[step.kind]
    then = rule.then or "The recovery goes on with the step after it."
    return SkipOffer(step.kind, name, name_skip(step.kind), rule.because, then, rule.ends)


def is_given_up(kind: str, no_skip: str | None) -> bool:
    """Whether a step of a kind that is not skipped as a rule can be: only to end a recovery that cannot go on."""
    return no_skip is None and not SKIPS[kind].may


def describe_progress(
    rows: Sequence[RunStepRow],
    steps: Sequence[Step] = (),
    usual: Mapping[str, UsualDuration] | None = None,
    now: datetime | None = None,
) -> str:
    """`3 of 5 done`; of a run that goes on also `7 s of about 11 s`, where every step of it has run before."""
    done = sum(r.badge.word == "Done" for r in rows)
    says = f"{done} of {len(rows)} done"
    known = [usual.get(r.kind) if usual else None for r in rows]
    running = next(
        (s for s in steps if s.state == "running" and any(r.now and r.kind == s.kind for r in rows)), None
    )
    if running is None or now is None or running.started_at is None or not all(known):
        return says
    first = min(s.started_at for s in steps if s.started_at and s.plan_id == running.plan_id)
    about = sum(u.seconds for u in known if u)
    return f"{says}, {words.format_duration((now - first).total_seconds())} of about {words.format_duration(about)}"


def last_sign(steps: Sequence[Step]) -> datetime | None:
    """Of the step that runs, and of no other: the sign of life of one that ended tells nothing of this run."""
    return max((s.heartbeat_at for s in steps if s.state == "running" and s.heartbeat_at), default=None)


def poll_seconds(recovery: Recovery, steps: Sequence[Step]) -> int:
    """How often the page asks, in seconds; 0 when nothing moves by itself any more."""
    if recovery.state in LIVE:
        return 1
    moving = any(s.state in ("running", "pending") and s.kind == "rollback" for s in steps)
    unseen = any(s.state == "unknown" for s in steps)
    return 1 if moving else 2 if unseen and recovery.state == "needs_attention" else 0


@dataclass(frozen=True)
class PersonAsked:
    """What a person is to do now, and what shows that it was done."""

    code: str
    title: str
    watched: str
    since: datetime | None


def person_asked(awaited: AwaitedAct | None) -> PersonAsked | None:
    if awaited is None:
        return None
    if awaited.act is PersonAct.STOP:
        return PersonAsked(
            awaited.act.value,
            "Stop the stream now where you usually stop it.",
            "Nothing is stopped from here. Keep it stopped. This step waits about two minutes for that; if the stream "
            "still runs then, stop again here.",
            awaited.asked_at,
        )
    log = "a run in its event log, or " if awaited.has_log else ""
    batch = words.format_number(awaited.batch)
    return PersonAsked(
        awaited.act.value,
        "Start the stream now where you usually start it.",
        f"Nothing is started from here. Watched for: {log}batch {batch} committed in {awaited.checkpoint}. "
        "The recovery then goes on by itself; you may close this page.",
        awaited.asked_at,
    )


def run_asks(recovery: Recovery, step: Step, *, by_others: bool = False) -> list[TroubleAnswer]:
    """The three questions when a step is unknown or failed, or when the run was stopped before it. `by_others`: it
    failed as others have started the stream."""
    name = STEP_NAMES.get(step.kind, step.kind)
    if step.state == "unknown":
        first = TroubleAnswer(
            "What happened",
            f"The end of {name} was not seen",
            f"{step.problem} It may have gone on without a worker. That is not known, so it is not called failed.",
            "end-not-seen",
        )
        bad = _ask_how_bad(step)
    elif step.state == "pending":
        how = "paused" if recovery.chosen.halt.when == "step" else "stopped"
        first = TroubleAnswer(
            "What happened", f"The run was {how} before {name}", recovery.reason, f"run-{how}"
        )
        bad = TroubleAnswer(
            "How bad",
            "Nothing is half done",
            "Each step before it ended and was read back; the log below shows it line by line.",
        )
    else:
        title = "Others have started the stream" if by_others else f"{name} failed"
        first = TroubleAnswer("What happened", title, step.problem, "step-failed")
        bad = TroubleAnswer(
            "How bad",
            "The steps after it did not run",
            "What was done before it is in the log below, each with what was read back.",
        )
    return [first, bad, OTHERS_MAY_WRITE if by_others else safe_to_wait(recovery.gathered)]


OTHERS_MAY_WRITE: Final = TroubleAnswer(
    "Safe to wait?",
    "No, not as it is",
    "What started the stream may start it again, and it may write. Disable that first.",
    "others-may-write",
)


def _ask_how_bad(step: Step) -> TroubleAnswer:
    """What an unknown step may have done: what is open first, then what its table holds."""
    probe = step.notes.probe if step.evidence else None
    unread = [line.says for line in read_evidence(step.evidence) if line.proven is None]
    read = {r.asked: r for r in probe.readings} if probe else {}
    query = read.get(ProbeQuestion.QUERY)
    runs = query is not None and query.proven is None
    open_ones = [*unread[:1], *(["Whether its query still runs is not known."] if runs else [])]
    answered = (read.get(asked) for asked in (ProbeQuestion.TABLE, ProbeQuestion.ROWS))
    held = [reading.says for reading in answered if reading is not None and reading.proven]
    title, code = (
        ("Being read", "effect-being-read")
        if not step.evidence
        else ("Not known", "effect-not-known")
        if probing.leaves_open(step)
        else ("What it did was read", "effect-read")
    )
    says = [*open_ones, *held, "A step that is proven not done goes on by itself; no other does."]
    return TroubleAnswer("How bad", title, " ".join(says), code)


PROBED: Final = {
    ProbeQuestion.EFFECT: "What did the step do?",
    ProbeQuestion.WORKER: "Does its worker live?",
    ProbeQuestion.LOCK: "Who holds this flow?",
    ProbeQuestion.ACTIVE: "Does anything run now?",
    ProbeQuestion.QUERY: "Does its query still run?",
    ProbeQuestion.LAST_EVENT: "What is its last event?",
    ProbeQuestion.OTHERS: "Did anyone else start it since?",
    ProbeQuestion.CHECKPOINT: "Which batch does the checkpoint hold?",
    ProbeQuestion.OLD_VERSION: "Is the old checkpoint untouched?",
    ProbeQuestion.TABLE: "Where does the table’s log end?",
    ProbeQuestion.ROWS: "How many rows does the table have?",
    ProbeQuestion.SPARK: "Does Spark answer?",
}


@dataclass(frozen=True)
class ProbeRow:
    """One question of a probe: what it answered, when that was read, what it is worth."""

    code: str
    asks: str
    says: str
    at: datetime | None
    badge: status.Badge


@dataclass(frozen=True)
class ProbeTable:
    """The newest probe of an unknown step; `following` None where nothing is read again by itself."""

    number: int
    began: datetime | None
    ended: datetime | None
    rows: tuple[ProbeRow, ...]
    following: datetime | None


def probe_view(step: Step) -> ProbeTable | None:
    """None before the first probe, and for steps that an older version probed."""
    probe = step.notes.probe if step.state == "unknown" else None
    if probe is None:
        return None
    rows = tuple(
        ProbeRow(r.asked, PROBED[r.asked], r.says, words.parse_moment(r.at), _evidence_badge(r.proven))
        for r in probe.readings
    )
    moments = (words.parse_moment(at) for at in (probe.began, probe.ended, probe.following))
    began, ended, following = moments
    return ProbeTable(probe.number, began, ended, rows, following)


def list_open_questions(step: Step) -> list[EvidenceRow]:
    """What the newest probe could not read, but for what the step did: that is in the step's evidence, and without any
    the probe is of an attempt before."""
    view = probe_view(step) if step.evidence else None
    rows = view.rows if view else ()
    return [
        EvidenceRow("unknown", row.asks, row.says)
        for row in rows
        if row.badge.kind == "unknown" and row.code != ProbeQuestion.EFFECT
    ]


def _evidence_badge(proven: bool | None) -> status.Badge:
    if proven is None:
        return status.Badge("unknown", "Not known")
    return status.Badge("ok", "Read") if proven else status.Badge("attention", "Read: no")


def _unknown_rungs(step: Step) -> list[AdviceRung]:
    """What comes before resuming, while it is not known how a step ended: the safest first."""
    update, run = unknowns.find_unknown_update(step), step.recovery.flow.pipeline.workspace.run_noun
    open_ones = probing.leaves_open(step)
    rungs = []
    if update and open_ones:
        rungs.append(
            AdviceRung(
                f"Stop {run} {update[:8]}, then prove what it did",
                f"Gives the stop order, waits until no {run} is active, and reads again. Rows that are committed stay.",
                ("Recommended", "Loses nothing", "Safe to give twice"),
                first=True,
                code="stop-and-prove",
            )
        )
    if open_ones:
        tags = ("Changes nothing",) if rungs else ("Recommended", "Changes nothing")
        rungs.append(
            AdviceRung(
                "Wait, let the probe go on reading",
                "It reads again every 30 s and changes nothing. What it proves moves the step by itself.",
                tags,
                first=not rungs,
                code="wait-for-probe",
            )
        )
        rungs.append(
            AdviceRung(
                "Say what you know",
                "Recorded with your name as a statement, not a proof; in production it is reviewed. A wrong one and a "
                "resumed run together make two writers.",
                ("Needs words", "Reviewed later"),
                code="say-known",
            )
        )
    return rungs


def says_rollback(recovery: Recovery) -> str:
    """What *Roll back* does to a recovery that can be."""
    if recovery.strategy == Strategy.TOP_UP:
        return (
            "Puts the table back to its version before the rows were added; what a plan before did stays. Ends this "
            "recovery."
        )
    if recovery.strategy == Strategy.DEDUPLICATE:
        return (
            "Puts the table back to its version before the rows were deleted; what a plan before did stays. Ends this "
            "recovery."
        )
    if recovery.strategy == Strategy.REVERT:  # its checkpoint stays the one in use
        return "Writes the source back that was there before this plan. Ends this recovery."
    back = {
        Strategy.BACKFILL: "Puts the table back to its version before the refresh, renames",
        Strategy.REPLAY: "Puts the table back to what it held before this recovery, renames",
    }.get(Strategy(recovery.strategy), "Renames")
    return f"{back} the new checkpoint version away and writes the old source back. Ends this recovery."


def is_barred_by_run(refusal: RollbackRefusal | None) -> bool:
    """Whether a rollback is refused only as long as the stream or an update runs."""
    return refusal is not None and refusal.kind == "running"


def run_ladder(
    recovery: Recovery,
    step: Step,
    refusal: RollbackRefusal | None,
    no_skip: str | None,
    *,
    by_others: bool = False,
) -> list[AdviceRung]:
    """Choices, safest first. `refusal`: why it cannot be rolled back, `no_skip`: why the step cannot be skipped.
    `by_others`: others have started the stream, so that the step would fail again."""
    name = STEP_NAMES.get(step.kind, step.kind)
    rungs = _unknown_rungs(step) if step.state == "unknown" else []
    gives_up, goes_back = is_given_up(step.kind, no_skip), by_others and refusal is None
    if goes_back:
        rungs.append(_back_rung(recovery, first=True))
    if by_others and is_barred_by_run(refusal):
        says = "It runs outside this recovery. Once it has ended, what it committed decides what is possible."
        rungs.append(AdviceRung("Stop the stream", says, ("Recommended",), first=True, code="stop-others"))
    if by_others:
        says = "The checkpoint is not as this plan left it, so the step would stop again. Start nothing."
        rungs.append(AdviceRung(f"Resume at {name}", says, ("Not possible",), code="started-by-others"))
    elif probing.is_answered(step) and not gives_up:
        says = (
            "It first reads what was done already, and does not do it twice."
            if step.state == "unknown"
            else "Begins this step, then those after it. It is checked first whether the plan still holds."
            if step.state == "pending"
            else "Runs this step again, then those after it. It is checked first whether the plan still holds."
        )
        tags = ("Same plan",) if rungs else ("Recommended", "Same plan")
        rungs.append(AdviceRung(f"Resume at {name}", says, tags, first=not rungs, code="resume"))
    rungs.append(
        AdviceRung(f"Skip {name}", no_skip, ("Not possible",), code="never-skipped")
        if no_skip
        else AdviceRung(
            name_skip(step.kind),
            f"{SKIPS[step.kind].because} {SKIPS[step.kind].then}",
            (
                *(("Recommended",) if gives_up else ()),
                "Needs a reason",
                "No proof" if SKIPS[step.kind].ends else "Same plan",
            ),
            first=gives_up,
            code="skip",
        )
    )
    if refusal:
        rungs.append(AdviceRung("Roll back", refusal.says, ("Not possible",), code="not-undoable"))
    elif not goes_back:
        rungs.append(_back_rung(recovery, first=False))
    return sorted(rungs, key=lambda rung: not rung.first) if by_others else rungs


def _back_rung(recovery: Recovery, *, first: bool) -> AdviceRung:
    tags = ("Recommended", "Cannot be undone") if first else ("Cannot be undone",)
    return AdviceRung("Roll back", says_rollback(recovery), tags, first=first, code="rollback")
