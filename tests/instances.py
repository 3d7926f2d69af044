"""Instances for tests whose processes share a database: a home, a database, and code that processes run in it.

    def test_something(instances: Instances) -> None:
        here = instances.migrated()
        assert here.python("print(json.dumps(verify_chain()))")["ok"]

The database is the tested one: a SQLite file in the home, or one of the PostgreSQL server. A migrated one is a copy of
what the test process has migrated for all of its tests. Every instance has the home and the name of the one before, so
that its processes are forks of one that has read these settings already (tests/command_server.py).
"""

import json
import os
import secrets
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.db import connection

from console.supervisor import postgres
from tests import command_server, databases
from tests.stack import clean_environment

IMPORTS = """
import itertools, json, os, sys
from recovery.audit.actions import append_entry
from recovery.audit.log_operations import verify_chain
from recovery.people.roles import SYSTEM
"""


@dataclass
class Place:
    """One instance. `url` names its database; "" is SQLite's file in the home."""

    home: Path
    url: str

    @property
    def on_postgresql(self) -> bool:
        return bool(self.url)

    @property
    def environment(self) -> dict[str, str]:
        more = {"REPRISE_DATABASE_URL": self.url} if self.url else {}
        return clean_environment(self.home, REPRISE_OUTBOUND_ALLOW="localhost", **more)

    def manage(self, *arguments: str) -> str:
        """What a command prints; it has to end well."""
        done = command_server.run(arguments, self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self, code: str) -> Any:
        """What `code`, after `IMPORTS`, prints as JSON in its last line."""
        return json.loads(self.manage(*as_command(code)).splitlines()[-1])

    def begin(self, code: str, out: int | None = None) -> command_server.Running:
        """A process that runs `code`, after `IMPORTS`; it prints into the file `out` where one is given."""
        return command_server.begin(as_command(code), self.environment, out)

    def client(self, program: str) -> list[str]:
        """A program of PostgreSQL, and how it reaches this database."""
        parts = urlsplit(self.url)
        programs = postgres.site_packages(Path(sys.executable)) / postgres.PACKAGE / "pginstall" / "bin"
        host = dict(parse_qsl(parts.query)).get("host") or parts.hostname or ""
        return [str(programs / program), "-h", host, "-U", parts.username or "", "-d", parts.path.lstrip("/")]

    @property
    def file(self) -> Path:
        return self.home / "reprise.sqlite3"


def as_command(code: str) -> list[str]:
    """The arguments of manage.py that run `code`."""
    return ["shell", "--no-imports", "-c", IMPORTS + code]


def name_in(url: str) -> str:
    """The database that a URL names."""
    return urlsplit(url).path.lstrip("/")


class Instances:
    """Makes instances below `folder`; one replaces the one before it of the same name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = os.environ.get(databases.VARIABLE, "")
        self.mark = secrets.token_hex(6)
        self.urls: set[str] = set()

    def keep_template(self) -> None:
        """Copy the migrated database of the tests, outside of any test's transaction.

        pytest-django makes none where no collected test has the mark `django_db`: then an instance migrates its own.
        """
        place = None if self.has_tests_database() else self.empty()
        if place:
            place.manage("migrate", "-v", "0")
        if self.server:
            url = place.url if place else databases.named(self.server, connection.settings_dict["NAME"])
            connection.close()  # PostgreSQL copies no database that somebody uses
            databases.replace(self.url_of("template"), template=name_in(url))
            self.urls.add(self.url_of("template"))
            return
        if place:
            shutil.copyfile(place.file, self.folder / "template")
            return
        connection.ensure_connection()
        with closing(sqlite3.connect(self.folder / "template")) as target:
            connection.connection.backup(target)

    def has_tests_database(self) -> bool:
        """Whether pytest-django made the database of the tests: another one than the settings name."""
        if self.server:
            made: bool = connection.settings_dict["NAME"] != name_in(self.server)
            return made
        in_memory: bool = connection.is_in_memory_db()
        return in_memory

    def url_of(self, name: str) -> str:
        return databases.named(self.server, f"{name}_{self.mark}") if self.server else ""

    def empty(self, name: str = "here") -> Place:
        """An instance whose database has no table."""
        return self._make(name, "template1")

    def migrated(self, name: str = "here") -> Place:
        """An instance whose database has every migration and no row but theirs."""
        place = self._make(name, name_in(self.url_of("template")))
        if not place.on_postgresql:
            shutil.copyfile(self.folder / "template", place.file)
        return place

    def _make(self, name: str, template: str) -> Place:
        place = Place(self.folder / name, self.url_of(name))
        shutil.rmtree(place.home, ignore_errors=True)
        place.home.mkdir()
        if place.on_postgresql:
            databases.replace(place.url, template=template)
            self.urls.add(place.url)
        return place

    def drop(self) -> None:
        """Remove every database, whoever is still connected."""
        databases.drop(self.urls)


@pytest.fixture(scope="session")
def instances(django_db_setup: None, django_db_blocker: Any) -> Iterator[Instances]:
    """Instances of this test process."""
    folder = Path(tempfile.mkdtemp(prefix="reprise-instances-"))
    made = Instances(folder)
    with django_db_blocker.unblock():
        made.keep_template()
    yield made
    made.drop()
    shutil.rmtree(folder, ignore_errors=True)
