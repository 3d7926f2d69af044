"""An instance that has a log already: its entries come through the migration as they were, and still verify."""

import hashlib
import json
import sqlite3
from contextlib import closing

import pytest

from tests.instances import Instances

COLUMNS = ("seq", "at", "actor", "role", "via", "request_id", "action", "outcome", "target_kind", "target",
           "recovery", "says", "before", "after", "prev_hash")  # fmt: skip
CHECK = """
append_entry(action="step.run", outcome="done", by=SYSTEM, says="new")
print(json.dumps(verify_chain()))
"""


def first_format(seq: int, prev_hash: str) -> dict[str, object]:
    """An entry as the first version wrote it, by its own rule."""
    fields = {**dict.fromkeys(COLUMNS, ""), "seq": seq, "at": f"2026-11-2{seq}T10:00:00.000000+00:00", "actor": "ada",
              "action": "step.run", "outcome": "done", "before": None, "after": {"n": [seq, None, "ü"]},
              "prev_hash": prev_hash}  # fmt: skip
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return {**fields, "hash": hashlib.sha256(text.encode()).hexdigest()}


def test_entries_of_the_first_version_are_unchanged_and_verify_after_the_migration(
    instances: Instances,
) -> None:
    here = instances.empty()
    here.manage("migrate", "recovery", "0002_audit_guard", "-v", "0")
    with closing(sqlite3.connect(here.file)) as database, database:
        prev = "0" * 64
        for seq in (1, 2, 3):
            entry = first_format(seq, prev)
            prev = str(entry["hash"])
            stored = {
                **entry,
                "at": str(entry["at"])[:19].replace("T", " "),
                "after": json.dumps(entry["after"]),
            }
            names = ", ".join(f'"{n}"' for n in stored)
            marks = ", ".join("?" * len(stored))
            statement = f"INSERT INTO recovery_auditentry ({names}) VALUES ({marks})"  # noqa: S608
            database.execute(statement, list(stored.values()))

    here.manage("migrate", "-v", "0")

    found = here.python(CHECK)
    assert (found["problems"], found["entries"]) == ([], 4)
    with closing(sqlite3.connect(here.file)) as database:
        formats = database.execute("SELECT format FROM recovery_auditentry ORDER BY seq").fetchall()
        assert formats == [(1,), (1,), (1,), (3,)]
        for statement in ("UPDATE recovery_auditentry SET says = 'x'", "DELETE FROM recovery_auditentry"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                database.execute(statement)


def test_the_way_back_leaves_the_guard_of_before(instances: Instances) -> None:
    here = instances.migrated()
    here.manage("migrate", "recovery", "0002_audit_guard", "-v", "0")
    with closing(sqlite3.connect(here.file)) as database:
        found = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
        ).fetchall()
    assert found == [("audit_no_delete",), ("audit_no_update",)]
