"""What a strategy does to the datasets downstream of a flow's table, and how a plan refreshes them. Pure.

A rerun updates the flow's own table alone. A view that reads it then shows the rows of before, or none where the
failing update emptied it; a streaming table has not read the new rows yet, and reads every repeat as one more row. So
the plan refreshes them after the rerun, unless a person leaves them out. What repeats would reach is not refreshed, and
is named; so is what reads it.
"""

from collections.abc import Sequence
from typing import Final

from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.criteria import Criterion
from recovery.contracts.criterion_values import ExpectedDatasets
from recovery.contracts.forecast import DatasetKind, Downstream, DownstreamEffect, DownstreamReason
from recovery.contracts.names import EMPTYING, StepKind
from recovery.contracts.option import Option
from recovery.contracts.steps import PlannedStep, UpdateArgs
from recovery.strategies.base import Facts
from recovery.strategies.readers import DownstreamReader

AGREES: Final = "DOWNSTREAM_AGREES"
UNKNOWN_BY: Final = (
    DownstreamReason.TABLE_ANEW,
    DownstreamReason.TABLE_PUT_BACK,
    DownstreamReason.ROWS_REMOVED,
    DownstreamReason.ROWS_UNKNOWN,
    DownstreamReason.NOT_SEEN,
)
"""Why it is not known what becomes of a dataset."""
SAYS: Final = (
    "What is below was refreshed after the rerun, and each dataset agrees with its definition over the table."
)


def with_downstream(facts: Facts, option: Option) -> Option:
    """The option with what it does downstream: in the forecast, and as a step and a criterion where it refreshes."""
    effects = _effects(facts, option)
    option = option.with_downstream(option.forecast.with_downstream(effects))
    chosen = [r for r, d in zip(facts.readers, effects, strict=True) if _is_refreshed(d)]
    if not chosen or not any(s.kind is StepKind.VERIFY for s in option.steps):
        return option
    return option.with_steps(_with_step(option.steps, chosen), _criterion(chosen))


def _effects(facts: Facts, option: Option) -> tuple[Downstream, ...]:
    """Of each reader, in an order in which they can run: what reads a dataset that is not refreshed is not either."""
    effects: list[Downstream] = []
    for reader in facts.readers:
        left = {d.dataset for d in effects if not _is_refreshed(d)}
        late = {d.dataset for d in effects if d.reason is DownstreamReason.READS_STALE} | set(
            reader.late_inputs
        )
        reason = _hindrance(facts, option, reader)
        if reason is None and left & set(reader.inputs):
            reason = DownstreamReason.OF_BEHIND
        elif reason is None and late & set(reader.inputs):
            reason = DownstreamReason.READS_STALE
        carried = _carry_loss(facts, option, reader, reason)
        effects.append(_effect(option, reader, reason).model_copy(update={"fewer": carried}))
    return tuple(effects)


def _carry_loss(
    facts: Facts, option: Option, reader: DownstreamReader, reason: DownstreamReason | None
) -> RowAmount | None:
    """Rows that the option loses of what this dataset reads; None: it loses none. Only one that reads the table itself
    lacks as many, and only if it has read none of them before."""
    lost = option.forecast.lost
    if not lost.possible:
        return None
    is_counted = facts.dataset in reader.inputs and reason not in UNKNOWN_BY
    return (
        RowAmount(rows=lost.rows, bound=lost.bound)
        if is_counted
        else RowAmount(rows=None, bound=Bound.UNKNOWN)
    )


def _is_refreshed(one: Downstream) -> bool:
    """Does the plan refresh it? One that also reads what is behind gets the new rows, and stays stale by the rest."""
    return one.effect is DownstreamEffect.REFRESHED or one.reason is DownstreamReason.READS_STALE


def _effect(option: Option, reader: DownstreamReader, reason: DownstreamReason | None) -> Downstream:
    new = option.forecast.new_rows

    def becomes(effect: DownstreamEffect, rows: int | None = None) -> Downstream:
        return Downstream(
            dataset=reader.dataset,
            effect=effect,
            rows=rows,
            reason=reason,
            kind=DatasetKind.VIEW if reader.view else DatasetKind.TABLE,
            pipeline=reader.pipeline or None,
        )

    if reason is None:
        return becomes(DownstreamEffect.REFRESHED, None if reader.view else new)
    if reason is DownstreamReason.REPEATS:
        return becomes(DownstreamEffect.DOUBLED, option.forecast.doubled.rows)
    if reason in UNKNOWN_BY:
        return becomes(DownstreamEffect.UNKNOWN)
    if reason is DownstreamReason.READS_STALE:
        return becomes(DownstreamEffect.STALE)
    return becomes(DownstreamEffect.EMPTIED) if reader.emptied else becomes(DownstreamEffect.STALE, new)


def _hindrance(facts: Facts, option: Option, reader: DownstreamReader) -> DownstreamReason | None:
    """Why this dataset is not refreshed. What repeats bring about is said before who could refresh it."""
    if not reader.view and (repeats := _repeats(option)) is not None:
        return repeats
    if reader.pipeline:
        return DownstreamReason.ELSEWHERE
    if reader.state == "failed":
        return DownstreamReason.FAILING
    if reader.state == "unknown":
        return DownstreamReason.NOT_SEEN
    return None if facts.refresh_below else DownstreamReason.LEFT_OUT


def _repeats(option: Option) -> DownstreamReason | None:
    """What a stream over the flow's table reads twice, or cannot read."""
    if option.strategy in EMPTYING:
        return DownstreamReason.TABLE_ANEW
    if option.strategy == "replay":
        return DownstreamReason.TABLE_PUT_BACK
    if option.strategy == "deduplicate":
        return DownstreamReason.ROWS_REMOVED
    doubled = option.forecast.doubled
    if doubled.rows is None:
        return DownstreamReason.ROWS_UNKNOWN
    if doubled.rows:
        return DownstreamReason.REPEATS
    return DownstreamReason.ROWS_UNKNOWN if doubled.possible else None


def _with_step(steps: Sequence[PlannedStep], chosen: Sequence[DownstreamReader]) -> tuple[PlannedStep, ...]:
    """Before the proof: it is measured too."""
    names = [r.dataset for r in chosen]
    short = ", ".join(name.rsplit(".", 1)[-1] for name in names)
    args = UpdateArgs(refresh=tuple(names), flows=tuple(r.flow for r in chosen))
    step = PlannedStep(
        kind=StepKind.REFRESH, says=f"Refresh what is below: {short} (refresh_selection).", args=args
    )
    at = next(n for n, s in enumerate(steps) if s.kind is StepKind.VERIFY)
    return (*steps[:at], step, *steps[at:])


def _criterion(chosen: Sequence[DownstreamReader]) -> Criterion:
    names = tuple(r.dataset for r in chosen)
    return Criterion(code=AGREES, says=SAYS, expected=ExpectedDatasets(datasets=names, compared=names))
