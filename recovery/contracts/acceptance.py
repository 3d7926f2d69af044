"""What a plan may cost in rows, and that a person has accepted it; part of the plan that approvers sign."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from recovery.contracts.amounts import Bound
from recovery.contracts.value import Number, Value


class Effect(StrEnum):
    """What happens to rows that no one wants, and has to be accepted by name."""

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


class Cost(Value):
    """One effect that a forecast holds, or may."""

    effect: Effect
    """Which one."""
    rows: Number | None
    """How many rows; None: not known."""
    bound: Bound
    """What that number is."""
    why: str
    """Where the number comes from, for people."""

    @property
    def says(self) -> str:
        """Of a plan: `9 rows would be lost`, `at most 12 rows would be in the table twice`, `rows may be lost; how many
        is not known`."""
        done = {Effect.LOSS: "lost", Effect.REPEATS: "in the table twice"}[self.effect]
        if not self.rows:
            return f"rows may be {done}; how many is not known"
        plural = "" if self.rows == 1 else "s"
        return f"{self.bound.before_number}{self.rows:,} row{plural} would be {done}"

    @property
    def amount(self) -> str:
        """`at most 12 rows`, `1 row`, `rows, how many is not known`."""
        if not self.rows:
            return "rows, how many is not known"
        return f"{self.bound.before_number}{self.rows:,} row{'' if self.rows == 1 else 's'}"


class Acceptance(Value):
    """That one person has accepted one effect, of the number that this person saw."""

    effect: Effect = Field(exclude=True)
    """Which one. Stored as the key that it stands under."""
    by: str
    """Who accepted it."""
    reason: str = ""
    """Why, in that person's words; "" where none was asked for."""
    rows: Number | None = None
    """How many rows were accepted; None: as many as there are."""
    bound: Bound | None = None
    """What that number is; None: it was not kept (choices and plans of before)."""

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
        return (
            None if self.bound is None else Cost(effect=self.effect, rows=self.rows, bound=self.bound, why="")
        )


class Accepted(Value):
    """What people have accepted of a recovery's choices, as it stands in `choices["accepted"]` and in the plan."""

    loss: Acceptance | None = None
    """Rows that are lost, or may be."""
    repeats: Acceptance | None = None
    """Rows that are in the table twice, or may be."""

    def of(self, effect: Effect) -> Acceptance | None:
        """Who accepted this effect; None where it was not accepted."""
        return {Effect.LOSS: self.loss, Effect.REPEATS: self.repeats}[effect]

    def allows(self, cost: Cost) -> bool:
        """Whether this cost was accepted, with as many rows."""
        held = self.of(cost.effect)
        return held is not None and held.allows(cost)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        """From a call, or from what is stored: an acceptance under the name of its effect.

        Before, both effects were yes or no, with one person for both and without a number.
        """
        if not isinstance(given, Mapping):
            return given
        of_both = {name: str(given.get(name) or "") for name in ("by", "reason")}
        fields = {name: value for name, value in given.items() if name not in of_both}
        for effect in Effect:
            held = fields.get(effect.value)
            if isinstance(held, Mapping):
                fields[effect.value] = {**held, "effect": effect}
            elif not isinstance(held, Acceptance):
                fields[effect.value] = {**of_both, "effect": effect} if held else None
        return fields
