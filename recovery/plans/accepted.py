"""Which costs a forecast has, and what of them was accepted. Pure."""

from collections.abc import Iterable

from recovery.contracts.acceptance import Acceptance, Accepted, Cost, Effect
from recovery.contracts.forecast import Forecast


def effects_of(*, loss: bool, repeats: bool) -> tuple[Effect, ...]:
    """The effects that were ticked, or named by their flags."""
    ticked = {Effect.LOSS: loss, Effect.REPEATS: repeats}
    return tuple(effect for effect in Effect if ticked[effect])


def accepted(each: Iterable[Acceptance | None]) -> Accepted:
    """These together; of the same effect the last one."""
    return Accepted(**{one.effect.value: one for one in each if one is not None})


def costs_of(forecast: Forecast) -> tuple[Cost, ...]:
    """What a forecast loses or repeats, or may; () where it is known that it does neither."""
    amounts = {Effect.LOSS: forecast.lost, Effect.REPEATS: forecast.doubled}
    return tuple(
        Cost(effect=effect, rows=of.rows, bound=of.bound, why=of.why)
        for effect, of in amounts.items()
        if of.possible
    )


def written_costs(costs: Iterable[Cost]) -> str:
    """Costs as a form sends them back, so that what is accepted is what was shown: `loss:9:exact`."""
    return " ".join(f"{c.effect.value}:{'' if c.rows is None else c.rows}:{c.bound.value}" for c in costs)
