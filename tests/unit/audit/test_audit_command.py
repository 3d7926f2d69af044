"""`audit verify` and `audit export` as a person types them."""

import csv
import json
import zipfile
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection

from recovery.audit import guard
from recovery.audit.actions import append_entry
from recovery.models import AuditEntry
from recovery.people.roles import Actor, Role
from tests import factories as f
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
        "first": 1,
        "head": AuditEntry.objects.get(seq=3).hash,
        "problems": [],
        "anchors": 0,
        "anchored": 0,
    }
    code, out, _ = run(monkeypatch, token, "audit", "verify")
    assert (code, "4 entries" in out) == (0, True)


def test_a_broken_log_is_exit_1_and_says_where(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    guard.remove_triggers(connection)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE recovery_auditentry SET actor = 'eve' WHERE seq = 1")
    guard.install_triggers(connection)
    code, found = run_json(monkeypatch, token, "audit", "verify")
    assert (code, found["ok"], found["problems"][0]["seq"]) == (1, False, 1)
    code, out, _ = run(monkeypatch, token, "audit", "verify")
    assert code == 1
    assert "NOT whole" in out
    assert "Entry 1 " in out
    assert found["problems"][0]["code"] == "entry_changed"


def test_a_refused_export_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    eve = token_of("eve", Role.RESPONDER)
    code, answer = run_json(monkeypatch, eve, "audit", "export", "--output", str(file))
    assert (code, answer["error"]["code"]) == (1, "denied")
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


class TestActs:
    """review, pack, archive and keys, as a person types them."""

    @pytest.fixture(autouse=True)
    def outside(self, kept_outside: Path) -> Path:
        return kept_outside

    def test_the_queue_is_listed_and_signed_off(self, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
        by = Actor("bob", Role.ADMIN)
        made = append_entry(action="audit.archive", outcome="done", by=by, says="Archived 4 entries.")
        code, found = run_json(monkeypatch, token, "audit", "review")
        assert (code, found["waiting"], found["items"][0]["entry"]) == (0, 1, made.seq)
        assert "Archived 4 entries." in run(monkeypatch, token, "audit", "review")[1]
        code, _, err = run(monkeypatch, token, "audit", "review", "--sign", str(made.seq))
        assert (code, "needs a note" in err) == (2, True)
        code, found = run_json(
            monkeypatch, token, "audit", "review", "--sign", str(made.seq), "--note", "Looked at it."
        )
        assert (code, found["by"], found["note"]) == (0, "ada", "Looked at it.")
        assert run(monkeypatch, token, "audit", "review")[1] == "Nothing is waiting.\n"
        assert (
            run_json(monkeypatch, token, "audit", "review", "--signed")[1]["items"][0]["signed_by"] == "ada"
        )
        assert run(monkeypatch, token, "audit", "review", "--note", "x")[0] == 2

    def test_an_export_takes_the_filters_of_the_page(
        self, monkeypatch: pytest.MonkeyPatch, token: str
    ) -> None:
        code, found = run_json(
            monkeypatch,
            token,
            "audit",
            "export",
            "--action",
            "token.create",
            "--who",
            "ada",
            "--from",
            "2020-01-01",
        )
        assert (code, [e["code"] for e in found["entries"]]) == (0, ["token.create.done"])

    def test_the_evidence_goes_into_a_new_file(
        self, monkeypatch: pytest.MonkeyPatch, token: str, tmp_path: Path
    ) -> None:
        label = f.verified(f.failed_flow()).label
        file = tmp_path / "evidence.zip"
        code, found = run_json(monkeypatch, token, "audit", "pack", label, "--output", str(file))
        assert (code, found["recovery"], found["file"]) == (0, label, str(file))
        assert zipfile.is_zipfile(file)
        assert file.stat().st_mode & 0o777 == 0o600
        assert run(monkeypatch, token, "audit", "pack", label, "--output", str(file))[0] == 1
        other = tmp_path / "other.zip"
        assert run(monkeypatch, token, "audit", "pack", "R-999", "--output", str(other))[0] == 2
        assert not other.exists()

    def test_archive_and_keys_are_for_who_manages(
        self, monkeypatch: pytest.MonkeyPatch, token: str, tmp_path: Path
    ) -> None:
        arguments = ("audit", "archive", "--older-than", "90", "--to", str(tmp_path))
        assert run(monkeypatch, token, *arguments)[0] == 1
        assert run(monkeypatch, token, "audit", "keys", "--renew")[0] == 1
        admin = token_of("hal", Role.ADMIN)
        assert "Nothing was removed" in run(monkeypatch, admin, *arguments)[1]
        old = run_json(monkeypatch, admin, "audit", "keys")[1]["keys"]
        code, ids = run_json(monkeypatch, admin, "audit", "keys", "--renew")
        assert (code, ids["old"] in old, ids["new"] in old) == (0, True, False)
        assert set(run_json(monkeypatch, admin, "audit", "keys")[1]["keys"]) == set(ids.values())

    def test_a_file_that_is_no_archive_is_said(
        self, monkeypatch: pytest.MonkeyPatch, token: str, tmp_path: Path
    ) -> None:
        code, answer = run_json(
            monkeypatch, token, "audit", "verify", "--archive", str(tmp_path / "no.jsonl")
        )
        assert (code, answer["error"]["code"]) == (1, "no_archive")

    @pytest.mark.parametrize("act", ["verify", "export", "review", "pack", "archive", "keys"])
    def test_every_act_explains_itself(self, capsys: pytest.CaptureFixture[str], act: str) -> None:
        with pytest.raises(SystemExit) as end:
            call_command("audit", act, "--help")
        assert end.value.code == 0
        said = capsys.readouterr().out
        assert "--json" in said
        assert "--token-file" in said
