"""Writes the error table as a page of the documentation: `python -m recovery.diagnosis.guide > docs/diagnosis.md`."""

import sys
from typing import Final

from recovery.diagnosis.row import AGAIN, DELETE, EMPTY, SEVERITIES, ErrorRow
from recovery.diagnosis.table import ROWS

#: warnings that most errors share, by the word that stands for them in an entry
SHARED: Final = {EMPTY: "empty reset", DELETE: "delete", AGAIN: "start again"}
HEAD: Final = f"""\
# What Spark's errors mean

Generated from `recovery/diagnosis/table.py` by `.venv/bin/python -m recovery.diagnosis.guide`; a test keeps both equal.

Reprise collects every condition (`[LIKE_THIS]` or `[LIKE.THIS]`) from an error and its chain of causes, leaves
out wrappers such as `STREAM_FAILED`, and keeps the innermost one that this table knows. Names in lower case are
ours, for errors that Spark gives no condition. An error that is not here is called unknown, and nothing is guessed.

Severity: {", ".join(f"{number} {words}" for number, words in SEVERITIES.items())}.

*Never* names the warnings that most errors share:

"""
WARNINGS: Final = "".join(f"- **{name}**: {text}\n" for text, name in SHARED.items())


def write_markdown() -> str:
    """The whole page."""
    families: dict[str, list[ErrorRow]] = {}
    for row in ROWS:
        families.setdefault(row.family, []).append(row)
    return (
        HEAD
        + WARNINGS
        + "".join(
            f"\n## {family.capitalize()}\n" + "".join(map(_format_row, rows))
            for family, rows in families.items()
        )
    )


def _format_row(row: ErrorRow) -> str:
    names = ", ".join(f"`{c}`" for c in row.conditions)
    texts = "; ".join(f"“{' … '.join(p.strip() for p in parts)}”" for parts in row.texts)
    shared = [name for text, name in SHARED.items() if text in row.dont]
    lines = [f"\n### {row.title}\n"]
    lines += [f"- Conditions: {names}"] if names else [f"- Name: `{row.code}`"]
    lines += [f"- Also known by the words: {texts}"] if texts else []
    lines += [
        f"- Damaged: {row.damaged}",
        f"- Needs a reset of the checkpoint: {row.reset}",
        f"- Severity: {row.severity}",
        *(f"- Do: {item.says}" for item in row.list_advice()),
        *([f"- Never: {', '.join(shared)}"] if shared else []),
        *(f"- {text}" for text in row.dont if text not in SHARED),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(write_markdown())
