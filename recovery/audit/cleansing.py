"""Takes secrets out of what is about to be written down for ever. Pure.

No one means to put one here; an error text, a settings change or a diff may carry one all the same. What looks
like a secret by its name or by its shape is withheld before anything is stored or hashed.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

WITHHELD: Final = "(withheld)"

_NAMES: Final = re.compile(
    r"(pass(word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|"
    r"authori[sz]ation|credentials?|cookie|session[_-]?key|client[_-]?secret|sas)$",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"(file|env):")  # says where a secret is kept, not what it is

# People and APIs send these texts, and they are read while a recovery is locked: each shape takes time in proportion to
# the text. So none begins with a repeat, and none can begin again inside of what it has just read in vain.
_SHAPES: Final = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), WITHHELD),
    (re.compile(r"\brp_[A-Za-z0-9_-]{20,}"), WITHHELD),  # our own access tokens
    (re.compile(r"\bdapi[0-9a-f]{32}(-\d+)?"), WITHHELD),  # Databricks personal access tokens
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"), WITHHELD),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}"), WITHHELD),
    (re.compile(r"\beyJ(?:(?!-eyJ)[A-Za-z0-9_-]){8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*"), WITHHELD),  # a JWT
    (re.compile(r"(\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/-]{8,}=*", re.IGNORECASE), rf"\1{WITHHELD}"),
    (re.compile(r"([?&;]sig=)[^&\s\"']+"), rf"\1{WITHHELD}"),  # shared access signatures
    (re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)"), rf"\1{WITHHELD}"),  # scheme://user:password@host
    (
        re.compile(
            r"(?P<name>password|passwd|secret|token|api[_-]?key|access[_-]?key|account[_-]?key)"
            r"(?P<mid>[\"']?\s*[=:]\s*[\"']?)(?!file:|env:|\(withheld\))(?P<value>[^\s\"'&;,)]{6,})",
            re.IGNORECASE,
        ),
        rf"\g<name>\g<mid>{WITHHELD}",
    ),
)  # fmt: skip


def cleanse_text(text: str) -> str:
    """`text` with everything withheld that has the shape of a secret."""
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text


def cleanse_and_shorten(text: str, longest: int) -> str:
    """As `text`, of no more than the beginning that `longest` characters can be cut from.

    The rest is not read. What it is cut off from, up to the blank before, is left out: half a secret has no shape.
    """
    if len(text) <= 2 * longest:
        return cleanse_text(text)
    beginning, *cut = text[: 2 * longest].rsplit(maxsplit=1)
    return f"{cleanse_text(beginning) if cut else ''} …".lstrip()


def cleanse_value(value: Any) -> Any:
    """A JSON-like value, cleansed inside. A number or a truth value is never a secret."""
    if isinstance(value, str):
        return cleanse_text(value)
    if isinstance(value, Mapping):
        return {k: _cleanse_named(str(k), v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        kind = list if isinstance(value, tuple) else type(value)
        return kind(cleanse_value(v) for v in value)
    return value


def _cleanse_named(name: str, value: Any) -> Any:
    if isinstance(value, str) and value and _NAMES.search(name) and not _REFERENCE.match(value):
        return WITHHELD
    return cleanse_value(value)
