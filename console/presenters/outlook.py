"""What the chosen strategy costs in rows, before a plan is sealed, and what costs none in its place. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from console.presenters import wizard, words
from recovery.contracts.acceptance import Cost, Effect
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.facts import GatheredFacts
from recovery.contracts.names import EMPTYING, name_strategy
from recovery.contracts.option import Option

NEVER_ADVISED: Final = "empty"


@dataclass(frozen=True)
class Outlook:
    """As the facts counted it. `ways`: strategies that lose and double nothing, known exactly; `at`: of the count."""

    strategy: str
    at: datetime | None
    forecast: list[wizard.ForecastNumber]
    windows: wizard.LostWindows | None
    ways: list[wizard.AdviceRung]


def describe_outlook(facts: GatheredFacts, strategy: str, costs: Sequence[Cost]) -> Outlook | None:
    """None where the strategy was not counted, or sealing has found other `costs` since."""
    chosen = facts.option_of(strategy)
    if chosen is None:
        return None
    forecast = chosen.forecast
    counted = {Effect.LOSS: forecast.lost.rows, Effect.REPEATS: forecast.doubled.rows}
    if any(counted[cost.effect] != cost.rows for cost in costs):
        return None
    others = (option for option in facts.judged if option.strategy not in (strategy, NEVER_ADVISED))
    free = [option for option in others if _costs_nothing(option)]
    return Outlook(
        strategy,
        words.parse_moment(facts.at),
        wizard.forecast_view(forecast),
        wizard.lost_windows(forecast.lost),
        [_way_rung(o) for o in sorted(free, key=lambda o: o.strategy in EMPTYING)],
    )


def _costs_nothing(option: Option) -> bool:
    forecast = option.forecast
    return option.blocker is None and _is_none(forecast.lost) and _is_none(forecast.doubled)


def _is_none(amount: RowAmount) -> bool:
    return amount.rows == 0 and amount.bound is Bound.EXACT


def _way_rung(option: Option) -> wizard.AdviceRung:
    name = str(option.strategy)
    empties = ("Empties the table",) if name in EMPTYING else ()
    text = f"{option.summary.rstrip('.')}. Undo: {option.rollback}"
    return wizard.AdviceRung(
        name_strategy(name).capitalize(), text, ("Loses nothing", *empties), code=f"way-{name}"
    )
