"""Names that people give: what may be in one, and how one that should never have been is shown.

A name with a control character moves the cursor of a terminal, forges a line of a log, or reads other than it is
(U+202E turns text around). So a name is of characters that can be seen, on one line; what was stored before, or comes
from another workspace, is shown with such characters written out.
"""


def is_plain(name: str) -> bool:
    """Whether every character can be seen, and none ends the line (Unicode's categories C and Z, but for the space)."""
    return name.isprintable()


def shown(name: str) -> str:
    r"""The name with each character that cannot be seen written out: `\x1b`, `\n`, `\u202e`."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in name)
