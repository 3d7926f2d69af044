"""Fields of what is sent, by their kind. An unknown field is refused: a misspelt one would be left out."""

from collections.abc import Collection, Mapping
from typing import Any

from recovery.errors import WrongUse


def allow_only(body: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise WrongUse for a field that is not among these."""
    if strange := sorted(set(body) - set(known)):
        raise WrongUse(
            f"There is no field {', '.join(map(repr, strange))} here; there is {', '.join(sorted(known))}."
        )


def read_text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A string. Raises WrongUse where it is missing and has no default."""
    value = body.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise WrongUse(f"{name} has to be a string.")
    return value


def read_texts(body: Mapping[str, Any], name: str) -> list[str]:
    """A list of strings; empty where it is missing."""
    values = body.get(name, [])
    if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
        raise WrongUse(f"{name} has to be a list of strings.")
    return values


def read_flag(body: Mapping[str, Any], name: str) -> bool:
    """true or false; false where it is missing."""
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise WrongUse(f"{name} has to be true or false.")
    return value


def read_files(body: Mapping[str, Any], name: str) -> dict[str, str]:
    """{workspace path: whole text}; empty where it is missing."""
    files = body.get(name, {})
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise WrongUse(f"{name} has to be an object: the whole new text by workspace path.")
    return files
