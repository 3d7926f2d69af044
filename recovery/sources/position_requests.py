"""A position as people and programs write it: `earliest`, `latest`, `time=…`, `version=…`, `file=…`, `json=…`. Pure.

Of a source whose parts have positions of their own (the partitions of Kafka) each part can be given one: `orders-3` at
`1200` (the next offset to read), `earliest`, `latest`, `time=…`, or `committed`. What is kept is the wish, never what
becomes of it: that is found out again wherever it is needed.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from recovery.contracts import codec
from recovery.contracts.positions import ShownSource
from recovery.errors import WrongUse
from recovery.numbers import whole
from recovery.sources.base import StartChoice

NAMES = {
    "at_ms": "time",
    "version": "version",
    "file": "file",
    "by_hand": "json",
    "earliest": "earliest",
    "latest": "latest",
    "parts": "parts",
}  # field of `StartChoice` -> how people write it
WORDS = {
    "time": "time",
    "version": "version",
    "file": "path of the file",
    "json": "offset",
}  # what is behind `=`, for people
FORMS = "earliest, latest, time=2026-11-22T03:00:00Z, version=12, file=<path>, json=<the source's own offset>"
OF_A_PART = "the next offset to read (1200), earliest, latest, time=2026-11-22T03:00:00Z, or committed"
COMMITTED = "committed"


def parse_wish(text: str) -> StartChoice:
    """The wish that a text says. Raises WrongUse, whose sentence names the forms."""
    name, separator, value = text.strip().partition("=")
    if not separator and name in ("earliest", "latest"):
        return StartChoice(earliest=name == "earliest", latest=name == "latest")
    if value and name == "time":
        return StartChoice(at_ms=_parse_time(value))
    if name == "version" and (number := whole(value)) is not None:
        return StartChoice(version=number)
    if value and name == "file":
        return StartChoice(file=value)
    if value and name == "json":
        return StartChoice(by_hand=value)
    raise WrongUse(f"{text!r} names no position. Write one of: {FORMS}.", code="no_position")


def _parse_time(text: str) -> int:
    """Milliseconds since the epoch of an ISO 8601 time, which must name its zone: no zone is guessed."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise WrongUse(f"{text!r} is no time. Write it as 2026-11-22T03:00:00Z.", code="no_time") from error
    if moment.tzinfo is None:
        raise WrongUse(
            f"{text!r} names no zone. Give a time with its zone: {moment.isoformat()}Z.", code="no_zone"
        )
    at_ms = round(moment.timestamp() * 1000)
    try:
        _format_request("at_ms", at_ms)
    except (ValueError, OverflowError) as error:
        raise WrongUse(
            f"{text!r} is outside of the years 1 to 9999 of UTC.", code="time_out_of_range"
        ) from error
    return at_ms


def of_part(name: str, text: str) -> StartChoice | None:
    """The wish for one part; None: as committed. Raises WrongUse, whose sentence names the forms."""
    value = text.strip()
    if value == COMMITTED:
        return None
    if whole(value) is not None:
        return StartChoice(by_hand=value)
    if value in ("earliest", "latest") or value.startswith("time="):
        return parse_wish(value)
    raise WrongUse(f"{value!r} is no position for {name}. Write {OF_A_PART}.", code="no_position")


def with_parts(wanted: StartChoice | None, edits: Mapping[str, str]) -> StartChoice | None:
    """A wish (None: as committed) with some parts set otherwise; None where nothing but the committed is left."""
    parts = {
        **(wanted.parts if wanted else {}),
        **{name: of_part(name, part_text) for name, part_text in edits.items()},
    }
    if wanted is None or not _list_source_texts(wanted):
        parts = {name: wish for name, wish in parts.items() if wish is not None}
        return StartChoice(parts=parts) if parts else None
    return wanted.model_copy(update={"parts": parts})


def from_lines(text: str) -> dict[str, str]:
    """`orders-3 = 1200`, a part a line, as `{part: wish}`. Raises WrongUse for a line without `=`."""
    parts = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, separator, value = line.partition("=")
        if not separator or not name.strip() or not value.strip():
            raise WrongUse(f"{line!r} sets no part. Write one a line, as orders-3 = 1200.", code="no_part")
        parts[name.strip()] = value.strip()
    return parts


def wish_text(wanted: StartChoice) -> str:
    """A wish for people: as `parse_wish` takes it, and its parts, `latest, orders-3=1200`."""
    return ", ".join([*_list_source_texts(wanted), *_list_part_texts(wanted)])


def wish_arguments(key: str, wanted: StartChoice) -> list[str]:
    """A wish for source `key` as `by_source` takes it: `0=latest`, `0/orders-3=1200`."""
    return [
        *(f"{key}={wish}" for wish in _list_source_texts(wanted)),
        *(f"{key}/{wish}" for wish in _list_part_texts(wanted)),
    ]


def text_of_part(wish: StartChoice | None) -> str:
    """What `of_part` takes."""
    if wish is None:
        return COMMITTED
    return wish.by_hand if wish.by_hand is not None else wish_text(wish)


def _list_part_texts(wanted: StartChoice) -> list[str]:
    return [f"{name}={text_of_part(wish)}" for name, wish in wanted.parts.items()]


def _list_source_texts(wanted: StartChoice) -> list[str]:
    """What it says of the source itself: one text, or none."""
    fields = {name: value for name, value in as_dict(wanted).items() if name != "parts"}
    return [_format_request(name, value) for name, value in fields.items()]


def _format_request(name: str, value: Any) -> str:
    if name == "at_ms":
        at = datetime.fromtimestamp(value / 1000, UTC)
        return f"time={at.isoformat(timespec='milliseconds' if value % 1000 else 'seconds').replace('+00:00', 'Z')}"
    return NAMES[name] if value is True else f"{NAMES[name]}={value}"


def as_dict(wanted: StartChoice) -> dict[str, Any]:
    """Plain JSON: the one field that is set, and `parts` where there are any."""
    return codec.to_json(wanted)


def as_dicts(positions: Mapping[str, StartChoice | None]) -> dict[str, dict[str, object]]:
    """Wishes by source as they are saved: only sources that start elsewhere than where they were committed."""
    return {key: as_dict(wanted) for key, wanted in sorted(positions.items()) if wanted is not None}


def describe_wishes(positions: Mapping[str, StartChoice | None]) -> str:
    """Wishes by source for people."""
    each = [
        f"source {key} at {wish_text(wanted)[:200]}"
        for key, wanted in sorted(positions.items(), key=itemgetter(0))
        if wanted is not None
    ]
    return "; ".join(each) or "every source where it was committed"


def by_source(given: Sequence[str]) -> dict[str, StartChoice | None]:
    """`0=time=…`, `1=latest`, `all=earliest`, `0=committed`, `0/orders-3=1200` by source; None: as committed.

    Parts that are not named start as their source does, and as committed where only parts of it are named. Raises
    WrongUse.
    """
    wishes: dict[str, StartChoice | None] = {}
    parts: dict[str, dict[str, str]] = {}
    for text in given:
        named, separator, wish = (part.strip() for part in text.partition("="))
        source, slash, part = (word.strip() for word in named.partition("/"))
        if not separator or not source or (slash and not part):
            raise WrongUse(
                f"{text!r} names no source. Write it as 0={text}, or all={text}; a part of one as 0/orders-3=1200.",
                code="no_source_named",
            )
        if source in wishes if not slash else part in parts.get(source, {}):
            raise WrongUse(
                f"{'Part' if slash else 'Source'} {part or source} is given two positions. Name one.",
                code="two_positions",
            )
        if slash:
            parts.setdefault(source, {})[part] = wish
        else:
            wishes[source] = None if wish == COMMITTED else parse_wish(wish)
    if unclear := [s for s in parts if s == "all" or ("all" in wishes and s not in wishes)]:
        raise WrongUse(
            f"Where does the rest of source {', '.join(unclear)} start? Parts go with a source by its number, and "
            "beside all= that source needs a start of its own, such as 0=committed.",
            code="rest_unclear",
        )
    return {**wishes, **{source: with_parts(wishes.get(source), edits) for source, edits in parts.items()}}


def for_all(wanted: StartChoice, shown: Sequence[ShownSource]) -> dict[str, StartChoice]:
    """One wish for every source. Raises WrongUse where one of them cannot take it:
    a source that stays behind without a word would be found out too late."""
    form = wish_text(wanted).partition("=")[0]
    if cannot := [source.source for source in shown if form not in source.can]:
        raise WrongUse(
            f"Source {', '.join(cannot)} cannot start at {WORDS.get(form, 'the ' + form)}. Set the others one by one.",
            code="cannot_start_there",
        )
    return {source.source: wanted for source in shown}
