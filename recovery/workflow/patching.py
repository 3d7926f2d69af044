"""Applies a unified diff to source texts, strictly: context must match, nothing is fuzzed."""

import re
from collections.abc import Mapping

from recovery.errors import WrongUse

HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def apply_diff(diff: str, files: Mapping[str, str]) -> dict[str, str]:
    """New text by path for every file that the diff names.

    A file is found by its path, with or without `a/`, `b/`, or by a unique ending. Raises WrongUse
    with file and line where the diff does not apply.
    """
    changed: dict[str, str] = {}
    target, hunks = "", list[str]()
    for line in [*diff.splitlines(keepends=True), "+++ "]:
        if line.startswith("--- ") or line.startswith("diff "):
            continue
        if line.startswith("+++ "):
            if target:
                path = _find(target, files)
                changed[path] = _apply(path, files[path], hunks)
            target, hunks = line[4:].split("\t")[0].strip(), []
        elif target:
            hunks.append(line)
    if not changed:
        raise WrongUse("The diff names no file (no line begins with +++). Give a unified diff.")
    return changed


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


def _apply(path: str, text: str, hunks: list[str]) -> str:
    lines, out, at = text.splitlines(keepends=True), list[str](), 0
    for line in hunks:
        if found := HUNK.match(line):
            start = max(int(found[1]) - (0 if found[2] == "0" else 1), 0)
            out += lines[at:start]
            at = start
        elif line.startswith("+"):
            out.append(line[1:])
        elif line.startswith((" ", "-", "\n")):
            wanted = line[1:] if line[0] in " -" else line
            if at >= len(lines) or lines[at].rstrip("\r\n") != wanted.rstrip("\r\n"):
                raise WrongUse(
                    f"The diff does not apply to {path} at line {at + 1}. Make it anew from today's file."
                )
            if line[0] != "-":
                out.append(lines[at])
            at += 1
    return "".join(out + lines[at:])
