"""An instance of its own for tests of backup and upgrade: a home, an empty database, and commands run in it.

The database is the tested one: a SQLite file in the home, or a new database of the PostgreSQL server.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from console.supervisor import postgres
from tests import command_server, databases
from tests.stack import clean_environment

ROOT = Path(__file__).resolve().parents[3]
WRITE = """
import os, sys, json, itertools
os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
import django; django.setup()
from recovery.audit.actions import append_entry
from recovery.audit.keeping import verify_chain
from recovery.people.roles import SYSTEM
"""


@dataclass
class Place:
    """`made` are the variables that name its databases; empty with SQLite."""

    home: Path
    made: dict[str, str]

    @classmethod
    def new(cls, home: Path) -> "Place":
        home.mkdir()
        return cls(home, databases.fresh(os.environ.get(databases.VARIABLE, "")))

    @property
    def on_postgresql(self) -> bool:
        return bool(self.made)

    @property
    def environment(self) -> dict[str, str]:
        return clean_environment(self.home, **self.made)

    def manage(self, *arguments: str) -> str:
        done = command_server.run(arguments, self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self, code: str) -> Any:
        """What `code`, after `WRITE`, prints as JSON."""
        return json.loads(self.begin(code).communicate(timeout=120)[0])

    def begin(self, code: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", WRITE + code]
        return subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, text=True)

    def client(self, program: str) -> list[str]:
        """A program of PostgreSQL, and how it reaches this database."""
        parts = urlsplit(self.made["REPRISE_DATABASE_URL"])
        programs = postgres.site_packages(Path(sys.executable)) / postgres.PACKAGE / "pginstall" / "bin"
        host = dict(parse_qsl(parts.query)).get("host") or parts.hostname or ""
        return [str(programs / program), "-h", host, "-U", parts.username or "", "-d", parts.path.lstrip("/")]

    @property
    def file(self) -> Path:
        return self.home / "reprise.sqlite3"
