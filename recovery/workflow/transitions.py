"""The one transition table: of recoveries, of steps and of approvals. Pure.

An arrow says what happens and what must hold before. Recoveries and steps move through `workflow.moves`, requests for
approval through `approvals.moves`; both compare and set, and ask the arrow's guard (`workflow.guards`).
`python -m recovery.workflow.diagram` draws this page into docs/states.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Guard(StrEnum):
    """What must hold, beside the state itself, for an arrow to be taken. The text is the one in the docs."""

    NONE = ""
    ASKED = "a request for votes on the plan in force is open"
    PERMITTED = "the environment's rules let the plan run now, or glass is broken for it"
    GLASS = "glass was broken for the plan, and its time is not over"
    DECIDED = "the request for the plan in force is approved and not late"
    LATE = "the time of the request is over"
    ENOUGH = "enough votes are in force, every group's among them, in time"
    IN_TIME = "the time of the request is not over"
    UNTOUCHED = "no step has changed anything"
    PROVEN = "every criterion was measured and holds"
    SKIPPED = (
        "the rerun, the fill of a top-up or the deduplicate is done, and a person skipped the proof with a reason; or "
        "a person gave up a rerun that failed and has no way back"
    )
    RAN = "a plan before it has run"
    FENCE = "only for who holds the step's fence"


@dataclass(frozen=True)
class Arrow:
    old: str
    new: str
    when: str
    guard: Guard = Guard.NONE


RECOVERY_ARROWS: Final = (
    Arrow("diagnosing", "planned", "a plan is sealed"),
    Arrow("diagnosing", "cancelled", "a person ends it", Guard.UNTOUCHED),
    Arrow("diagnosing", "needs_attention", "a further plan is given up", Guard.RAN),
    Arrow("planned", "awaiting_approval", "a person asks for approval", Guard.ASKED),
    Arrow("planned", "running", "a person starts the plan", Guard.PERMITTED),
    Arrow("planned", "diagnosing", "the plan is taken back, or a newer one is sealed"),
    Arrow("planned", "cancelled", "a person ends it", Guard.UNTOUCHED),
    Arrow("awaiting_approval", "approved", "the last vote that was needed is given", Guard.DECIDED),
    Arrow("awaiting_approval", "running", "a person breaks glass", Guard.GLASS),
    Arrow("awaiting_approval", "planned", "the rules of the environment change"),
    Arrow("awaiting_approval", "diagnosing", "a vote rejects the plan, or it is taken back"),
    Arrow("awaiting_approval", "cancelled", "a person ends it", Guard.UNTOUCHED),
    Arrow("awaiting_approval", "expired", "no decision in time", Guard.LATE),
    Arrow("approved", "running", "a person starts the plan", Guard.PERMITTED),
    Arrow("approved", "planned", "the rules of the environment change"),
    Arrow("approved", "diagnosing", "a vote rejects the plan, or it is taken back"),
    Arrow("approved", "cancelled", "a person ends it", Guard.UNTOUCHED),
    Arrow("approved", "expired", "not started in time", Guard.LATE),
    Arrow("running", "verifying", "the last step before the proof is done"),
    Arrow("running", "needs_attention", "a step failed or is unknown, or a person stopped or paused the run"),
    Arrow("running", "diagnosing", "what the plan relies on has drifted: the plan is void"),
    Arrow("running", "failed", "it cannot go on"),
    Arrow("running", "rolled_back", "the rollback is done"),
    Arrow("verifying", "succeeded", "the proof was measured", Guard.PROVEN),
    Arrow("verifying", "needs_attention", "a criterion does not hold or was not measured"),
    Arrow("needs_attention", "running", "a person resumes it, or a probe proves that it can go on"),
    Arrow("needs_attention", "verifying", "the proof is measured"),
    Arrow(
        "needs_attention",
        "diagnosing",
        "what the plan relies on has drifted: the plan is void; or its proof does not hold, and a further plan is made",
    ),
    Arrow("needs_attention", "failed", "it cannot go on"),
    Arrow("needs_attention", "rolled_back", "the rollback is done"),
    Arrow("needs_attention", "cancelled", "a person ends it", Guard.UNTOUCHED),
    Arrow("needs_attention", "unproven", "a person ends it without the proof", Guard.SKIPPED),
    Arrow("succeeded", "rolled_back", "the rollback is done"),
    Arrow("unproven", "rolled_back", "the rollback is done"),
    Arrow("failed", "rolled_back", "the rollback is done"),
)

STEP_ARROWS: Final = (
    Arrow("pending", "running", "a worker claims it under the next fence", Guard.FENCE),
    Arrow("pending", "skipped", "its plan is void, its recovery ended, or a person skips it", Guard.FENCE),
    Arrow("running", "done", "its effect was read back", Guard.FENCE),
    Arrow("running", "failed", "it failed, and that was seen", Guard.FENCE),
    Arrow("running", "unknown", "its worker is silent, or its end was not seen", Guard.FENCE),
    Arrow("unknown", "done", "a probe proves it", Guard.FENCE),
    Arrow("unknown", "failed", "a probe proves it", Guard.FENCE),
    Arrow("unknown", "pending", "a person repeats it on the evidence, or it does no harm", Guard.FENCE),
    Arrow("unknown", "running", "a worker goes on with it", Guard.FENCE),
    Arrow("unknown", "skipped", "its recovery ended, or a person skips it", Guard.FENCE),
    Arrow("failed", "pending", "a person repeats it, or what did not answer is asked again", Guard.FENCE),
    Arrow("failed", "running", "a worker goes on with it", Guard.FENCE),
    Arrow("failed", "skipped", "its recovery ended, or a person skips it", Guard.FENCE),
)  # fmt: skip

APPROVAL_ARROWS: Final = (
    Arrow("open", "approved", "the last vote that was needed is given", Guard.ENOUGH),
    Arrow("open", "rejected", "a vote rejects the plan"),
    Arrow("open", "expired", "no decision in time", Guard.LATE),
    Arrow("open", "voided", "the plan, the rules or the recovery changed"),
    Arrow("approved", "used", "the plan is started", Guard.IN_TIME),
    Arrow("approved", "rejected", "a further vote rejects the plan"),
    Arrow("approved", "expired", "not started in time", Guard.LATE),
    Arrow("approved", "voided", "the plan, the rules or the recovery changed"),
)


@dataclass(frozen=True)
class SkipRule:
    """May a person skip a step of this kind, with a reason? `because` says why, or why not; `then` what follows.
    `ends`: the recovery ends without proof, else it goes on with the next step."""

    may: bool
    because: str
    then: str = ""
    ends: bool = False


SKIPS: Final[Mapping[str, SkipRule]] = MappingProxyType(
    {
        "stop": SkipRule(
            False,
            "It proves that nothing runs and that nothing has moved since the plan: without it two queries could "
            "write one batch.",
        ),
        "backup": SkipRule(
            True,
            "The plan itself holds the old text of every file that it changes, and the old checkpoint version stays; "
            "what is given up is the copy of the source, should the workspace lose it.",
        ),
        "table-backup": SkipRule(
            False, "The update empties the table; without the backup its rows would be gone for good."
        ),
        "patch": SkipRule(
            False,
            "The forecast and the criteria are those of the changed code. What was written by hand already, it finds "
            "and leaves.",
        ),
        "restore": SkipRule(
            False,
            "What is read again would come on top of the rows that it is to replace, or be skipped.",
        ),
        "seed": SkipRule(False, "The update would start on the checkpoint that failed."),
        "rerun": SkipRule(
            False,
            "It recovers the flow; without it nothing can be proven. Only if others have started the stream, and "
            "nothing can be rolled back, can you end the recovery here.",
            "The recovery ends as unproven, never as succeeded.",
            ends=True,
        ),
        "fill": SkipRule(
            False,
            "The rows would stay out of the table: of a backfill the backup alone has them, of a top-up it is all that "
            "is done.",
        ),
        "deduplicate": SkipRule(
            False, "It is all that is done; without it the rows stay in the table too often."
        ),
        "refresh": SkipRule(
            True,
            "The flow's own table is recovered without it. What is below stays stale or empty until an update selects "
            "it, so the plan's criterion on it cannot hold.",
        ),
        "verify": SkipRule(
            True,
            "It changes no checkpoint, no code and no table. You give up the proof, which every page shows.",
            "The recovery ends as unproven, never as succeeded.",
            ends=True,
        ),
        "rollback": SkipRule(False, "What is undone by half is neither the old nor the new."),
    }
)
"""Every kind of step. Skipped is only the step at which a recovery that needs attention stands."""

Table = Mapping[str, frozenset[str]]


def _table(arrows: Iterable[Arrow]) -> Table:
    states = dict.fromkeys(s for a in arrows for s in (a.old, a.new))
    return MappingProxyType({s: frozenset(a.new for a in arrows if a.old == s) for s in states})


RECOVERY: Final = _table(RECOVERY_ARROWS)
STEP: Final = _table(STEP_ARROWS)
APPROVAL: Final = _table(APPROVAL_ARROWS)

OPEN: Final = frozenset(s for s, to in RECOVERY.items() if to - {"rolled_back"})
"""Recovery states in which it holds its flow: no second recovery of that flow may be opened."""
WAITS: Final = frozenset({"planned", "awaiting_approval", "approved"})
"""Recovery states with a sealed plan that has not begun."""


def may_move(table: Table, old: str, new: str) -> bool:
    """Is old -> new in the table? Raises KeyError for a state that the table does not know."""
    if new not in table:
        raise KeyError(new)
    return new in table[old]


def guard_of(arrows: Iterable[Arrow], old: str, new: str) -> Guard:
    """What must hold for old -> new. Raises StopIteration for an arrow that is not there."""
    return next(a.guard for a in arrows if (a.old, a.new) == (old, new))
