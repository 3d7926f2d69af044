"""Real processes on one database file: the chain does not fork, and a cut end is found."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests import command_server

ROOT = Path(__file__).resolve().parents[3]
WRITE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
import django; django.setup()
from recovery.audit.actions import append_entry
from recovery.audit.keeping import verify_chain
from recovery.people.roles import SYSTEM
if sys.argv[1] == "write":
    for n in range(int(sys.argv[2])):
        append_entry(action="step.run", outcome="done", by=SYSTEM, says=f"{os.getpid()} {n}")
else:
    import json; print(json.dumps(verify_chain()))
"""


def start(home: Path, *args: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "REPRISE_HOME": str(home)}
    return subprocess.Popen([sys.executable, "-c", WRITE, *args], cwd=ROOT, env=environment)


def check(home: Path) -> str:
    environment = {**os.environ, "REPRISE_HOME": str(home)}
    command = [sys.executable, "-c", WRITE, "verify"]
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("instance")
    environment = {**os.environ, "REPRISE_HOME": str(home)}
    command_server.run(["migrate", "-v", "0"], environment).check_returncode()
    return home


def test_many_writers_make_one_chain_and_its_cut_end_is_found(home: Path) -> None:
    writers = [start(home, "write", "25") for _ in range(4)]
    assert [w.wait(timeout=120) for w in writers] == [0, 0, 0, 0]
    assert '"ok": true, "entries": 100' in check(home)

    with sqlite3.connect(home / "reprise.sqlite3") as database:
        trigger = database.execute("SELECT sql FROM sqlite_master WHERE name = 'audit_no_delete'").fetchone()[
            0
        ]
        database.execute("DROP TRIGGER audit_no_delete")
        database.execute("DELETE FROM recovery_auditentry WHERE seq > 98")
        database.execute(trigger)
    database.close()
    said = check(home)
    assert '"ok": false, "entries": 98' in said
    assert "Entries 99 to 100 are missing at the end" in said
