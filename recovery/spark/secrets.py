"""What a reader's options hold stays out of every sentence: they may be passwords. Pure."""

import re
from collections.abc import Iterable, Mapping

# Options that say what is read, not how to get in; a sentence may name their values.
SHOWN = {
    "path",
    "topic",
    "subscribe",
    "subscribepattern",
    "assign",
    "startingoffsets",
    "endingoffsets",
    "basepath",
}
SHORTEST = 4  # characters; a shorter value is a flag or a number, unless the option's name says otherwise
_SECRET = re.compile(
    r"secret|password|passphrase|token|credential|access.?key|account.?key|jaas|sas", re.IGNORECASE
)
_INSIDE = re.compile(
    r"""=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;"']+))"""
)  # `name="value"` of a JAAS line
HIDDEN = "***"


def values(options: Mapping[str, str]) -> set[str]:
    """Texts that no sentence may hold: the values of options, and what is quoted inside those that are secret."""
    secrets = set()
    for name, value in options.items():
        secret = bool(_SECRET.search(name))
        if secret:
            secrets |= {part for parts in _INSIDE.findall(value) for part in parts if part}
        if secret or (name.lower() not in SHOWN and len(value) >= SHORTEST):
            secrets.add(value)
    return {text for text in secrets if text.lower() not in ("", "true", "false", "required", "optional")}


def is_secret(option: str) -> bool:
    """Is this the name of an option whose value is one, whatever it is?"""
    return bool(_SECRET.search(option))


def withheld(text: str, hidden: Iterable[str]) -> str:
    """The text with each of the values taken out, the longest first."""
    for value in sorted(hidden, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", HIDDEN, text)
        first = value.splitlines()[0] if value.strip() else ""
        if len(first) >= SHORTEST and first != value:  # a sentence ends with its first line
            text = text.replace(first, HIDDEN)
    return text
