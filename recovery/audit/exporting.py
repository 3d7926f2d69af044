"""Writes the audit log for people outside: CSV for spreadsheets, JSON for programs. Streams, row by row."""

import csv
import json
from typing import Any, Final, TextIO

from django.db.models import QuerySet

from recovery.audit import chain, tags
from recovery.models import AuditEntry

COLUMNS: Final = (*chain.FIELDS, "hash")


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "at": entry["at"].isoformat(timespec="microseconds")}


def _cell(value: Any) -> str:
    """One CSV cell. Text that a spreadsheet would run as a formula is led by an apostrophe."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return json.dumps(value, sort_keys=True)
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def write_csv(entries: QuerySet[AuditEntry], stream: TextIO) -> int:
    """One line an entry below a header; `before` and `after` as JSON. Answers how many entries."""
    writer = csv.writer(stream)
    writer.writerow([*COLUMNS, "words"])
    count = 0
    for entry in entries.values(*COLUMNS).iterator(chunk_size=500):
        row = _row(entry)
        writer.writerow([*(_cell(row[name]) for name in COLUMNS), tags.words(row["action"])])
        count += 1
    return count


def write_json(entries: QuerySet[AuditEntry], stream: TextIO) -> int:
    """A JSON list of entries. Answers how many."""
    count = 0
    stream.write("[")
    for entry in entries.values(*COLUMNS).iterator(chunk_size=500):
        stream.write(",\n" if count else "\n")
        stream.write(json.dumps(_row(entry), sort_keys=True))
        count += 1
    stream.write("\n]\n")
    return count
