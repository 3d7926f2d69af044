"""A position as people and programs write it: `earliest`, `latest`, `time=…`, `version=…`, `file=…`, `json=…`. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from recovery.errors import WrongUse
from recovery.sources.base import Wanted

NAMES = {
    "at_ms": "time",
    "version": "version",
    "file": "file",
    "by_hand": "json",
    "earliest": "earliest",
    "latest": "latest",
}  # field of `Wanted` -> how people write it
WORDS = {
    "time": "time",
    "version": "version",
    "file": "path of the file",
    "json": "offset",
}  # what stands behind `=`, for people
FORMS = "earliest, latest, time=2026-11-22T03:00:00Z, version=12, file=<path>, json=<the source's own offset>"


def parse(text: str) -> Wanted:
    """The wish that a text says. Raises WrongUse, whose sentence names the forms."""
    name, separator, value = text.strip().partition("=")
    if not separator and name in ("earliest", "latest"):
        return Wanted(earliest=name == "earliest", latest=name == "latest")
    if value and name == "time":
        return Wanted(at_ms=_moment(value))
    if value and name == "version" and value.isascii() and value.isdigit() and len(value) < 19:
        return Wanted(version=int(value))
    if value and name == "file":
        return Wanted(file=value)
    if value and name == "json":
        return Wanted(by_hand=value)
    raise WrongUse(f"{text!r} names no position. Write one of: {FORMS}.")


def _moment(text: str) -> int:
    """Milliseconds since the epoch of an ISO 8601 time, which must name its zone: no zone is guessed."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise WrongUse(f"{text!r} is no time. Write it as 2026-11-22T03:00:00Z.") from error
    if found.tzinfo is None:
        raise WrongUse(f"{text!r} names no zone. Write it as {text}Z for UTC, or with +02:00.")
    return round(found.timestamp() * 1000)


def text(wanted: Wanted) -> str:
    """How people write a wish: what `parse` takes."""
    ((name, value),) = as_dict(wanted).items()
    if name == "at_ms":
        at = datetime.fromtimestamp(value / 1000, UTC)
        return f"time={at.isoformat(timespec='milliseconds' if value % 1000 else 'seconds').replace('+00:00', 'Z')}"
    return NAMES[name] if value is True else f"{NAMES[name]}={value}"


def as_dict(wanted: Wanted) -> dict[str, Any]:
    """Plain JSON: the one field that is set."""
    return {f.name: value for f in fields(wanted) if (value := getattr(wanted, f.name)) not in (None, False)}


def of(body: Mapping[str, Any]) -> Wanted:
    """Back from `as_dict`. Raises WrongUse for what it never wrote."""
    try:
        found = Wanted(**body)
    except TypeError as error:
        raise WrongUse(f"This names no position. Write one of: {FORMS}.") from error
    if len(as_dict(found)) != 1:
        raise WrongUse(f"Name one position for each source: {FORMS}.")
    return found


def by_source(given: Sequence[str]) -> dict[str, Wanted | None]:
    """`0=time=…`, `1=latest`, `all=earliest`, `0=committed` by source; None: as committed. Raises WrongUse."""
    found: dict[str, Wanted | None] = {}
    for one in given:
        source, separator, wish = one.partition("=")
        source = source.strip()
        if not separator or not source:
            raise WrongUse(f"{one!r} names no source. Write it as 0={one}, or all={one}.")
        if source in found:
            raise WrongUse(f"Source {source} is given two positions. Name one.")
        found[source] = None if wish.strip() == "committed" else parse(wish)
    return found


def for_all(wanted: Wanted, shown: Sequence[Mapping[str, Any]]) -> dict[str, Wanted]:
    """One wish for every source, as `showing.as_dict` gives them. Raises WrongUse where one of them cannot take it:
    a source that stays behind without a word would be found out too late."""
    form = text(wanted).partition("=")[0]
    if cannot := [one["source"] for one in shown if form not in one["can"]]:
        raise WrongUse(
            f"Source {', '.join(cannot)} cannot start at {WORDS.get(form, 'the ' + form)}. Set the others one by one."
        )
    return {one["source"]: wanted for one in shown}
