"""Every way out as text: those that can run in a table, the others with their reason, and what would change it."""

from collections.abc import Iterator, Mapping
from typing import Final

from recovery.contracts import codec
from recovery.contracts.amounts import Amount, RowAmount
from recovery.contracts.effort import Effort, StateFate, TableReset
from recovery.contracts.names import name_strategy
from recovery.contracts.option import BlockerCode
from recovery.contracts.ways import WaitKind, WayOut, Ways
from recovery.errors import WrongUse
from recovery.management.commands._base import CommandAnswer, lasting, plain, table
from recovery.names import shown
from recovery.strategies.common import plural

ALL: Final = "all"
CHOICES: Final = ("again", "positions", "accept_loss", "accept_repeats")
"""Options that choose or change something; `--strategy all` does not."""
HEAD: Final = ("WAY OUT", "LOST", "DOUBLED", "TO READ", "TAKES", "PEOPLE", "STEPS", "TABLE", "STATE", "UNDO")
TABLES: Final[Mapping[TableReset, str]] = {
    TableReset.NO: "kept",
    TableReset.EMPTIED: "emptied",
    TableReset.FILLED: "emptied, then filled",
    TableReset.RESTORED: "restored",
}
NOT_FOR_PLAIN: Final = (
    BlockerCode.REPLAY_OF_PROGRAM,
    BlockerCode.TOP_UP_OF_PROGRAM,
    BlockerCode.DEDUPLICATE_OF_PROGRAM,
    BlockerCode.NO_REFRESH,
)
"""Why a strategy cannot run that no plain stream has."""
NOTHING_DONE: Final = "Nothing was chosen, sealed or opened."
UNKNOWN: Final = "not known"


def refuse_choices(options: Mapping[str, object]) -> None:
    """Raise WrongUse for an option that goes with one strategy only."""
    given = [f"--{name.replace('_', '-')}" for name in CHOICES if options[name]]
    if given:
        raise WrongUse(f"--strategy all chooses nothing, so it does not take {', '.join(given)}.")


def answer(found: Ways) -> CommandAnswer:
    """The whole table: the JSON of `contracts.ways.Ways`; exit 0, for it is an answer whatever can run."""
    return CommandAnswer(codec.to_json(found), "\n".join(_lines(found)))


def _lines(found: Ways) -> Iterator[str]:
    can = [way for way in found.options if way.blocked is None]
    if can:
        yield table(HEAD, [_row(way) for way in can])
    barred = [way for way in found.options if way.blocked is not None]
    for way in barred:
        if way.blocked is not None and not is_lacking(way):
            yield f"  {name_strategy(way.strategy)} cannot run: {plain(way.blocked.says)}"
    if lacking := [way for way in barred if is_lacking(way)]:
        named = ", ".join(f"{name_strategy(w.strategy)} ({w.blocked.code})" for w in lacking if w.blocked)
        yield f"  Not for plain streams: {named}."
    yield ""
    if found.recommended:
        next_one = f" Runner-up: {name_strategy(found.runner_up)}." if found.runner_up else ""
        yield f"Recommended: {name_strategy(found.recommended)} (rule {found.rule}). {found.because}{next_one}"
    else:
        yield f"Recommended: none. {found.because}"
    yield from _changes(found)
    yield ""
    for one in found.answers:
        yield f"{one.answer.replace('-', ' ').capitalize()}{' (do this now)' if one.advised else ''}: {shown(one.says)}"
    yield NOTHING_DONE


def is_lacking(way: WayOut) -> bool:
    """Whether it is a way that no plain stream has; the JSON has the whole reason."""
    return way.blocked is not None and way.blocked.code in NOT_FOR_PLAIN


def _changes(found: Ways) -> Iterator[str]:
    if found.would_change:
        yield ""
        yield "What would change that"
    for one in found.would_change:
        then = one.then or "no way out"
        then = then.replace("-", " ") if then in tuple(WaitKind) else name_strategy(then)
        yield f"  {one.says}: {then}. {plain(one.because)}"


def _row(way: WayOut) -> tuple[str, ...]:
    effort, forecast = way.effort, way.forecast
    numbers = (_rows(forecast.lost), _rows(forecast.doubled))
    if effort is None:
        return (name_strategy(way.strategy), *numbers, *[UNKNOWN] * (len(HEAD) - 3))
    return (
        name_strategy(way.strategy),
        *numbers,
        _reading(effort),
        UNKNOWN if effort.seconds is None else f"about {lasting(effort.seconds)}",
        _number(effort.people),
        str(effort.steps),
        f"{TABLES[effort.table]}{', backed up' if effort.backup.needed else ''}",
        _state(effort),
        _undo(way),
    )


def _rows(of: RowAmount) -> str:
    return UNKNOWN if of.rows is None else f"{of.bound.before_number}{of.rows:,}"


def _number(of: Amount | None) -> str:
    return UNKNOWN if of is None else f"{of.bound.before_number}{of.value:,}"


def _reading(of: Effort) -> str:
    if of.rows is None and of.bytes is None:
        return UNKNOWN
    rows = (
        "rows not known"
        if of.rows is None
        else f"{of.rows.bound.before_number}{plural(of.rows.value, 'row')}"
    )
    return rows if of.bytes is None else f"{rows}, {_number(of.bytes)} bytes"


def _state(of: Effort) -> str:
    if of.state.fate is StateFate.NONE or of.state.keys is None:
        return of.state.fate.value
    return f"{of.state.fate}, {of.state.keys.bound.before_number}{plural(of.state.keys.value, 'key')}"


def _undo(way: WayOut) -> str:
    if not way.undo.possible:
        return "no way back"
    if way.undo.until_batch is None:
        return "possible"
    return f"until batch {way.undo.until_batch} is committed"
