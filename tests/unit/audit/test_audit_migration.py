"""An instance that has a log already: its entries come through the migration as they were, and still verify."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests import command_server

ROOT = Path(__file__).resolve().parents[3]
COLUMNS = ("seq", "at", "actor", "role", "via", "request_id", "action", "outcome", "target_kind", "target",
           "recovery", "says", "before", "after", "prev_hash")  # fmt: skip
CHECK = """
import os; os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
import django; django.setup()
from recovery.audit.actions import append_entry
from recovery.audit.keeping import verify_chain
from recovery.people.roles import SYSTEM
append_entry(action="step.run", outcome="done", by=SYSTEM, says="new")
import json; print(json.dumps(verify_chain()))
"""


def migrate(home: Path, *arguments: str) -> None:
    environment = {**os.environ, "REPRISE_HOME": str(home)}
    command_server.run(["migrate", *arguments, "-v", "0"], environment).check_returncode()


def check(home: Path) -> str:
    environment = {**os.environ, "REPRISE_HOME": str(home)}
    command = [sys.executable, "-c", CHECK]
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def first_format(seq: int, prev_hash: str) -> dict[str, object]:
    """An entry as the first version wrote it, by its own rule."""
    fields = {**dict.fromkeys(COLUMNS, ""), "seq": seq, "at": f"2026-11-2{seq}T10:00:00.000000+00:00", "actor": "ada",
              "action": "step.run", "outcome": "done", "before": None, "after": {"n": [seq, None, "ü"]},
              "prev_hash": prev_hash}  # fmt: skip
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return {**fields, "hash": hashlib.sha256(text.encode()).hexdigest()}


def test_entries_of_the_first_version_are_unchanged_and_verify_after_the_migration(home: Path) -> None:
    migrate(home, "recovery", "0002_audit_guard")
    with closing(sqlite3.connect(home / "reprise.sqlite3")) as database, database:
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

    migrate(home)

    found = json.loads(check(home))
    assert (found["problems"], found["entries"]) == ([], 4)
    with closing(sqlite3.connect(home / "reprise.sqlite3")) as database:
        assert database.execute("SELECT format FROM recovery_auditentry ORDER BY seq").fetchall() == [
            (1,),
            (1,),
            (1,),
            (3,),
        ]
        for statement in ("UPDATE recovery_auditentry SET says = 'x'", "DELETE FROM recovery_auditentry"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                database.execute(statement)


def test_the_way_back_leaves_the_guard_of_before(home: Path) -> None:
    migrate(home)
    migrate(home, "recovery", "0002_audit_guard")
    with closing(sqlite3.connect(home / "reprise.sqlite3")) as database:
        found = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
        ).fetchall()
    assert found == [("audit_no_delete",), ("audit_no_update",)]
