"""What a recovery leaves behind in code and table. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recovery.contracts.measured import Measured
from recovery.contracts.names import StepKind
from recovery.contracts.plan import PatchChange
from recovery.models import Recovery, Step
from recovery.sources.start_options import list_left_in_code
from recovery.verification import words as proof

DONE_BY = (StepKind.RERUN, StepKind.FILL, StepKind.DEDUPLICATE)
"""Steps after which no step of a plan changes code."""


@dataclass(frozen=True)
class LeftRow:
    kind: str
    says: str
    small: str
    #: which it is, for `data-code`
    code: str


def start_option_rows(recovery: Recovery, steps: Sequence[Step]) -> list[LeftRow]:
    """Start options in the code by the patches that were written; [] if no update ran, the end of a patch was not seen,
    or the code was put back."""
    if recovery.state == "rolled_back":
        return []
    left = list_left_in_code((change.path, change.diff) for change in _list_written(steps))
    if not left:
        is_open = any(step.kind == StepKind.PATCH and step.state not in ("done", "skipped") for step in steps)
        if is_open or not any(_is_done(step, *DONE_BY) for step in steps):
            return []
        says = "The plan put no start option into the code"
        return [LeftRow("ok", says, "looked for in the sealed patch; nothing to remove", "no-start-option")]
    return [
        LeftRow(
            "attention",
            f"Left in the code: {option.name}",
            f"{option.path}: {option.line}. Take it out before the next empty checkpoint, which would begin there.",
            "start-option",
        )
        for option in left
    ]


def cost_rows(measured: Measured | None) -> list[LeftRow]:
    """Rows that a proof that holds accepted as doubled or lost; [] for none."""
    if measured is None or not measured.verified:
        return []
    costs = (
        (proof.count_repeats(measured), "doubled", "left-repeats"),
        (proof.given_up(measured), "lost", "left-losses"),
    )
    return [_cost_row(proof.say_cost(rows, word), code) for rows, word, code in costs if rows.rows != 0]


def _cost_row(cost: str, code: str) -> LeftRow:
    small = "so until a later recovery proves otherwise, or the table is written from scratch"
    return LeftRow("attention", f"{cost[:1].upper()}{cost[1:]}, as accepted", small, code)


def _list_written(steps: Iterable[Step]) -> Iterable[PatchChange]:
    """What the patch steps that ended well wrote, in their order."""
    for step in steps:
        if _is_done(step, StepKind.PATCH) and step.plan is not None:
            yield from step.plan.contents.patch


def _is_done(step: Step, *kinds: StepKind) -> bool:
    return step.state == "done" and step.kind in kinds
