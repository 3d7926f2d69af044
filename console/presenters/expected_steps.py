"""What a plan expects of each of its steps, and how long such steps took before. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from console.presenters import words
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.criterion_values import ExpectedCounts
from recovery.contracts.names import StepKind
from recovery.contracts.plan import PlanBody
from recovery.contracts.steps import PlannedStep, UpdateArgs
from recovery.workflow.usual import UsualDuration, UsualOf

FEW: Final = 3
"""Files of which each is named with its hash."""


@dataclass(frozen=True)
class TotalTime:
    """How long the steps took together before. `code`: all, some or none of them have a history."""

    code: str
    seconds: float | None
    says: str


def expect_result(plan: PlanBody, step: PlannedStep) -> str:
    """What the step is to show when it is done; "" of a kind that is not known here."""
    expectation = EXPECTATIONS.get(step.kind)
    return expectation(plan, step) if expectation else ""


def total_time(plan: PlanBody, usual: Mapping[str, UsualDuration]) -> TotalTime:
    """By the median of each kind of step; a sum only of those that have run before."""
    known = [usual[step.kind].seconds for step in plan.steps if step.kind in usual]
    if not known:
        return TotalTime("none", None, "Not one of them has run here before.")
    seconds = round(sum(known), 3)
    took = words.format_duration(seconds)
    if len(known) == len(plan.steps):
        return TotalTime("all", seconds, f"About {took} in all, by earlier runs.")
    says = (
        f"{len(known)} of {len(plan.steps)} take about {took}, by earlier runs; the others have no history."
    )
    return TotalTime("some", seconds, says)


def describe_usual(usual: UsualDuration | None) -> tuple[str, str]:
    """`5.0 s` and of which runs; "" for both where none tells it."""
    if usual is None:
        return "", ""
    whose = "this flow" if usual.of is UsualOf.FLOW else "this workspace"
    return words.format_duration(usual.seconds), f"{words.format_count(usual.times, 'run')} of {whose}"


def _expect_standstill(plan: PlanBody, step: PlannedStep) -> str:
    return "nothing runs; checkpoint, code and sink are as sealed"


def _expect_backup(plan: PlanBody, step: PlannedStep) -> str:
    files = words.format_count(len(plan.preconditions.code), "source file")
    last = plan.preconditions.checkpoint.last_committed
    return f"{files} kept, and the checkpoint" + (
        "" if last is None else f" after batch {words.format_number(last)}"
    )


def _expect_table_backup(plan: PlanBody, step: PlannedStep) -> str:
    rows = plan.table_rows
    return "every row of the table kept" if rows is None else f"{words.format_count(rows, 'row')} kept"


def _expect_patch(plan: PlanBody, step: PlannedStep) -> str:
    if len(plan.patch) > FEW:
        return f"{words.format_count(len(plan.patch), 'file')} read back as planned"
    return "; ".join(
        f"{words.name_tail(change.path)}: sha256 {words.shorten_hash(change.after_sha256)} read back"
        for change in plan.patch
    )


def _expect_restore(plan: PlanBody, step: PlannedStep) -> str:
    args = plan.restore_args
    if args is None:
        return ""
    kept = "" if args.kept_rows is None else f", with {words.format_count(args.kept_rows, 'row')}"
    return f"the table ends at batch {words.format_number(args.batch)}{kept}"


def _expect_seed(plan: PlanBody, step: PlannedStep) -> str:
    old, begins = (
        plan.preconditions.checkpoint.version,
        f"begins at batch {words.format_number(plan.numbering.next_batch)}",
    )
    if old is None:
        return f"the checkpoint {begins}; the old one is set aside"
    return f"version {old + 1} {begins}; version {old} untouched"


def _expect_rerun(plan: PlanBody, step: PlannedStep) -> str:
    fixed = next((c.expected for c in plan.criteria if isinstance(c.expected, ExpectedCounts)), None)
    rows = fixed.new_rows if fixed else None
    grown = (
        "the number of rows is not known" if rows is None else f"{words.format_count(rows, 'row')} written"
    )
    of_files = bool(plan.positions) and all(position.is_files for position in plan.positions)
    read = f", {words.format_count(len(plan.waiting_files), 'file')} read" if of_files else ""
    return f"from batch {words.format_number(plan.numbering.next_batch)} on: {grown}{read}"


def _expect_fill(plan: PlanBody, step: PlannedStep) -> str:
    rows = plan.fill_args.rows if plan.fill_args else None
    return (
        "each row that the table lacks, once"
        if rows is None
        else f"{words.format_count(rows, 'row')} written"
    )


def _expect_deduplicate(plan: PlanBody, step: PlannedStep) -> str:
    args = plan.deduplicate_args
    return "" if args is None else f"{words.format_count(args.rows, 'row')} deleted"


def _expect_refresh(plan: PlanBody, step: PlannedStep) -> str:
    names = step.args_as(UpdateArgs).refresh
    return f"{', '.join(map(words.last_part, names))}: as the definition yields over the tables"


def _expect_proof(plan: PlanBody, step: PlannedStep) -> str:
    number = len(plan.criteria)
    holds = f"{words.format_count(number, 'criterion', 'criteria')} {'holds' if number == 1 else 'hold'}"
    costs = ((plan.forecast.lost, "lost"), (plan.forecast.doubled, "doubled"))
    accepted = [f"{_say_rows(amount)} {word}" for amount, word in costs if amount.possible]
    return f"{holds}; {', '.join(accepted)}, as accepted" if accepted else holds


def _say_rows(amount: RowAmount) -> str:
    if amount.rows is None or amount.bound is Bound.UNKNOWN:
        return "rows"
    return f"{amount.bound.before_number}{words.format_count(amount.rows, 'row')}"


EXPECTATIONS: Final[Mapping[str, Callable[[PlanBody, PlannedStep], str]]] = {
    StepKind.STOP: _expect_standstill,
    StepKind.BACKUP: _expect_backup,
    StepKind.TABLE_BACKUP: _expect_table_backup,
    StepKind.PATCH: _expect_patch,
    StepKind.RESTORE: _expect_restore,
    StepKind.SEED: _expect_seed,
    StepKind.RERUN: _expect_rerun,
    StepKind.FILL: _expect_fill,
    StepKind.DEDUPLICATE: _expect_deduplicate,
    StepKind.REFRESH: _expect_refresh,
    StepKind.VERIFY: _expect_proof,
}
"""By kind of step."""
