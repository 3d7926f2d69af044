"""Regular expressions that other people wrote, matched in time proportional to the text.

Python's own engine tries every way, which takes for ever on `(a+)+b` or on a name pattern of many stars. RE2, which
Arrow brings along, tries all ways at once. It has no look-around and no back-references; what needs them is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Linear:
    """An expression in RE2's syntax, which is Python's and Java's for what names of files and topics need.

    Raises ValueError for one that RE2 does not know, or that is too large for it.
    """

    expression: str

    def __post_init__(self) -> None:
        self.matches([""])

    def matches(self, texts: Sequence[str]) -> list[bool]:
        """Of each text: does the expression fit the whole of it? One that is no UTF-8 fits nothing."""
        import pyarrow as pa  # late: half a second, and few questions match names
        import pyarrow.compute as pc

        plain = [text if text.isascii() or _is_text(text) else None for text in texts]
        found = pc.match_substring_regex(pa.array(plain, pa.string()), pattern=rf"\A(?s:{self.expression})\z")
        return [answer is True for answer in found.to_pylist()]

    def fullmatch(self, text: str) -> bool:
        """Does it fit the whole text?"""
        return self.matches([text])[0]


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
