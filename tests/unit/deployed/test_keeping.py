"""Backup and restore, upgrade, and a new secret key, as the operator's guide tells them. On both databases."""

import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from console import env
from tests import factories
from tests.instances import Instances, Place

RELEASES = Path(__file__).parent / "releases"
VERIFY = "print(json.dumps(verify_chain()))"
APPEND = 'append_entry(action="step.run", outcome="done", by=SYSTEM, says="after"); print(json.dumps(verify_chain()))'
CHANGE = """
from django.db import connection, DatabaseError
try:
    with connection.cursor() as cursor: cursor.execute("UPDATE recovery_auditentry SET says = 'x'")
    refusal = ""
except DatabaseError as problem: refusal = str(problem)
"""
REFUSED = CHANGE + "print(json.dumps(refusal))"
# One process asks all that is asked of a restored database.
ALL_OF_IT = (
    "found = verify_chain()"
    + CHANGE
    + """
from io import StringIO
from django.core.management import call_command
call_command("migrate", "--check", stdout=(missing := StringIO()))
append_entry(action="step.run", outcome="done", by=SYSTEM, says="after")
print(json.dumps([found, refusal, missing.getvalue(), verify_chain()]))
"""
)
WRITING = """
for n in itertools.count():
    append_entry(action="step.run", outcome="done", by=SYSTEM, says=f"entry {n}")
    print(n, flush=True)
"""


def back_up(place: Place, to: Path) -> None:
    """While it runs."""
    if place.on_postgresql:
        dump = [*place.client("pg_dump"), "--format=custom", "--no-owner", "--file", str(to)]
        subprocess.run(dump, check=True, capture_output=True, text=True)
        return
    source = sqlite3.connect(place.file, timeout=60)
    source.execute("VACUUM INTO ?", [str(to)])
    source.close()


def restore(backup: Path, place: Place) -> None:
    """Into an empty database."""
    if place.on_postgresql:
        command = [*place.client("pg_restore"), "--no-owner", "--exit-on-error", str(backup)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return
    place.file.write_bytes(backup.read_bytes())


@pytest.mark.database
def test_a_backup_of_a_running_instance_restores_to_a_whole_one(instances: Instances, tmp_path: Path) -> None:
    here, elsewhere = instances.migrated(), instances.empty("elsewhere")
    read, write = os.pipe()
    with os.fdopen(read) as lines:
        writer = here.begin(WRITING, write)
        os.close(write)
        while int(lines.readline()) < 20:
            pass
        back_up(here, tmp_path / "backup")
        while int(lines.readline()) < 25:
            pass
        writer.kill()
        assert writer.wait().returncode == -signal.SIGKILL

    restore(tmp_path / "backup", elsewhere)
    found, refusal, missing, after = elsewhere.python(ALL_OF_IT)
    assert found["ok"], found
    assert 20 < found["entries"] <= here.python(VERIFY)["entries"]
    assert "append-only" in refusal
    assert missing == ""
    assert (after["ok"], after["entries"]) == (True, found["entries"] + 1)


@pytest.mark.database
@pytest.mark.parametrize("release", ["0.1.0"])
def test_the_database_of_a_former_release_is_brought_up_to_date_and_keeps_what_it_held(
    release: str, instances: Instances
) -> None:
    """The files are dumps of an instance of that release with one proven recovery and four audit entries."""
    place = instances.empty()
    if place.on_postgresql:
        load = [
            *place.client("psql"),
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-f",
            str(RELEASES / f"{release}.postgresql.sql"),
        ]
        subprocess.run(load, check=True, capture_output=True, text=True)
    else:
        with sqlite3.connect(place.file) as connection:
            connection.executescript((RELEASES / f"{release}.sqlite.sql").read_text())
        connection.close()

    place.manage("migrate", "-v", "0")
    assert place.manage("migrate", "--check") == ""

    found = place.python(APPEND)
    assert (found["ok"], found["entries"]) == (True, 5), found
    kept = place.python(
        "from recovery.models import *; r = Recovery.objects.get(); "
        "print(json.dumps([r.state, r.steps.count(), r.plans.count(), Flow.objects.count()]))"
    )
    assert kept == ["succeeded", 5, 1, 3]
    assert "append-only" in place.python(REFUSED)


@pytest.mark.django_db
def test_a_new_secret_key_signs_nobody_out_while_the_old_one_is_named(settings: Settings) -> None:
    person = factories.person("viewer")
    here, away = signed_in(person), signed_in(person)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the-new-key" * 5, [settings.SECRET_KEY]
    assert here.get("/").status_code == 200

    settings.SECRET_KEY_FALLBACKS = []  # once everybody has been seen, or the sessions are over

    assert here.get("/").status_code == 200
    assert away.get("/").status_code == 302


def signed_in(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def test_keys_are_read_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("SECRET_KEY", "new\n"), ("SECRET_KEY_FALLBACKS", "old,older\n")):
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(f"REPRISE_{name}_FILE", str(tmp_path / name))
    read = env.load_env()

    assert (read.secret_key, read.secret_key_fallbacks) == ("new", "old,older")
