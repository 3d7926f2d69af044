"""What a strategy does to the datasets downstream of a flow's table, and how a plan refreshes them. Pure.

A rerun updates the flow's own table alone. A view that reads it then shows the rows of before, or none where the
failing update emptied it; a streaming table has not read the new rows yet, and reads every repeat as one more row. So
the plan refreshes them after the rerun, unless a person leaves them out. What repeats would reach is not refreshed, and
is named; so is what reads it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from recovery.strategies.base import Criterion, Facts, Option, StepSpec
from recovery.strategies.readers import Downstream, Effect, Reader, Reason

REFRESH: Final = "refresh"
"""The kind of the step that refreshes."""
AGREES: Final = "DOWNSTREAM_AGREES"
SAYS: Final = (
    "What is below was refreshed after the rerun, and each dataset agrees with its definition over the table."
)


def with_downstream(facts: Facts, option: Option) -> Option:
    """The option with what it does downstream: in the forecast, and as a step and a criterion where it refreshes."""
    found = _effects(facts, option)
    option = replace(option, forecast=replace(option.forecast, downstream=found))
    chosen = [r for r, d in zip(facts.readers, found, strict=True) if _is_refreshed(d)]
    if not chosen or not any(s.kind == "verify" for s in option.steps):
        return option
    return replace(
        option, steps=_with_step(option.steps, chosen), criteria=(*option.criteria, _criterion(chosen))
    )


def _effects(facts: Facts, option: Option) -> tuple[Downstream, ...]:
    """Of each reader, in an order in which they can run: what reads a dataset that is not refreshed is not either."""
    found: list[Downstream] = []
    for reader in facts.readers:
        left = {d.dataset for d in found if not _is_refreshed(d)}
        late = {d.dataset for d in found if d.reason is Reason.READS_STALE} | set(reader.late_inputs)
        reason = _hindrance(facts, option, reader)
        if reason is Reason.NONE and left & set(reader.inputs):
            reason = Reason.OF_BEHIND
        elif reason is Reason.NONE and late & set(reader.inputs):
            reason = Reason.READS_STALE
        found.append(_effect(option, reader, reason))
    return tuple(found)


def _is_refreshed(one: Downstream) -> bool:
    """Does the plan refresh it? One that also reads what is behind gets the new rows, and stays stale by the rest."""
    return one.effect is Effect.REFRESHED or one.reason is Reason.READS_STALE


def _effect(option: Option, reader: Reader, reason: Reason) -> Downstream:
    new = option.forecast.new_rows

    def becomes(effect: Effect, rows: int | None = None) -> Downstream:
        return Downstream(reader.dataset, effect, rows, reason, reader.view, reader.pipeline)

    if reason is Reason.NONE:
        return becomes(Effect.REFRESHED, None if reader.view else new)
    if reason is Reason.REPEATS:
        return becomes(Effect.DOUBLED, option.forecast.doubled.rows)
    if reason in (Reason.TABLE_ANEW, Reason.ROWS_UNKNOWN, Reason.NOT_SEEN):
        return becomes(Effect.UNKNOWN)
    if reason is Reason.READS_STALE:
        return becomes(Effect.STALE)
    return becomes(Effect.EMPTIED) if reader.emptied else becomes(Effect.STALE, new)


def _hindrance(facts: Facts, option: Option, reader: Reader) -> Reason:
    """Why this dataset is not refreshed. What repeats bring about is said before who could refresh it."""
    if not reader.view and (repeats := _repeats(option)) is not Reason.NONE:
        return repeats
    if reader.pipeline:
        return Reason.ELSEWHERE
    if reader.state == "failed":
        return Reason.FAILING
    if reader.state == "unknown":
        return Reason.NOT_SEEN
    return Reason.NONE if facts.refresh_below else Reason.LEFT_OUT


def _repeats(option: Option) -> Reason:
    """What a stream over the flow's table reads twice."""
    if option.strategy == "full-refresh":
        return Reason.TABLE_ANEW
    doubled = option.forecast.doubled
    if doubled.rows is None:
        return Reason.ROWS_UNKNOWN
    if doubled.rows:
        return Reason.REPEATS
    return Reason.ROWS_UNKNOWN if doubled.possible else Reason.NONE


def _with_step(steps: Sequence[StepSpec], chosen: Sequence[Reader]) -> tuple[StepSpec, ...]:
    """Before the proof: it is measured too."""
    names = [r.dataset for r in chosen]
    short = ", ".join(name.rsplit(".", 1)[-1] for name in names)
    args = {"refresh": names, "flows": [r.flow for r in chosen]}
    step = StepSpec(REFRESH, f"Refresh what is below: {short} (refresh_selection).", args)
    at = next(n for n, s in enumerate(steps) if s.kind == "verify")
    return (*steps[:at], step, *steps[at:])


def _criterion(chosen: Sequence[Reader]) -> Criterion:
    names = [r.dataset for r in chosen]
    return Criterion(AGREES, SAYS, {"datasets": names, "compared": names})
