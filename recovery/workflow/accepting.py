"""Rows that a plan loses or repeats, or may: a person accepts them by name, and without that no plan is sealed."""

from collections.abc import Collection

from recovery.contracts import codec
from recovery.contracts.acceptance import Acceptance, Accepted, Cost, Effect
from recovery.contracts.forecast import Forecast
from recovery.errors import Refused
from recovery.models import Recovery
from recovery.people.roles import Actor
from recovery.plans.accepted import accepted, costs_of, written_costs


class NotAccepted(Refused):
    """A plan would lose or repeat rows, or may, and that was not accepted, or not of so many rows. `costs`: what was
    not accepted."""

    def __init__(self, costs: tuple[Cost, ...], held: Accepted | None = None) -> None:
        sentence = " ".join(_refused(cost, (held or Accepted()).of(cost.effect)) for cost in costs)
        flags = tuple(c.effect.flag for c in costs)
        super().__init__(sentence, code=costs[0].effect.refusal, flags=flags)
        self.costs = costs


def _refused(cost: Cost, held: Acceptance | None) -> str:
    if held is None or held.cost is None:
        return f"{_capital(cost.says)}, and that is not accepted. {cost.why}"
    return f"{_capital(cost.says)}; {held.by} accepted {held.cost.amount}. {cost.why}"


def save_accepted(
    recovery: Recovery, *, effects: Collection[Effect], shown: str, reason: str, by: Actor
) -> Accepted:
    """Save that this person accepts these effects of the plan that is sealed next, with the rows that were shown
    (`written_costs`); what others accepted stays theirs. Returns all that is accepted now.

    Any other choice of strategy, key, code, positions or sources takes it back. Call in the caller's transaction, which
    records it, with the recovery locked. Raises Refused where something else is to be accepted by now.
    """
    asked = costs_to_accept(recovery)
    mine = [
        Acceptance(effect=c.effect, by=by.name, reason=reason, rows=c.rows, bound=c.bound)
        for c in asked
        if c.effect in effects
    ]
    if not mine or shown != written_costs(asked):
        raise Refused(
            "What the plan costs has changed since this page was shown. Read it again, then accept it.",
            code="other_costs",
        )
    held = recovery.chosen.accepted
    after = accepted([held.loss, held.repeats, *mine])
    recovery.choices = {**recovery.choices, "accepted": codec.to_json(after)}
    Recovery.objects.filter(pk=recovery.pk).update(choices=recovery.choices)
    return after


def accepted_of(
    recovery: Recovery, forecast: Forecast, *, effects: Collection[Effect] | None, by: Actor
) -> Accepted:
    """What a plan with this forecast says was accepted, and by whom: of what was, that which it costs.

    `effects`: those that this very call accepts, of any number that the forecast has, in place of what was accepted
    before; None: what was. Raises NotAccepted where the forecast costs more than that.
    """
    costs = costs_of(forecast)
    held = recovery.chosen.accepted
    if effects is not None:
        held = accepted(
            Acceptance(effect=c.effect, by=by.name, reason="", rows=c.rows, bound=c.bound)
            for c in costs
            if c.effect in effects
        )
    missing = tuple(cost for cost in costs if not held.allows(cost))
    if missing:
        raise NotAccepted(missing, held)
    return accepted(held.of(cost.effect) for cost in costs)


def costs_to_accept(recovery: Recovery) -> tuple[Cost, ...]:
    """What has to be accepted before a plan of these choices is sealed, as far as it is known: by the newest try to
    seal it, else by the facts, where nothing was edited or moved since they were gathered."""
    choices = recovery.chosen
    sealing = choices.sealing
    costs = sealing.costs if sealing.status == "failed" and sealing.costs else _foreseen(recovery)
    return tuple(cost for cost in costs if not choices.accepted.allows(cost))


def _foreseen(recovery: Recovery) -> tuple[Cost, ...]:
    choices = recovery.chosen
    if choices.patch or choices.positions:
        return ()
    option = recovery.gathered.option_of(choices.strategy)
    return () if option is None or option.blocked else costs_of(option.forecast)


def says_accepted(held: Accepted) -> str:
    """What is accepted, for the log."""
    each = [one for one in (held.loss, held.repeats) if one is not None]
    told = [f"{one.cost.says if one.cost else one.effect.value} ({one.by})" for one in each]
    return f"Accepted of the next plan: {'; '.join(told)}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
