"""Where each source starts: looked up by a worker first, chosen by a person who has seen what it costs.

Actions as in `actions.py`: keyword-only, audited, one transaction.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from recovery.contracts.acceptance import Effect
from recovery.contracts.option import stored_options
from recovery.errors import Refused
from recovery.models import Flow, Recovery
from recovery.people.roles import Actor
from recovery.plans.accepted import effects_of
from recovery.sources import showing, wishes
from recovery.sources.base import Wanted
from recovery.sources.mapping import confirmable
from recovery.strategies.catalogue import POSITIONED
from recovery.workflow import broker, studies
from recovery.workflow.chosen import without_acceptance
from recovery.workflow.journal import trying
from recovery.workflow.moves import get, lock, only_in
from recovery.workflow.studies import LOOK

CHOICES = ("positions", LOOK, "confirmed")
"""What of `recovery.choices` rests on the strategy that was chosen."""
KEY = re.compile(r"[^->]+->[^->]*")


def request_positions(*, recovery_id: int, positions: Mapping[str, Wanted | None], by: Actor) -> None:
    """Have a worker look up what these positions would cost; the answer appears in `studies.looked`."""
    from recovery.workflow import tasks

    recovery = get(recovery_id)
    with trying("recovery.look", recovery, by) as attempted:
        broker.check()
        recovery = lock(recovery_id)
        only_in(recovery, "diagnosing", "planned")
        wanted = _plain(positions)
        if known := sources_of(recovery):
            studies.refuse_unknown(positions, known)
        broker.send_on_commit(tasks.look_positions, recovery_id, studies.begin(recovery, LOOK, asked=wanted))
        attempted.done(f"What would be read from other positions was asked: {_told(wanted)}.")


def choose_positions(
    *,
    recovery_id: int,
    positions: Mapping[str, Wanted | None],
    by: Actor,
    accept_loss: bool = False,
    accept_repeats: bool = False,
) -> None:
    """Save where each source shall start; one that is not named, or None, starts where it was committed.

    `accept_loss`, `accept_repeats`: that rows are left out or read again there. What a plan does to the table is
    accepted of its forecast. Raises Refused for a source that is not there, for positions that were not looked up, for
    those that leave rows out or read them again without these, for a strategy without positions, and while a plan is
    sealed.
    """
    recovery = get(recovery_id)
    with trying("recovery.positions", recovery, by) as attempted:
        recovery = lock(recovery_id)
        only_in(recovery, "diagnosing")
        wanted = _plain(positions)
        if known := sources_of(recovery):
            studies.refuse_unknown(positions, known)
        if wanted:
            _may_choose(recovery, wanted, accept_loss, accept_repeats)
        before = recovery.choices.get("positions") or {}
        ticked = [e.value for e in effects_of(loss=accept_loss, repeats=accept_repeats)]
        after = {**without_acceptance(recovery.choices), "positions": wanted}
        Recovery.objects.filter(pk=recovery.pk).update(choices=after)
        attempted.done(
            f"Start positions chosen: {_told(wanted)}.",
            before={"positions": before},
            after={"positions": wanted, **({"accepted": ticked} if ticked else {})},
        )


def choose_at_once(
    *,
    recovery_id: int,
    given: Sequence[str],
    by: Actor,
    accept_loss: bool = False,
    accept_repeats: bool = False,
) -> None:
    """Look up and choose before returning, for commands: `given` as `wishes.by_source` takes it; nothing given:
    every source as committed. Raises as `choose_positions`, and what looking raises."""
    recovery = get(recovery_id)
    wanted, shown = looked_at(recovery.flow, given, recovery.choices.get("patch"))
    with transaction.atomic():
        studies.begin(recovery, LOOK, asked=_plain(wanted))
        look = studies.slot(recovery, LOOK)
        now = timezone.now().isoformat()
        answer = {"status": "ready", "wishes": look["asked"], "sources": shown, "at": now}
        studies.put(recovery, LOOK, {**look, **answer})
    choose_positions(
        recovery_id=recovery_id,
        positions=wanted,
        by=by,
        accept_loss=accept_loss,
        accept_repeats=accept_repeats,
    )


def looked_at(
    flow: Flow, given: Sequence[str], patch: Mapping[str, str] | None = None
) -> tuple[dict[str, Wanted | None], list[dict[str, Any]]]:
    """What was given, as wishes by source, and every source with what they cost. Changes nothing.

    `all` is for those sources that are not named themselves; which there are has to be looked up first.
    """
    named = wishes.by_source(given)
    every = named.pop("all", None)
    if every is not None:
        there = studies.positions_shown(flow, {}, patch)
        named = {**wishes.for_all(every, [one for one in there if one["source"] not in named]), **named}
    return named, studies.positions_shown(flow, {k: w for k, w in named.items() if w is not None}, patch)


def _may_choose(
    recovery: Recovery, wanted: Mapping[str, Any], accept_loss: bool, accept_repeats: bool
) -> None:
    strategy = recovery.choices.get("strategy") or ""
    if strategy not in POSITIONED:
        raise Refused(
            f"Start positions can be chosen with {' or '.join(POSITIONED)}; {strategy or 'no strategy'} is chosen.",
            code="no_positions",
        )
    look = studies.looked(recovery)
    if look.get("status") != "ready" or look.get("wishes") != wanted:
        raise Refused(
            "What these positions cost was not looked up. Look first, then choose what was looked at.",
            code="not_looked",
        )
    if said := unmet(look["sources"], wanted):
        raise Refused(" ".join(said), code="no_such_position")
    refuse_costs(look["sources"], accept_loss=accept_loss, accept_repeats=accept_repeats)


def confirm_sources(*, recovery_id: int, confirmed: Sequence[str], by: Actor) -> None:
    """Save which proposals about the sources a person says yes to: keys as in `mapping.confirmable`. All others
    count as not confirmed.

    Raises Refused for a key that is no such proposal, and while a plan is sealed.
    """
    recovery = get(recovery_id)
    with trying("recovery.sources", recovery, by) as attempted:
        recovery = lock(recovery_id)
        only_in(recovery, "diagnosing")
        keys = sorted(set(confirmed))
        _refuse_strange(keys, mapping_of(recovery))
        before = recovery.choices.get("confirmed") or []
        kept = recovery.choices if keys == before else without_acceptance(recovery.choices)
        Recovery.objects.filter(pk=recovery.pk).update(choices={**kept, "confirmed": keys})
        attempted.done(
            f"Confirmed which source continues which: {', '.join(keys) or 'nothing'}.",
            before={"confirmed": before},
            after={"confirmed": keys},
        )


def _refuse_strange(keys: Sequence[str], mapping: Mapping[str, Any] | None) -> None:
    """Before the facts are there (commands) only the form of a key is known; sealing compares it then."""
    known = None if mapping is None else confirmable(mapping)
    strange = [key for key in keys if not KEY.fullmatch(key) or (known is not None and key not in known)]
    if strange:
        there = ", ".join(known or []) or "old->new, or old-> for one that is dropped"
        raise Refused(
            f"There is nothing to confirm as {', '.join(strange)}. Confirm: {there}.", code="no_pair"
        )


def mapping_of(recovery: Recovery) -> dict[str, Any] | None:
    """How the chosen strategy takes the checkpoint's sources for the code's; None before anybody looked."""
    if recovery.facts.get("options") is None:
        return None
    strategy = recovery.choices.get("strategy") or POSITIONED[0]
    options = stored_options(recovery.facts)
    found = next((o.mapping for o in options if o.strategy == strategy), None)
    return dict(found or {})


def unmet(shown: Collection[Mapping[str, Any]], wanted: Collection[str]) -> list[str]:
    """Why wishes could not be met, a sentence each: such a source would start where it was committed."""
    return [
        f"Source {one['source']}: {one['problem']}"
        for one in shown
        if one["problem"] and one["source"] in wanted
    ]


def refuse_costs(
    shown: Collection[Mapping[str, Any]], *, accept_loss: bool = False, accept_repeats: bool = False
) -> None:
    """Raise Refused, naming the rows, for positions whose costs were not accepted."""
    told = showing.costs(list(shown))
    if told.lost and not accept_loss:
        raise Refused(
            f"These positions leave rows out, and that was not accepted: {'; '.join(told.lost)}.",
            code=Effect.LOSS.refusal,
            flags=(Effect.LOSS.flag,),
        )
    if told.repeated and not accept_repeats:
        raise Refused(
            f"These positions read rows again, and that was not accepted: {'; '.join(told.repeated)}.",
            code=Effect.REPEATS.refusal,
            flags=(Effect.REPEATS.flag,),
        )


def wished(look: Mapping[str, Any]) -> dict[str, Wanted | None]:
    """The wishes of a look, as the actions take them."""
    return {key: wishes.of(body) for key, body in (look.get("wishes") or {}).items()}


def sources_of(recovery: Recovery) -> set[str]:
    """Names of the sources that are known of this recovery: by the newest look, else by its facts."""
    if sources := studies.looked(recovery)["sources"]:
        return {one["source"] for one in sources}
    options = stored_options(recovery.facts)
    return {str(n) for option in options for n in range(len(option.positions))}


def _plain(positions: Mapping[str, Wanted | None]) -> dict[str, dict[str, Any]]:
    """As they are saved: only sources that shall start elsewhere."""
    return {key: wishes.as_dict(wanted) for key, wanted in sorted(positions.items()) if wanted is not None}


def _told(wanted: Mapping[str, Mapping[str, Any]]) -> str:
    told = [f"source {key} at {wishes.text(wishes.of(body))[:200]}" for key, body in wanted.items()]
    return "; ".join(told) or "every source where it was committed"
