"""Applies a unified diff to source texts, strictly: context must match, nothing is fuzzed."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from recovery.errors import WrongUse

HUNK = re.compile(r"^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


@dataclass
class _Hunk:
    """`start`: lines of the old text before it. `lines`: each with its first character, " ", "-" or "+"."""

    start: int
    lines: list[str] = field(default_factory=list)


def apply_diff(diff: str, files: Mapping[str, str]) -> dict[str, str]:
    """New text by path for every file that the diff names.

    A file is found by its path, with or without `a/`, `b/`, or by a unique ending. Raises WrongUse
    with file and line where the diff does not apply.
    """
    changed: dict[str, str] = {}
    for target, hunks in _parts(diff):
        path = _find(target, files)
        changed[path] = _apply(path, files[path], hunks)
    if not changed:
        raise WrongUse("The diff names no file (no line begins with +++). Give a unified diff.")
    return changed


def _parts(diff: str) -> Iterator[tuple[str, list[_Hunk]]]:
    """Each file's name with its hunks.

    A hunk's own numbers say where it ends: `--- x` within one is the removed line `-- x`, an SQL comment.
    """
    target, hunks, old, new = "", list[_Hunk](), 0, 0
    for number, line in enumerate(_lines(diff), start=1):
        if line.startswith("\\") and hunks and hunks[-1].lines:  # "\ No newline at end of file"
            hunks[-1].lines[-1] = hunks[-1].lines[-1].rstrip("\r\n")
        elif old > 0 or new > 0:
            told = line if line.strip("\r\n") else f" {line}"  # mail programs cut the blank of an empty line
            old, new = old - (told[0] in " -"), new - (told[0] in " +")
            if told[0] not in " +-" or old < 0 or new < 0:
                raise WrongUse(f"Line {number} of the diff is not part of its hunk. Make the diff again.")
            hunks[-1].lines.append(told)
        elif found := HUNK.match(line):
            old, new = (1 if found[n] is None else int(found[n]) for n in (2, 4))
            hunks.append(_Hunk(max(int(found[1]) - (1 if old else 0), 0)))
        elif line.startswith("@@"):
            raise WrongUse(f"Line {number} of the diff begins no hunk that can be read. Make the diff again.")
        elif line.startswith("+++ "):
            if target:
                yield target, hunks
            target, hunks = line[4:].split("\t")[0].strip(), []
    if old > 0 or new > 0:
        raise WrongUse(
            "The diff is cut short: its last hunk has fewer lines than its header counts. Make it again."
        )
    if target:
        yield target, hunks


def _lines(text: str) -> list[str]:
    """As diff and git count them: only a line feed ends a line, no form feed and no U+2028."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _find(name: str, files: Mapping[str, str]) -> str:
    plain = re.sub(r"^[ab]/", "", name)
    for wanted in (name, plain, "/" + plain):
        if wanted in files:
            return wanted
    same = [path for path in files if path.endswith("/" + plain.lstrip("/"))]
    if len(same) == 1:
        return same[0]
    raise WrongUse(
        f"The diff names {name}, which is {'ambiguous' if same else 'no source file of this pipeline'}."
    )


def _apply(path: str, text: str, hunks: list[_Hunk]) -> str:
    lines, out, at = _lines(text), list[str](), 0
    for hunk in hunks:
        if hunk.start < at:
            raise WrongUse(f"The hunks of the diff for {path} are not in order. Make the diff again.")
        out += lines[at : hunk.start]
        at = hunk.start
        for line in hunk.lines:
            if line[0] == "+":
                out.append(line[1:])
                continue
            if at >= len(lines) or lines[at].rstrip("\r\n") != line[1:].rstrip("\r\n"):
                raise WrongUse(
                    f"The diff does not apply to {path} at line {at + 1}. Make it again from today's file."
                )
            if line[0] == " ":
                out.append(lines[at])
            at += 1
    return "".join(out + lines[at:])
