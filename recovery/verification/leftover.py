"""Which rows of a table are lost or doubled by what the proofs of its recoveries measured. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recovery.contracts.amounts import Bound, joint_bound
from recovery.contracts.measured import Measured, MeasuredRows
from recovery.verification import words

NONE = words.NONE


@dataclass(frozen=True)
class Leftover:
    """What the table lacks or has too often."""

    lost: MeasuredRows
    doubled: MeasuredRows
    #: a proof found some of it that no plan accepted
    differs: bool

    @property
    def cost(self) -> str:
        """`9 rows lost, 60 rows doubled`; "" for none."""
        parts = ((self.lost, "lost"), (self.doubled, "doubled"))
        return ", ".join(words.say_cost(rows, word) for rows, word in parts if rows.rows != 0)


def sum_leftover(proofs: Sequence[Measured]) -> Leftover:
    """`proofs`: those of one table that hold, the newest first, since it was last written from scratch."""
    lost = _sum_up(proofs, words.given_up, words.lost_earlier, settles_lost)
    doubled = _sum_up(proofs, words.count_repeats, words.doubled_earlier, settles_doubled)
    return Leftover(lost.rows, doubled.rows, lost.differs or doubled.differs)


def say_counted(proof: Measured) -> str:
    """The rows that a proof counted as lost or doubled, whether it held or not: `149 rows doubled`; "" for none."""
    counted = ((proof.lost, proof.lost_bound, "lost"), (proof.doubled, proof.doubled_bound, "doubled"))
    known = [
        (MeasuredRows(rows, bound), word)
        for rows, bound, word in counted
        if rows and bound is not Bound.UNKNOWN
    ]
    return ", ".join(words.say_cost(rows, word) for rows, word in known)


def settles(proof: Measured) -> bool:
    """Whether it counted the whole table: what no proof before it found need be named."""
    return settles_lost(proof) and settles_doubled(proof)


def asks_earlier(proof: Measured) -> bool:
    """Whether proofs before it may know more of the table, or why it has the rows that this one found."""
    return not settles(proof) or bool(words.lost_earlier(proof).rows or words.doubled_earlier(proof).rows)


def settles_lost(proof: Measured) -> bool:
    """Whether it knows every row that the table lacks."""
    if words.holds_every_row(proof):
        return proof.whole is not None and not proof.whole.partial
    return proof.lost_before is not None


def settles_doubled(proof: Measured) -> bool:
    """Whether it knows every row that the table has too often."""
    counted = proof.doubled_before is not None and proof.doubled_bound is Bound.EXACT
    return words.holds_every_row(proof) or counted


@dataclass(frozen=True)
class _LeftoverRows:
    rows: MeasuredRows = NONE
    differs: bool = False


def _sum_up(
    proofs: Sequence[Measured],
    accepted: Callable[[Measured], MeasuredRows],
    earlier: Callable[[Measured], MeasuredRows],
    is_settled: Callable[[Measured], bool],
) -> _LeftoverRows:
    """What a proof counts since before its recovery may be what earlier ones accepted: if it counted the whole table,
    only where the numbers show that; else the larger of both counts."""
    total = _LeftoverRows()
    for proof in reversed(proofs):
        before = _LeftoverRows(earlier(proof), bool(earlier(proof).rows))
        before = (_as_accepted(before, total) or before) if is_settled(proof) else _larger(before, total)
        total = _LeftoverRows(_add(accepted(proof), before.rows), before.differs)
    return total


def _as_accepted(counted: _LeftoverRows, remembered: _LeftoverRows) -> _LeftoverRows | None:
    """The rows that were counted as those that earlier plans accepted, and all of them; None where the numbers do not
    show it: fewer rows than were accepted, to the row, may be others."""
    rows, accepted = counted.rows, remembered.rows
    if not rows.rows or accepted.rows is None or remembered.differs:
        return None
    if accepted.bound is Bound.EXACT and rows.rows == accepted.rows:
        return remembered
    if accepted.bound is Bound.AT_MOST and rows.rows <= accepted.rows:
        bound = Bound.EXACT if rows.bound is Bound.EXACT else Bound.AT_MOST
        return _LeftoverRows(MeasuredRows(rows.rows, bound))
    return None


def _larger(counted: _LeftoverRows, remembered: _LeftoverRows) -> _LeftoverRows:
    if remembered.rows.rows is None and counted.rows.rows:
        return _LeftoverRows(MeasuredRows(counted.rows.rows, Bound.AT_LEAST), differs=True)
    if remembered.rows.rows is None:
        return remembered
    return counted if (counted.rows.rows or 0) > remembered.rows.rows else remembered


def _add(one: MeasuredRows, other: MeasuredRows) -> MeasuredRows:
    if 0 in (one.rows, other.rows):
        return other if one.rows == 0 else one
    if one.rows is None or other.rows is None:
        known = one.rows or other.rows
        return words.NOT_KNOWN if known is None else MeasuredRows(known, Bound.AT_LEAST)
    return MeasuredRows(one.rows + other.rows, joint_bound((one.bound, other.bound)))
