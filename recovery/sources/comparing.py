"""What all kinds of source say alike: how parts moved, what a candidate costs, which wish was meant. Pure."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from recovery.contracts.amounts import Amount
from recovery.contracts.readers import ReaderOptions
from recovery.errors import Refused
from recovery.sources.base import Distance, EmptyStart, PartChange, PartMove, PositionPart, StartChoice

NOTHING_READ = "nothing read yet"
ZERO = Distance(rows=Amount(value=0), files=Amount(value=0), bytes=Amount(value=0), seconds=Amount(value=0))


def compare_parts(
    before: Sequence[PositionPart],
    after: Sequence[PositionPart],
    order: Callable[[str | None, str | None], PartMove],
) -> tuple[PartChange, ...]:
    """Every part of either side, those of `before` first. `order` judges two values of one part that differ."""
    old, new = ({p.name: p for p in parts} for parts in (before, after))
    return tuple(
        PartChange(name, old.get(name), new.get(name), _compare_parts(old.get(name), new.get(name), order))
        for name in dict.fromkeys((*old, *new))
    )


def _compare_parts(
    before: PositionPart | None,
    after: PositionPart | None,
    order: Callable[[str | None, str | None], PartMove],
) -> PartMove:
    if before is None:
        return PartMove.NEW
    if after is None:
        return PartMove.GONE
    return PartMove.SAME if before.value == after.value else order(before.value, after.value)


def by_number(before: str | None, after: str | None) -> PartMove:
    """Values that are whole numbers; None comes before all of them."""
    old, new = (-(2**63) if v is None else int(v) for v in (before, after))
    return PartMove.SAME if old == new else PartMove.FORWARD if old < new else PartMove.BACK


def by_equality(before: str | None, after: str | None) -> PartMove:
    """Values that only their source can put in order: equal, or not known here."""
    return PartMove.SAME if before == after else PartMove.UNCLEAR


def find_empty_start(options: ReaderOptions, facts: object) -> EmptyStart:
    """`SourceKind.find_empty_start` of a kind whose empty start is not known here."""
    return EmptyStart(None, None, "Where a stream with an empty checkpoint would begin is not known here.")


def option_of(options: ReaderOptions, name: str) -> str | None:
    """A reader's option by name, as Spark reads it: the case does not matter."""
    return next((str(v) for k, v in options.items() if k.lower() == name.lower()), None)


def instead_of(names: Sequence[str]) -> str:
    """For `StartOption.place`: which options have to be taken out of the code first, since they would win or clash."""
    return f"instead of {' and '.join(names)}, to be taken out of the code; " if names else ""


def require_one_wish(wanted: StartChoice, *, of: str, can: Sequence[str]) -> str:
    """Which field of `wanted` is set; Refused unless it is exactly one, and one that this source can answer.

    `parts` may stand beside another field, or alone: then it is the answer.
    """
    fields = {
        "at_ms": wanted.at_ms is not None,
        "version": wanted.version is not None,
        "file": wanted.file is not None,
        "by_hand": wanted.by_hand is not None,
        "earliest": wanted.earliest,
        "latest": wanted.latest,
    }
    if wanted.parts and "parts" not in can:
        raise Refused(f"{_capitalize_first(of)} has no parts that can be set one by one.", code="no_parts")
    named = [name for name, is_set in fields.items() if is_set] or ["parts"] * bool(wanted.parts)
    words = ", ".join(WISHES[c] for c in can)
    if len(named) != 1:
        raise Refused(f"Name exactly one position of {of}: {words}.", code="not_one_wish")
    if named[0] not in can:
        raise Refused(
            f"{_capitalize_first(of)} cannot be positioned by {WISHES[named[0]]}. It takes {words}.",
            code="not_by_this",
        )
    return named[0]


WISHES = {
    "at_ms": "a time",
    "version": "a version",
    "file": "a file",
    "by_hand": "an offset by hand",
    "earliest": "the earliest",
    "latest": "the latest",
    "parts": "single parts",
}


def nothing_in(distance: Distance) -> bool:
    """Whether it is known that nothing is between."""
    amounts = [a for a in (distance.rows, distance.files) if a is not None]
    return bool(amounts) and all(a.exact and not a.value for a in amounts)


def format_time(at_ms: int) -> str:
    """Epoch milliseconds as an absolute time in UTC, to the millisecond; what is no date stays a number."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def count_noun(number: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _capitalize_first(words: str) -> str:
    return words[:1].upper() + words[1:]
