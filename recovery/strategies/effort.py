"""What a judged strategy asks for: read from its own steps, so that a new strategy needs nothing here. Pure.

Rows that are read are those of the input where the sources count them; where only Spark could, they are rows as the
code writes them, which is an estimate: a filter takes some out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from recovery.contracts.amounts import Amount, Bound, joint_bound
from recovery.contracts.effort import (
    Backup,
    Effort,
    StateEffect,
    StateFate,
    TableReset,
    TimedBy,
    Undo,
)
from recovery.contracts.names import CORRECTING, StepKind, Strategy
from recovery.contracts.option import BlockerCode, Option
from recovery.contracts.steps import SeedArgs, UpdateArgs
from recovery.sources import files
from recovery.sources.base import InputFile, SourceFacts
from recovery.strategies import common, prime, rebuild, sources, starts
from recovery.strategies.base import Facts
from recovery.strategies.revert import put_back
from recovery.strategies.sinks import is_table

AS_WRITTEN: Final = (
    "Rows as the code writes them; what it filters out and what it drops as a repeat is read too."
)
NOTHING: Final = Amount(value=0)


@dataclass(frozen=True)
class InputAmount:
    """What is read of the input. None: not known."""

    rows: Amount | None = NOTHING
    bytes: Amount | None = NOTHING

    def __add__(self, other: "InputAmount") -> "InputAmount":
        return InputAmount(add_amounts((self.rows, other.rows)), add_amounts((self.bytes, other.bytes)))


def add_amounts(amounts: Iterable[Amount | None]) -> Amount | None:
    """Their sum, of the bound that it has then; None where one is not known."""
    held = list(amounts)
    known = [one for one in held if one is not None]
    if len(known) < len(held):
        return None
    why = " ".join(dict.fromkeys(one.why for one in known if one.why and one.value))
    return Amount(value=sum(one.value for one in known), bound=joint_bound(o.bound for o in known), why=why)


def measure_effort(facts: Facts, option: Option, *, people: Amount) -> Effort:
    """What this option asks for. `people`: how many the environment's rule asks for (`approvals.rules`)."""
    reading, forecast = read_input(facts, option), option.forecast
    by_rate = facts.rows_per_second is not None and reading.rows is not None
    known = TimedBy.RATE if by_rate else TimedBy.UPDATES
    return Effort(
        people=people,
        steps=len(option.steps),
        rows=reading.rows,
        bytes=reading.bytes,
        seconds=forecast.seconds,
        timed_by=TimedBy.UNKNOWN if forecast.seconds is None else known,
        backup=Backup(needed=_has_step(option, StepKind.TABLE_BACKUP)),
        table=_effect_on_table(facts, option),
        state=_effect_on_state(facts, option),
        undo=_way_back(facts, option),
    )


def measure_all(facts: Facts, options: Sequence[Option], *, people: Amount) -> tuple[Option, ...]:
    """The same options, each with what it asks for."""
    return tuple(one.with_effort(measure_effort(facts, one, people=people)) for one in options)


def with_time(facts: Facts, option: Option) -> Option:
    """The option, whose forecast of time counts the rows that it reads too, where this flow's rate is known.

    Its updates take what they usually do, or what reading the rows takes if that is longer: each would count what the
    other does if they were added.
    """
    usual, rate = facts.usual_update_seconds, facts.rows_per_second
    rows, by_updates = read_input(facts, option).rows, option.forecast.seconds
    if usual is None or rate is None or rows is None or by_updates is None:
        return option
    by_rate = usual + rows.value / rate
    return option.with_seconds(by_rate) if by_rate > by_updates else option


def read_input(facts: Facts, option: Option) -> InputAmount:
    """Rows and bytes of the input that the option's steps read; a proof's own reading is not among them."""
    if option.blocker is not None and option.blocker.code is BlockerCode.START_NEEDED:
        return InputAmount(None, None)  # it is not said yet how far back
    if option.strategy is Strategy.REVERT:
        facts = put_back(facts)
    if begins_anew(option):
        return _read_everything(facts)
    if option.strategy in CORRECTING:
        return _read_committed(facts)
    amount = _read_waiting(facts) + _read_again(facts, option)
    return amount + _read_processed(facts) if _is_replayed(option) else amount


def begins_anew(option: Option) -> bool:
    """Whether its query begins with an empty checkpoint."""
    return option.strategy is Strategy.EMPTY or any(args.is_reset for args in _updates(option))


def _updates(option: Option) -> list[UpdateArgs]:
    return [step.args_as(UpdateArgs) for step in option.steps if step.kind is StepKind.RERUN]


def _seeds(option: Option) -> list[SeedArgs]:
    return [step.args_as(SeedArgs) for step in option.steps if step.kind is StepKind.SEED]


def _has_step(option: Option, kind: StepKind) -> bool:
    return any(step.kind == kind for step in option.steps)


def _is_replayed(option: Option) -> bool:
    return any(args.state == rebuild.STATE for args in _seeds(option))


def _read_committed(facts: Facts) -> InputAmount:
    """What is read to find the rows that a table lacks or repeats: all committed input, and nothing that waits."""
    size = Amount(value=_bytes_of(common.files_of(facts, "processed"))) if common.only_files(facts) else None
    return InputAmount(_as_written(facts, facts.counts.processed), size)


def _read_waiting(facts: Facts) -> InputAmount:
    """What is behind the positions where the sources start: of a start further back, what is read again too."""
    counted = [source.unread.rows for source in facts.sources]
    if facts.sources and None not in counted:
        rows = add_amounts(counted)
    elif common.only_files(facts) and not common.files_of(facts, "waiting"):
        rows = NOTHING
    else:
        rows = _as_written(facts, _waiting_with_late(facts))
    return InputAmount(rows, add_amounts(_unread_bytes(source) for source in facts.sources))


def _waiting_with_late(facts: Facts) -> int | None:
    """What the code writes of what waits, with the rows that a rehearsal read and dropped as late."""
    counts = facts.counts
    return None if counts.waiting is None else counts.waiting + (counts.rehearsed_late or 0)


def _unread_bytes(source: SourceFacts) -> Amount | None:
    if source.position.kind == files.KIND:
        return Amount(value=sum(f.size for f in source.waiting))
    return source.unread.bytes


def _read_again(facts: Facts, option: Option) -> InputAmount:
    """What a strategy reads again of itself; what a chosen start reads again waits already."""
    again = option.forecast.reread
    if again.rows == 0 or any(starts.is_moved(s) for s in facts.sources) or sources.twice(facts):
        return InputAmount()
    return InputAmount(None if again.rows is None else Amount(value=again.rows, bound=again.bound), None)


def _read_everything(facts: Facts) -> InputAmount:
    """All that an empty checkpoint reads, by the reader's own options."""
    begins = sources.anew(facts)
    if begins and all(one.again is False for one in begins):
        return InputAmount()
    if not all(one.again for one in begins):
        return InputAmount(None, None)
    held = {f.path: f for name in ("processed", "waiting", "ignored") for f in common.files_of(facts, name)}
    size = Amount(value=_bytes_of(tuple(held.values()))) if common.only_files(facts) else None
    return InputAmount(_as_written(facts, _all_rows(facts)), size)


def _all_rows(facts: Facts) -> int | None:
    """Rows of all input. Code that drops repeats is taken for the parts: over all at once it drops more of them."""
    counts = facts.counts
    is_cut = not any(starts.is_moved(s) for s in facts.sources) and not common.files_of(facts, "ignored")
    if facts.new_code.operators and is_cut and counts.processed is not None and counts.waiting is not None:
        return counts.processed + counts.waiting
    return counts.everything


def _read_processed(facts: Facts) -> InputAmount:
    """What a replay reads."""
    held = facts.processed
    size = None if held is None or held.gaps or held.size is None else Amount(value=held.size)
    return InputAmount(_as_written(facts, facts.counts.processed), size)


def _as_written(facts: Facts, rows: int | None) -> Amount | None:
    """Rows that the code writes, as an estimate of those that it reads; None where it gathers rows in groups."""
    gathers = set(facts.new_code.operators or ()) - {"dedupe", "dedupeWithinWatermark"}
    if rows is None or gathers:
        return None
    return Amount(value=rows, bound=Bound.ESTIMATE, why=AS_WRITTEN)


def _bytes_of(held: Sequence[InputFile]) -> int:
    return sum(one.size for one in held)


def _effect_on_table(facts: Facts, option: Option) -> TableReset:
    if _has_step(option, StepKind.RESTORE):
        return TableReset.RESTORED
    if not is_table(facts) or not any(args.full_refresh for args in _updates(option)):
        return TableReset.NO
    return TableReset.FILLED if _has_step(option, StepKind.FILL) else TableReset.EMPTIED


def _effect_on_state(facts: Facts, option: Option) -> StateEffect:
    fate = _fate_of_state(facts, option)
    keeps_keys = fate in (StateFate.KEPT, StateFate.DROPPED)
    return StateEffect(fate=fate, keys=_held_keys(facts) if keeps_keys else None)


def _fate_of_state(facts: Facts, option: Option) -> StateFate:
    held, needs = bool(facts.checkpoint.state_operators), bool(facts.new_code.operators)
    left = StateFate.DROPPED if held else StateFate.NONE
    if begins_anew(option):
        return StateFate.REBUILT if needs else left
    seed = next(iter(_seeds(option)), None)
    if seed is None or seed.action == "repair":
        return StateFate.KEPT if held else StateFate.NONE
    if seed.state == rebuild.STATE or option.strategy is Strategy.REWIND:
        return StateFate.REBUILT if needs else left
    return StateFate.EMPTY if seed.state == prime.STATE else left


def _held_keys(facts: Facts) -> Amount | None:
    """Keys of the checkpoint's state: as its files count them, else by the rows that a dropDuplicates wrote."""
    operators = facts.checkpoint.state_operators
    counted = [operator.rows for operator in operators]
    if counted and None not in counted:
        return Amount(value=sum(rows for rows in counted if rows is not None))
    if operators and all(o.name == "dedupe" for o in operators) and facts.counts.table is not None:
        why = "One for each row of the table."
        return Amount(value=facts.counts.table, bound=Bound.ESTIMATE, why=why)
    return None


def _way_back(facts: Facts, option: Option) -> Undo:
    if not option.undoable or begins_anew(option):
        return Undo(possible=option.undoable)
    seed = next(iter(_seeds(option)), None)
    last = facts.checkpoint.last_committed if seed is None else seed.last_committed
    return Undo(possible=True, until_batch=0 if last is None else last + 1)
