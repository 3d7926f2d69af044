"""What each part of a change makes of a recovery's choices, or why it is refused. Writes nothing."""

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recovery.approvals.rules import strategy_allowed
from recovery.approvals.selectors import rule_for
from recovery.contracts import codec
from recovery.contracts.acceptance import Effect
from recovery.contracts.choices import Choices, ChoicesChange
from recovery.contracts.names import ChangeIntent, Strategy, name_strategy
from recovery.contracts.plan import PatchAuthor
from recovery.contracts.positions import SourceMapping
from recovery.contracts.start_choice import StartChoice
from recovery.errors import Refused
from recovery.models import Recovery
from recovery.people.roles import Actor
from recovery.sources import position_requests, targets
from recovery.strategies.catalogue import EXECUTABLE, POSITIONED, settled_later
from recovery.strategies.recommending import default_strategy
from recovery.workflow import lineends, studies
from recovery.workflow.plan_basis import without_acceptance
from recovery.workflow.positioning import (
    list_unmet,
    mapping_of,
    refuse_costs,
    sources_of,
)

RESTS_ON_STRATEGY: Final = (
    "patch",
    "editors",
    "original",
    "validation",
    "positions",
    "positions_look",
    "confirmed",
    "target",
)
"""Choices that were made for the strategy chosen, and are forgotten with it."""
PAIR: Final = re.compile(r"[^->]+->[^->]*")
MEANINGS: Final[Mapping[ChangeIntent, str]] = {
    ChangeIntent.YES: "The change of the code was meant",
    ChangeIntent.NO: "The change of the code was a mistake",
    ChangeIntent.UNKNOWN: "Whether the change of the code was meant is not known",
}


@dataclass(frozen=True)
class AppliedChange:
    """A part of a change as it was taken."""

    #: the choices with it
    choices: Choices
    #: what was done, for the audit log
    says: str
    #: what was chosen before; None: too much to be recorded
    before: Mapping[str, Any] | None = None
    #: what is chosen now
    after: Mapping[str, Any] | None = None


Take = Callable[[Recovery, ChoicesChange, Actor], AppliedChange | None]
"""(recovery, change, actor) -> what it makes of `recovery.choices`; None where it changes nothing. Raises Refused."""


def list_parts(change: ChoicesChange) -> list[tuple[str, Take]]:
    """(action of the audit log, what takes it) for each part that the change names, in the order in which one rests on
    another."""
    of_strategy = change.strategy is not None or change.key is not None or change.default_strategy
    parts: list[tuple[bool, str, Take]] = [
        (change.meant is not None, "recovery.meant", answer_meant),
        (of_strategy, "recovery.strategy", choose_strategy),
        (change.target is not None, "recovery.target", choose_target),
        (change.patch is not None, "recovery.patch" if change.patch else "recovery.keep", edit_code),
        (change.confirmed is not None, "recovery.sources", confirm_sources),
        (change.refresh_below is not None, "recovery.below", choose_below),
        (change.positions is not None, "recovery.positions", choose_positions),
    ]
    return [(action, take) for is_named, action, take in parts if is_named]


def find_strategy(held: Choices, change: ChoicesChange) -> str | None:
    """The strategy after this change: the one that it names, else the one chosen before, else the default where the
    change asks for it."""
    if change.strategy is not None:
        return change.strategy
    if held.strategy is None and change.default_strategy:
        return default_strategy(change.meant or held.meant)
    return held.strategy


def answer_meant(recovery: Recovery, change: ChoicesChange, by: Actor) -> AppliedChange | None:
    """Whether the change of the code was meant. It sets what is recommended, and changes nothing that was chosen."""
    held, meant = recovery.chosen, change.meant
    if meant is None or meant is held.meant:
        return None
    return AppliedChange(
        held.replace(meant=meant, meant_by=by.name),
        f"{MEANINGS[meant]}.",
        before={"meant": held.meant},
        after={"meant": meant},
    )


def choose_strategy(recovery: Recovery, change: ChoicesChange, by: Actor) -> AppliedChange | None:
    """Strategy and key. Another strategy forgets what was chosen for the one before.

    Raises Refused for what is no strategy, and for one that the rules or the facts forbid. One that was chosen before
    is not judged again: sealing does, by newer facts.
    """
    held, strategy = recovery.chosen, find_strategy(recovery.chosen, change)
    if change.strategy is not None or strategy != held.strategy:
        _require_choosable(recovery, strategy or "")
    key = held.key if change.key is None else tuple(c.strip() for c in change.key if c.strip())
    if (strategy, key) == (held.strategy, held.key):
        return None
    kept = without_acceptance(held)
    if strategy != held.strategy:
        kept = kept.forget(*RESTS_ON_STRATEGY).replace(strategy=Strategy(strategy or ""))
    return AppliedChange(
        kept.replace(key=key),
        f"Strategy {name_strategy(strategy)} chosen."
        if strategy
        else f"Key chosen: {', '.join(key) or 'none'}.",
        before={name: recovery.choices.get(name) for name in ("strategy", "key")},
        after={"strategy": strategy, "key": list(key)},
    )


def choose_target(recovery: Recovery, change: ChoicesChange, by: Actor) -> AppliedChange | None:
    """Where a replay goes back to. Raises Refused for a strategy that goes back to nothing."""
    held, target = recovery.chosen, change.target
    if target is None or target == held.target:
        return None
    if held.strategy is not Strategy.REPLAY:
        raise Refused(
            f"Only {Strategy.REPLAY} goes back to a time, a version or a batch; "
            f"{held.strategy or 'no strategy'} is chosen.",
            code="no_target",
        )
    return AppliedChange(
        without_acceptance(held).replace(target=target),
        f"Goes back to {targets.target_text(target)}.",
        before={"target": codec.to_read_json(held.target) if held.target else None},
        after={"target": codec.to_read_json(target)},
    )


def _require_choosable(recovery: Recovery, strategy: str) -> None:
    rule = rule_for(recovery.flow.pipeline.environment)
    if no := strategy_allowed(rule, strategy):
        raise Refused(no.says, code=no.code)
    option = recovery.gathered.option_of(strategy)
    blocked = option.blocked if option else None
    if strategy not in EXECUTABLE:
        reason = blocked or "this version cannot run it."
        raise Refused(f"{name_strategy(strategy)} cannot be chosen: {reason}", code="blocked")
    if option and blocked and not settled_later(option):
        raise Refused(f"{name_strategy(strategy)} cannot be chosen: {blocked}", code="blocked")


def edit_code(recovery: Recovery, change: ChoicesChange, by: Actor) -> AppliedChange | None:
    """Edited source. Nothing is written to the workspace yet. Raises Refused for Python that does not parse."""
    held, files = recovery.chosen, change.patch or {}
    for path, text in files.items():
        require_python(path, text)
    # browsers and editors do not agree
    patch = {path: lineends.use_unix_line_ends(text) for path, text in files.items()}
    editors = _list_editors(held, patch, change.editors, by)
    if (patch, editors) == (held.patch, held.editors):
        return None
    kept = held.forget("validation")
    if patch != (held.patch or {}):
        kept = without_acceptance(kept)
    says = f"Edited source saved: {', '.join(files)}." if files else "The code is kept as it is."
    return AppliedChange(kept.replace(patch=patch, editors=editors), says)


def _list_editors(
    held: Choices, patch: Mapping[str, str], elsewhere: Mapping[str, tuple[PatchAuthor, ...]], by: Actor
) -> dict[str, tuple[PatchAuthor, ...]]:
    """Who edited each file of the patch: none of them votes on a plan that holds it. `elsewhere`: who did so in another
    recovery; who carries their text over has not edited it."""
    before, me = held.patch or {}, PatchAuthor(name=by.name, user_id=by.user_id)
    editors = {}
    for path, text in patch.items():
        known = tuple(dict.fromkeys((*held.editors.get(path, ()), *elsewhere.get(path, ()))))
        others = tuple(who for who in known if who != me)
        is_mine = me in known or (before.get(path) != text and not elsewhere.get(path))
        editors[path] = (*others, me) if is_mine else others
    return {path: who for path, who in editors.items() if who}


def require_python(path: str, text: str) -> None:
    """Raise Refused, naming file and line, unless the text of a .py file is Python."""
    if not path.endswith(".py"):
        return
    try:
        ast.parse(text)
    except (RecursionError, MemoryError) as error:
        raise Refused(f"{path} does not parse: it is nested too deeply.", code="does_not_parse") from error
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise Refused(
            f"{path} does not parse: {getattr(error, 'msg', error)}" + (f" in line {line}." if line else "."),
            code="does_not_parse",
        ) from error


def confirm_sources(recovery: Recovery, change: ChoicesChange, by: Actor) -> AppliedChange | None:
    """Which proposals about the sources a person says yes to. Raises Refused for a key that is no such proposal."""
    held, keys = recovery.chosen, tuple(sorted(set(change.confirmed or ())))
    _refuse_unknown_pairs(keys, mapping_of(recovery))
    if keys == held.confirmed:
        return None
    return AppliedChange(
        without_acceptance(held).replace(confirmed=keys),
        f"Confirmed which source continues which: {', '.join(keys) or 'nothing'}.",
        before={"confirmed": list(held.confirmed)},
        after={"confirmed": list(keys)},
    )


def _refuse_unknown_pairs(keys: Sequence[str], mapping: SourceMapping | None) -> None:
    """Before the facts are there (commands) only the form of a key is known; sealing compares it then."""
    known = None if mapping is None else mapping.confirmable
    unknown = [key for key in keys if not PAIR.fullmatch(key) or (known is not None and key not in known)]
    if unknown and known == () and all(PAIR.fullmatch(key) for key in unknown):
        raise Refused(
            f"{', '.join(unknown)} needs no confirmation: every source goes on as itself. Leave it out.",
            code="nothing_to_confirm",
        )
    if unknown:
        there = ", ".join(known or ()) or "old->new, or old-> for one that is dropped"
        raise Refused(f"{', '.join(unknown)} cannot be confirmed. Confirm: {there}.", code="no_pair")


def choose_below(recovery: Recovery, change: ChoicesChange, by: Actor) -> AppliedChange | None:
    """Whether the plan refreshes what is downstream of the flow's table; it does unless a person leaves it out."""
    held, refresh = recovery.chosen, bool(change.refresh_below)
    if refresh == held.refresh_below:
        return None
    after = held.forget("below") if refresh else held.replace(below="left")
    return AppliedChange(
        after,
        "The plan refreshes what is below." if refresh else "The plan leaves what is below as it is.",
        before={"below": held.below},
        after={"below": after.below},
    )


def choose_positions(recovery: Recovery, change: ChoicesChange, by: Actor) -> AppliedChange | None:
    """Where each source starts.

    Raises Refused for a source that is not there, for positions that were not looked up, for those that leave rows out
    or read them again where the change does not accept that, and for a strategy without positions.
    """
    positions, held = change.positions or {}, recovery.chosen
    if known := sources_of(recovery):
        studies.refuse_unknown(positions, known)
    wanted = {source: wish for source, wish in sorted(positions.items()) if wish is not None}
    if wanted:
        _require_looked_up(recovery, wanted, change.accept)
    if wanted == held.positions:
        return None
    ticked = [effect.value for effect in Effect if effect in change.accept]
    plain = position_requests.as_dicts(wanted)
    return AppliedChange(
        without_acceptance(held).replace(positions=wanted),
        f"Start positions chosen: {position_requests.describe_wishes(wanted)}.",
        before={"positions": position_requests.as_dicts(held.positions)},
        after={"positions": plain, **({"accepted": ticked} if ticked else {})},
    )


def _require_looked_up(
    recovery: Recovery, wanted: Mapping[str, StartChoice], accept: Collection[Effect]
) -> None:
    strategy = recovery.chosen.strategy
    if strategy not in POSITIONED:
        raise Refused(
            f"Start positions can be chosen with {' or '.join(map(name_strategy, POSITIONED))}; "
            f"{name_strategy(strategy or 'no strategy')} is chosen.",
            code="no_positions",
        )
    look = recovery.chosen.positions_look
    if look.status != "ready" or look.wishes != wanted:
        raise Refused(
            "The cost of these positions was not looked up. Look it up first, then choose them.",
            code="not_looked",
        )
    sources = studies.looked_sources(recovery)
    if said := list_unmet(sources, wanted):
        raise Refused(" ".join(said), code="no_such_position")
    refuse_costs(sources, accept)


def write_choices(recovery: Recovery, choices: Choices) -> None:
    """Put these choices on the row in memory; its caller saves it."""
    recovery.choices = codec.to_read_json(choices)
