"""Edited source in the line ends of its own file. Pure.

Browsers send CRLF whatever the file had, a saved patch has LF, and a diff has those of the editor that wrote it. So a
file is changed only where its lines are, and a line that no one touched stays as it is to the byte.
"""

from collections.abc import Mapping
from difflib import SequenceMatcher


def use_unix_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


def laid_over(now: Mapping[str, str], patch: Mapping[str, str]) -> dict[str, str]:
    """The whole source with `patch` in it; what differs in line ends alone is as it was."""
    return {
        **now,
        **{path: _as_in(now.get(path, ""), use_unix_line_ends(text)) for path, text in patch.items()},
    }


def _as_in(now: str, text: str) -> str:
    """`text` (with LF) as `now` ends its lines; new lines as most lines of `now`."""
    before = use_unix_line_ends(now)
    if text == before:
        return now
    ends, crlf = now.count("\n"), now.count("\r\n")
    if crlf in (0, ends):
        return text.replace("\n", "\r\n") if crlf else text
    return _mixed(now.split("\n"), before.split("\n"), text.split("\n"), "\r" if 2 * crlf > ends else "")


def _mixed(now: list[str], before: list[str], after: list[str], end: str) -> str:
    lines: list[str] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        lines += now[i1:i2] if tag == "equal" else [line + end for line in after[j1:j2]]
    return "\n".join([*lines[:-1], after[-1]])  # the last line has no end
