"""Offsets that only their own source understands: shown verbatim, compared for equality, never interpreted. Pure."""

from recovery.errors import Refused
from recovery.sources.base import Distance, PartChange, PositionPart, Precision, StartCandidate, StartChoice
from recovery.sources.comparing import NOTHING_READ, ZERO, by_equality, compare_parts, require_one_wish

CAN = ("by_hand",)
SHOWN = 200  # characters of an offset in a label


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """One part, whose value is the line itself."""
    return (PositionPart("source", offset_json, label_position(offset_json)),)


def label_position(offset_json: str | None) -> str:
    """The line unchanged, its end cut where it is long."""
    if offset_json is None:
        return NOTHING_READ
    said = offset_json if offset_json.strip() else f"an offset of {len(offset_json)} blank characters"
    return said if len(said) <= SHOWN else f"{said[:SHOWN]}…"


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    """Equal to the byte, or unclear."""
    return compare_parts(list_parts(before), list_parts(after), by_equality)


def measure_distance(start: str | None, end: str | None) -> Distance:
    """Zero between equal lines; else not known here."""
    return ZERO if start == end else Distance()


def by_hand(wanted: StartChoice, committed: str | None, of: str) -> StartCandidate:
    """The only wish that such a source can answer: a line of its own, taken as it is."""
    require_one_wish(wanted, of=of, can=CAN)
    line = wanted.by_hand
    if not line or "\n" in line or "\r" in line or line == "-":
        raise Refused("An offset by hand is one line of text, as the source wrote it.")
    same = line == committed
    return StartCandidate(
        offset_json=line,
        label=label_position(line),
        precision=Precision.EXACT if same else Precision.UNKNOWN,
        lost=ZERO if same else Distance(),
        reread=ZERO if same else Distance(),
        changes=compare_positions(committed, line),
    )
