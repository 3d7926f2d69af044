"""What a plan may cost in rows, and that a person has accepted it. Pure; part of the plan that approvers sign."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recovery.contracts.amounts import Bound
from recovery.contracts.forecast import Forecast


class Effect(StrEnum):
    """What happens to rows that nobody wants, and has to be accepted by name."""

    LOSS = "loss"
    REPEATS = "repeats"

    @property
    def flag(self) -> str:
        """The option of the command line that accepts it."""
        return f"--accept-{self.value}"

    @property
    def plan(self) -> str:
        """What a plan with it does, in words."""
        return {Effect.LOSS: "loses rows, or may", Effect.REPEATS: "writes rows twice, or may"}[self]

    @property
    def refusal(self) -> str:
        """The code of a refusal where it was not accepted."""
        return {Effect.LOSS: "loses_rows", Effect.REPEATS: "repeats_rows"}[self]


def effects_of(*, loss: bool, repeats: bool) -> tuple[Effect, ...]:
    """The effects that were ticked, or named by their flags."""
    ticked = {Effect.LOSS: loss, Effect.REPEATS: repeats}
    return tuple(effect for effect in Effect if ticked[effect])


@dataclass(frozen=True)
class Cost:
    """One effect that a forecast holds, or may."""

    effect: Effect
    #: how many rows; None: not known
    rows: int | None
    #: what that number is
    bound: Bound
    #: where the number comes from, for people
    why: str

    @property
    def says(self) -> str:
        """`9 rows are lost`, `at most 12 rows are in the table twice`, `rows may be lost, how many is not known`."""
        done = {Effect.LOSS: "lost", Effect.REPEATS: "in the table twice"}[self.effect]
        if not self.rows:
            return f"rows may be {done}; how many is not known"
        plural, verb = ("", "is") if self.rows == 1 else ("s", "are")
        return f"{self.bound.before_number}{self.rows:,} row{plural} {verb} {done}"

    @property
    def amount(self) -> str:
        """`at most 12 rows`, `1 row`, `rows, how many is not known`."""
        if not self.rows:
            return "rows, how many is not known"
        return f"{self.bound.before_number}{self.rows:,} row{'' if self.rows == 1 else 's'}"

    def as_dict(self) -> dict[str, Any]:
        return {"effect": self.effect.value, "rows": self.rows, "bound": self.bound.value, "why": self.why}


@dataclass(frozen=True)
class Acceptance:
    """That one person has accepted one effect, of the number that this person saw."""

    effect: Effect
    #: who accepted it
    by: str
    #: why, in that person's words; "" where none was asked for
    reason: str = ""
    #: how many rows were accepted; None: as many as there are
    rows: int | None = None
    #: what that number is; None: it was not kept (choices and plans of before)
    bound: Bound | None = None

    def allows(self, cost: Cost) -> bool:
        """Whether this cost is no more than was accepted: no more rows, by a number that is as sure."""
        if self.bound is None or cost.effect is not self.effect:
            return False
        if self.rows is None:
            return True
        surest = list(Bound)
        surer = surest.index(cost.bound) <= surest.index(self.bound)
        return cost.rows is not None and cost.rows <= self.rows and surer

    @property
    def cost(self) -> Cost | None:
        """What was accepted; None where the number was not kept."""
        return None if self.bound is None else Cost(self.effect, self.rows, self.bound, "")

    def as_dict(self) -> dict[str, Any]:
        bound = None if self.bound is None else self.bound.value
        return {"by": self.by, "reason": self.reason, "rows": self.rows, "bound": bound}


@dataclass(frozen=True)
class Accepted:
    """What people have accepted of a recovery's choices, as it stands in `choices["accepted"]` and in the plan."""

    #: rows that are lost, or may be
    loss: Acceptance | None = None
    #: rows that are in the table twice, or may be
    repeats: Acceptance | None = None

    def of(self, effect: Effect) -> Acceptance | None:
        """Who accepted this effect; None where it was not accepted."""
        return {Effect.LOSS: self.loss, Effect.REPEATS: self.repeats}[effect]

    def allows(self, cost: Cost) -> bool:
        """Whether this cost was accepted, with as many rows."""
        held = self.of(cost.effect)
        return held is not None and held.allows(cost)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON, an effect each; null where it was not accepted."""
        told = {effect: self.of(effect) for effect in Effect}
        return {effect.value: None if held is None else held.as_dict() for effect, held in told.items()}


def accepted(each: Iterable[Acceptance | None]) -> Accepted:
    """These together; of the same effect the last one."""
    return Accepted(**{one.effect.value: one for one in each if one is not None})


def stored_accepted(told: Mapping[str, Any] | None) -> Accepted:
    """As `Accepted.as_dict` stored it; nothing accepted where a plan of before tells none.

    Before, both effects were yes or no, with one person for both and without a number.
    """
    told = told or {}
    return accepted(_stored_acceptance(effect, told) for effect in Effect)


def _stored_acceptance(effect: Effect, told: Mapping[str, Any]) -> Acceptance | None:
    held = told.get(effect.value)
    if not held:
        return None
    if not isinstance(held, Mapping):
        return Acceptance(effect, str(told.get("by") or ""), str(told.get("reason") or ""))
    bound = None if held.get("bound") is None else Bound(held["bound"])
    return Acceptance(effect, str(held["by"]), str(held.get("reason") or ""), held.get("rows"), bound)


def costs_of(forecast: Forecast) -> tuple[Cost, ...]:
    """What a forecast loses or repeats, or may; () where it is known that it does neither."""
    amounts = {Effect.LOSS: forecast.lost, Effect.REPEATS: forecast.doubled}
    return tuple(Cost(effect, of.rows, of.bound, of.why) for effect, of in amounts.items() if of.possible)


def stored_cost(told: Mapping[str, Any]) -> Cost:
    """As `Cost.as_dict` stored it."""
    return Cost(Effect(told["effect"]), told["rows"], Bound(told["bound"]), str(told["why"]))


def written_costs(costs: Iterable[Cost]) -> str:
    """Costs as a form sends them back, so that what is accepted is what was shown: `loss:9:exact`."""
    return " ".join(f"{c.effect.value}:{'' if c.rows is None else c.rows}:{c.bound.value}" for c in costs)
