"""The run page: steps with how long they took, the log of all of them, what can be done now. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from console.presenters import status, words
from console.presenters.reviewing import STEP_NAMES
from console.presenters.stopping import LogLine
from console.presenters.wizard import Ask, Rung
from recovery.workflow.transitions import SKIPS

LIVE: Final = ("running", "verifying")


@dataclass(frozen=True)
class StepRow:
    kind: str
    name: str
    badge: status.Badge
    says: str
    problem: str
    took: str
    attempt: int
    now: bool


def steps(of: Sequence[Any], plan: Any | None, now: datetime) -> list[StepRow]:
    """The steps of the plan in force, in order; a rollback after them."""
    mine = [s for s in of if plan is not None and s.plan_id == plan.pk]
    return [
        StepRow(
            s.kind,
            STEP_NAMES.get(s.kind, s.kind),
            status.badge(status.STEP, s.state),
            result(s),
            s.problem if s.state in ("failed", "unknown") else "",
            _took(s, now),
            s.attempt,
            s.state in ("running", "failed", "unknown"),
        )
        for s in mine
    ]


def result(step: Any) -> str:
    """What was read back, where the step left an artefact; else what it is to do."""
    told = step.result or {}
    if "skipped" in told or (step.state in ("done", "running") and step.log):
        return str(step.log[-1][1])
    if step.kind == "seed" and step.state == "done" and told.get("version") is not None:
        return f"Version {told['version']} is in use. Version {told.get('from_version')} is untouched."
    return str(step.says)


def _took(step: Any, now: datetime) -> str:
    if step.started_at is None or step.state in ("pending", "skipped"):
        return "–"
    if step.ended_at is not None:
        return words.duration((step.ended_at - step.started_at).total_seconds())
    return f"since {words.clock(step.started_at, now, zone=False)}"


def log(of: Sequence[Any]) -> list[LogLine]:
    """Every step's lines, oldest first, the problem of a failed one at its end."""
    lines = [LogLine(str(at), s.kind, str(text)) for s in of for at, text in s.log]
    for s in of:
        if s.problem and s.state in ("failed", "unknown"):
            at = s.ended_at or s.heartbeat_at or s.started_at
            lines.append(LogLine(at.isoformat() if at else "", s.kind, s.problem, warn=True))
    return sorted(lines, key=lambda line: line.at)


def stuck(of: Sequence[Any], plan: Any | None) -> Any | None:
    """The step that failed or is unknown; of a run that was stopped, the one that did not begin."""
    mine = [s for s in of if plan is not None and s.plan_id == plan.pk and s.kind != "rollback"]
    ended_badly = next((s for s in mine if s.state in ("failed", "unknown")), None)
    return ended_badly or next((s for s in mine if s.state == "pending"), None)


def stands(of: Sequence[Any], plan: Any | None) -> Any | None:
    """The step at which a recovery that needs a person stands: the stuck one, else the newest verification."""
    mine = [s for s in of if plan is not None and s.plan_id == plan.pk]
    return stuck(of, plan) or next((s for s in reversed(mine) if s.kind == "verify"), None)


def skipping(step: Any | None) -> dict[str, str]:
    """What is skipped, and what follows; empty before a plan."""
    if step is None:
        return {}
    rule = SKIPS[step.kind]
    then = rule.then or "The recovery goes on with the step after it."
    return {"kind": step.kind, "name": STEP_NAMES[step.kind], "because": rule.because, "then": then}


def progress(rows: Sequence[StepRow]) -> str:
    done = sum(r.badge.word == "Done" for r in rows)
    return f"{done} of {len(rows)} done"


def polls(recovery: Any, of: Sequence[Any]) -> int:
    """How often the page asks, in seconds; 0 when nothing moves by itself any more."""
    if recovery.state in LIVE:
        return 1
    moving = any(s.state in ("running", "pending") and s.kind == "rollback" for s in of)
    unseen = any(s.state == "unknown" for s in of)
    return 1 if moving else 2 if unseen and recovery.state == "needs_attention" else 0


def asks(recovery: Any, step: Any) -> list[Ask]:
    """The three questions when a step is unknown or failed, or when the run was stopped before it."""
    name = STEP_NAMES.get(step.kind, step.kind)
    proven = [e for e in step.evidence if e.get("proven") is not None]
    if step.state == "unknown":
        first = Ask(
            "What happened",
            f"Nobody saw {name} end",
            f"{step.problem} It may have gone on without a worker. That is not known, so it is not called failed.",
            "end-not-seen",
        )
        bad = Ask(
            "How bad",
            f"{len(proven)} things are proven" if step.evidence else "Being read",
            "The evidence stands below, line by line. Nothing is repeated by itself.",
        )
    elif step.state == "pending":
        how = _ended_how(recovery)
        first = Ask("What happened", f"The run was {how} before {name}", recovery.reason, f"run-{how}")
        bad = Ask(
            "How bad",
            "Nothing is half done",
            "Each step before it ended and was read back; the log below says so line by line.",
        )
    else:
        first = Ask("What happened", f"{name} failed", step.problem, "step-failed")
        bad = Ask(
            "How bad",
            "The steps after it did not run",
            "What was done before it stands in the log below, each with what was read back.",
        )
    wait = Ask(
        "Safe to wait?",
        "Yes",
        "No other recovery of this flow can start. The table gets older; nothing else changes by waiting.",
    )
    return [first, bad, wait]


def _ended_how(recovery: Any) -> str:
    return "paused" if (recovery.choices.get("halt") or {}).get("when") == "step" else "stopped"


def ladder(recovery: Any, step: Any, refusal: str | None, no_skip: str | None) -> list[Rung]:
    """Choices, safest first. `refusal`: why it cannot be rolled back, `no_skip`: why the step cannot be skipped."""
    name = STEP_NAMES.get(step.kind, step.kind)
    rungs = []
    if step.state == "unknown" and not step.evidence:
        rungs.append(
            Rung(
                "Wait for the probe",
                "It reads what happened and changes nothing. This page shows its evidence.",
                ("Recommended", "Changes nothing"),
                first=True,
                code="wait-for-probe",
            )
        )
    else:
        says = (
            "It first reads what was done already, and does not do it twice."
            if step.state == "unknown"
            else "Begins this step, then those after it. It is checked first whether the plan still holds."
            if step.state == "pending"
            else "Runs this step again, then those after it. It is checked first whether the plan still holds."
        )
        rungs.append(Rung(f"Resume at {name}", says, ("Recommended", "Same plan"), first=True, code="resume"))
    rungs.append(
        Rung(f"Skip {name}", no_skip, ("Not possible",), code="never-skipped")
        if no_skip
        else Rung(
            f"Skip {name}",
            f"{SKIPS[step.kind].because} {SKIPS[step.kind].then}",
            ("Needs a reason", "No proof" if step.kind == "verify" else "Same plan"),
            code="skip",
        )
    )
    rungs.append(
        Rung("Roll back", refusal, ("Not possible",), code="not-undoable")
        if refusal
        else Rung(
            "Roll back",
            "Renames the new checkpoint version away and writes the old source back. Ends this recovery.",
            ("Cannot be undone",),
            code="rollback",
        )
    )
    return rungs
