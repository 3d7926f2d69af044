"""Two texts as the rows of a diff, highlighted quietly (weight and grey, never a status colour). Pure."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from pygments.lexer import Lexer
from pygments.lexers import PythonLexer, SqlLexer, TextLexer
from pygments.token import Comment, Keyword, String, _TokenType, is_token_subtype


@dataclass(frozen=True)
class DiffRow:
    """One line. kind: "", add, del, hunk, hit (a removed line that is the cause), note (a sentence)."""

    kind: str
    old: int | None
    new: int | None
    sign: str
    text: SafeString

    @property
    def changed(self) -> bool:
        return self.kind in ("add", "del", "hit")


@dataclass(frozen=True)
class Diff:
    path: str
    rows: Sequence[DiffRow]
    added: int
    removed: int
    says: str = ""

    @property
    def changed(self) -> bool:
        return bool(self.added or self.removed)

    @property
    def label(self) -> str:
        return f"Lines of {self.path}"


def highlight_lines(text: str, path: str) -> list[SafeString]:
    """One safe string a line of `text`."""
    lexer: Lexer = TextLexer(stripnl=False, ensurenl=False)
    if path.endswith(".py"):
        lexer = PythonLexer(stripnl=False, ensurenl=False)
    elif path.endswith(".sql"):
        lexer = SqlLexer(stripnl=False, ensurenl=False)
    lines: list[list[SafeString]] = [[]]
    for kind, value in lexer.get_tokens(text):
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append(_token_span(kind, part))
    count = len(text.splitlines())
    return [mark_safe("".join(line)) for line in lines[:count]]  # noqa: S308  (each part is escaped)


def _token_span(kind: _TokenType, text: str) -> SafeString:
    families = {"tc": Comment, "ts": String, "tk": Keyword}
    name = next((n for n, family in families.items() if is_token_subtype(kind, family)), "")
    return format_html('<span class="{}">{}</span>', name, text) if name else format_html("{}", text)


def compare_texts(path: str, before: str, after: str, *, context: int = 3, says: str = "") -> Diff:
    """The rows of `before` -> `after`. Equal texts give all lines, so that the code can be read."""
    if before == after:
        return whole_file(path, after, says=says)
    old, new = highlight_lines(before, path), highlight_lines(after, path)
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    rows: list[DiffRow] = []
    for group in matcher.get_grouped_opcodes(context):
        first, last = group[0], group[-1]
        title = f"@@ lines {first[1] + 1} to {last[2]}, now {first[3] + 1} to {last[4]} @@"
        rows.append(DiffRow("hunk", None, None, "", format_html("{}", title)))
        for tag, i1, i2, j1, j2 in group:
            rows += _opcode_rows(tag, (i1, i2), (j1, j2), old, new)
    added, removed = sum(r.kind == "add" for r in rows), sum(r.kind == "del" for r in rows)
    return Diff(path, rows, added, removed, says or summarise_diff(added, removed))


def _opcode_rows(
    tag: str, before: tuple[int, int], after: tuple[int, int], old: list[SafeString], new: list[SafeString]
) -> Iterable[DiffRow]:
    if tag == "equal":
        return [
            DiffRow("", i + 1, j + 1, "", new[j]) for i, j in zip(range(*before), range(*after), strict=True)
        ]
    gone = [DiffRow("del", i + 1, None, "−", old[i]) for i in range(*before)]
    came = [DiffRow("add", None, j + 1, "+", new[j]) for j in range(*after)]
    return [*gone, *came]


def whole_file(path: str, text: str, *, says: str = "") -> Diff:
    """A file as it is, every line."""
    lines = highlight_lines(text, path)
    rows = [DiffRow("", n, n, "", line) for n, line in enumerate(lines, start=1)]
    return Diff(path, rows, 0, 0, says or f"{len(rows)} lines, unchanged")


def summarise_diff(added: int, removed: int) -> str:
    """`1 line removed, 2 lines added`."""
    parts = [
        f"{n} line{'' if n == 1 else 's'} {word}" for n, word in ((removed, "removed"), (added, "added")) if n
    ]
    return ", ".join(parts) or "unchanged"


def compare_all(before: Mapping[str, str], after: Mapping[str, str]) -> list[Diff]:
    """Every path of either side, changed ones first."""
    diffs = [compare_texts(p, before.get(p, ""), after.get(p, "")) for p in sorted({*before, *after})]
    return sorted(diffs, key=lambda d: not d.changed)


def point_at(diff: Diff, before: str, causes: Sequence[str], note: str) -> Diff:
    """Mark removed lines that name one of `causes` (`dropDuplicates`), with a sentence under the first."""
    lines = before.splitlines()
    rows: list[DiffRow] = []
    said = False
    for row in diff.rows:
        is_hit = row.kind == "del" and row.old is not None and any(c in lines[row.old - 1] for c in causes)
        rows.append(replace(row, kind="hit", sign="▸") if is_hit else row)
        if is_hit and not said:
            rows.append(DiffRow("note", None, None, "", format_html("{}", note)))
            said = True
    return replace(diff, rows=rows)
