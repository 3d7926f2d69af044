"""`audit verify` and `audit export` as a person types them."""

import csv
import json
from pathlib import Path

import pytest
from django.db import connection

from recovery.audit import guard
from recovery.models import AuditEntry
from recovery.people.roles import Role
from tests.unit.people.run import run, run_json, token_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def token() -> str:
    return token_of("ada", Role.AUDITOR)


def test_a_whole_log_is_exit_0(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    code, found = run_json(monkeypatch, token, "audit", "verify")
    assert code == 0
    assert found == {
        "ok": True,
        "entries": 3,  # the person, the token, its first use
        "head": AuditEntry.objects.get(seq=3).hash,
        "problems": [],
    }
    assert "The audit log is whole: 4 entries" in run(monkeypatch, token, "audit", "verify")[1]


def test_a_broken_log_is_exit_1_and_says_where(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    guard.remove(connection)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE recovery_auditentry SET actor = 'eve' WHERE seq = 1")
    guard.install(connection)
    code, found = run_json(monkeypatch, token, "audit", "verify")
    assert (code, found["ok"], found["problems"][0]["seq"]) == (1, False, 1)
    code, out, _ = run(monkeypatch, token, "audit", "verify")
    assert code == 1
    assert "NOT whole" in out
    assert "Entry 1 is not what was written" in out


def test_a_refused_export_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    code, _, err = run(monkeypatch, token_of("eve", Role.RESPONDER), "audit", "export", "--output", str(file))
    assert code == 1
    assert "may not export the audit log" in err
    assert not file.exists()


def test_the_export_goes_to_stdout_or_into_a_new_file(
    monkeypatch: pytest.MonkeyPatch, token: str, tmp_path: Path
) -> None:
    code, out, _ = run(monkeypatch, token, "audit", "export")
    assert code == 0
    assert [row["seq"] for row in csv.DictReader(out.splitlines())] == ["1", "2", "3", "4"]
    _, out, _ = run(monkeypatch, token, "audit", "export", "--format", "json")
    assert len(json.loads(out)) == 5
    code, found = run_json(monkeypatch, token, "audit", "export")
    assert (found["count"], len(found["entries"])) == (6, 6)
    file = tmp_path / "log.csv"
    code, found = run_json(monkeypatch, token, "audit", "export", "--output", str(file))
    assert (code, found["count"], found["file"]) == (0, 7, str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    code, _, err = run(monkeypatch, token, "audit", "export", "--output", str(file))
    assert code == 1
    assert "never overwrites" in err
    assert len(list(csv.DictReader(file.read_text().splitlines()))) == 7
