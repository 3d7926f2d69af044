"""What can be said of a source whose committed position is not known, measured from the last one that is. Pure.

The committed position is not before the last known one, and not behind what the source has now.
"""

from collections.abc import Callable
from dataclasses import fields, replace

from recovery.checkpoints.report import LostPosition
from recovery.contracts.amounts import Amount, Bound, joint_bound
from recovery.sources import labels
from recovery.sources.base import (
    Distance,
    InputSpans,
    PartMove,
    Precision,
    SourceFacts,
    SourceRetention,
    StartCandidate,
)
from recovery.sources.comparing import nothing_in


def bound_from_last_known(facts: SourceFacts, lost: LostPosition) -> SourceFacts:
    """`facts`, looked up as if the last known position were the committed one, without what that makes up."""
    label = labels.describe_lost(facts.position.kind, lost)
    start = facts.start and _loosen_start(facts.start, facts.unread)
    position = replace(
        facts.position,
        offset_json=None,
        label=label,
        precision=Precision.UNKNOWN,
        reachable=facts.position.reachable if start else None,
        is_known=False,
    )
    return replace(
        facts,
        position=position,
        start=start,
        unread=facts.unread if start else _loosen_distance(facts.unread, _at_most),
        spans=InputSpans(waiting=facts.spans.waiting if start else None, everything=facts.spans.everything),
        reach=facts.reach if start else SourceRetention(None, f"The committed position is {label}."),
        option=facts.option if start else None,
    )


def _loosen_start(start: StartCandidate, waiting: Distance) -> StartCandidate:
    """`waiting`: what is between the start and the end, which a start behind the last known position reads again at
    most."""
    is_behind = nothing_in(start.reread)
    return replace(
        start,
        lost=_loosen_distance(start.lost, _at_most),
        reread=_loosen_distance(waiting, _at_most)
        if is_behind
        else _loosen_distance(start.reread, _at_least),
        changes=tuple(
            replace(change, before=None, moved=PartMove.UNCLEAR if change.after else PartMove.GONE)
            for change in start.changes
        ),
    )


def _loosen_distance(distance: Distance, loosen: Callable[[Amount], Amount]) -> Distance:
    amounts = {field.name: getattr(distance, field.name) for field in fields(Distance)}
    return Distance(**{name: amount and loosen(amount) for name, amount in amounts.items()})


def _at_most(amount: Amount) -> Amount:
    if not amount.value and amount.exact:
        return amount  # no less is possible
    return amount.model_copy(update={"bound": joint_bound((amount.bound, Bound.AT_MOST))})


def _at_least(amount: Amount) -> Amount:
    return amount.model_copy(update={"bound": joint_bound((amount.bound, Bound.AT_LEAST))})
