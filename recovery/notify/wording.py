"""From the facts of a message to its title and lines. Pure; every channel shows the same words."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from recovery.notify.events import EVENTS

Fact = str | int | float | bool | None

LABELS: Final[dict[str, str]] = {
    "decision": "Decision",
    "recovery": "Recovery",
    "flow": "Flow",
    "pipeline": "Pipeline",
    "environment": "Environment",
    "workspace": "Workspace",
    "strategy": "What it does",
    "forecast": "Forecast",
    "plan": "Plan",
    "approvals": "Approvals",
    "owner": "Owner",
    "was": "Owner before",
    "by": "By",
    "reason": "Reason",
    "condition": "Error",
    "cause": "Why",
    "doubt": "Doubt",
    "failing_since": "Failing since",
    "unread": "Unread input",
    "source": "Source",
    "position": "Position",
    "channel": "Channel",
    "queue": "Queue",
    "seconds": "Oldest task waits (s)",
    "tasks": "Tasks in the broker",
    "problem": "Problem",
    "expires_at": "Expires",
}
"""Facts with their words, in the order in which they are read; others follow under their own name."""

LONGEST: Final = 500
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_USER_IN_URL: Final = re.compile(r"(://)[^\s/@]+@")
_SECRET_SHAPE: Final = re.compile(r"\brp_[\w-]{8,}|\b(?:[Bb]earer|[Tt]oken[=:])\s*[\w.~+/=-]{8,}")


def plain_fact(value: Fact) -> Fact:
    """A fact as it may leave the house: one line, no control characters, at most LONGEST characters.

    A user in an address and what looks like a token are struck out: reasons quote other programs' errors.
    Raises TypeError for what is not a plain value.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str):
        raise TypeError(f"A fact is text, a number, true, false or null, not {type(value).__name__}.")
    text = _CONTROL.sub(" ", value.encode("utf-8", "replace").decode("utf-8")).strip()
    text = _SECRET_SHAPE.sub("…", _USER_IN_URL.sub(r"\1…@", text))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def message_title(event: str, facts: Mapping[str, Fact]) -> str:
    """The message in one line, at most 150 characters (Slack's header takes no more)."""
    known: defaultdict[str, str] = defaultdict(lambda: "unknown")
    known.update({name: event_words(value) for name, value in facts.items()})
    text = EVENTS[event].title.format_map(known)
    return text if len(text) <= 150 else text[:149] + "…"


def event_words(value: Fact) -> str:
    if value is None:
        return "unknown"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def fact_lines(facts: Mapping[str, Fact]) -> list[tuple[str, str]]:
    """(label, value) of every fact, in reading order."""
    names = [n for n in LABELS if n in facts] + [n for n in facts if n not in LABELS]
    return [(LABELS.get(n, n.replace("_", " ").capitalize()), event_words(facts[n])) for n in names]


def message_text(heading: str, facts: Mapping[str, Fact], url: str) -> str:
    """The whole message as plain text: title, facts, deep link."""
    rows = "\n".join(f"{label}: {value}" for label, value in fact_lines(facts))
    return f"{heading}\n\n{rows}\n\nOpen it: {url}\n" if rows else f"{heading}\n\nOpen it: {url}\n"
