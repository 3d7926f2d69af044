"""Writes the audit log for people outside: CSV for spreadsheets, JSON for programs. Streams, row by row."""

import csv
import json
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

from django.db.models import QuerySet

from recovery.audit import chain, tags
from recovery.models import AuditEntry

COLUMNS: Final = (*chain.FIELDS, "hash")
FORMATS: Final = ("csv", "json")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_BLANK: Final = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Letters and marks that show nothing."""


class _Line:
    """What csv writes to: gives each line back instead of keeping it."""

    def write(self, line: str) -> str:
        return line


def entry_columns(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry's columns as plain JSON, with the stable code of what happened."""
    at = entry["at"].isoformat(timespec="microseconds")
    return {**entry, "at": at, "code": tags.code_of_action(entry["action"], entry["outcome"])}


def csv_cell(value: Any) -> str:
    """One CSV cell. Text that a spreadsheet would run as a formula is led by an apostrophe, in any width and behind
    whatever shows nothing."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return json.dumps(value, sort_keys=True)
    seen = next((c for c in value if not _is_invisible(c)), "")
    is_formula = value.lstrip(" ").startswith(_FORMULA) or unicodedata.normalize("NFKC", seen).startswith(
        _FORMULA
    )
    return f"'{value}" if is_formula else value


def _is_invisible(char: str) -> bool:
    """Spaces, controls, formats (zero widths, byte order marks, directions), variation selectors, fillers."""
    is_selector = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return unicodedata.category(char) in ("Cc", "Cf", "Zs", "Zl", "Zp") or is_selector or char in _BLANK


def export_lines(entries: QuerySet[AuditEntry], fmt: str) -> Iterator[str]:
    """The export as text, an entry at a time: `csv` with a header, or one JSON list."""
    rows = entries.values(*COLUMNS).iterator(chunk_size=500)
    return _csv_lines(rows) if fmt == "csv" else _json_lines(rows)


def _csv_lines(entries: Iterator[dict[str, Any]]) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield str(writer.writerow([*COLUMNS, "code", "words"]))
    for entry in entries:
        cells = entry_columns(entry)
        words = tags.ACTIONS.get(entry["action"], "")
        yield str(writer.writerow([*(csv_cell(cells[name]) for name in (*COLUMNS, "code")), words]))


def _json_lines(entries: Iterator[dict[str, Any]]) -> Iterator[str]:
    yield "["
    lead = "\n"
    for entry in entries:
        yield lead + json.dumps(entry_columns(entry), sort_keys=True)
        lead = ",\n"
    yield "\n]\n"
