"""`reprise evidence verify`: packs, archives and exports are judged without the log that they come from."""

import json
import re
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from recovery.audit import chain, evidence, keys
from recovery.audit.archiving import _write_archive
from recovery.audit.listing import EntryFilter
from recovery.audit.log_operations import export_log
from recovery.audit.offline import archive
from recovery.cli.main import main
from recovery.contracts.codec import seal
from recovery.models import AuditEntry, Recovery
from recovery.people.roles import Actor
from tests import factories as f
from tests.unit.audit.test_audit_evidence import AUDITOR

Capture = Callable[..., Any]


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main(["evidence", "verify", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def public_key() -> str:
    return keys.public_bytes(keys.signing_key()).hex()


@pytest.fixture
def pack(kept_outside: Path, tmp_path: Path, django_capture_on_commit_callbacks: Capture) -> Path:
    recovery: Recovery = f.verified(f.failed_flow(f.pipeline(environment="production")))
    recovery.plans.update(hash=seal(recovery.plans.get().body))
    with django_capture_on_commit_callbacks(execute=True):
        content, _ = evidence.to_bytes(label=recovery.label, by=AUDITOR)
    (tmp_path / "pack.zip").write_bytes(content)
    return tmp_path / "pack.zip"


def repacked(pack: Path, change: Callable[[dict[str, bytes]], None]) -> str:
    """The same ZIP, with other files."""
    with zipfile.ZipFile(pack) as zipped:
        files = {name: zipped.read(name) for name in zipped.namelist()}
    change(files)
    made = pack.with_name("other.zip")
    with zipfile.ZipFile(made, "w") as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    return str(made)


def test_a_pack_is_proven_by_the_key_of_the_operator(capsys: pytest.CaptureFixture[str], pack: Path) -> None:
    for words, signature in (((), "own-key"), (("--key", public_key()), "proven")):
        code, found = told(capsys, str(pack), *words)
        assert (code, found["ok"], found["files"][0]["kind"]) == (0, True, "pack")
        assert found["files"][0]["signature"] == signature
    code, found = told(capsys, str(pack), "--key", "ab" * 32)
    assert (code, found["files"][0]["ok"]) == (1, False)
    with zipfile.ZipFile(pack) as zipped:
        zipped.extractall(pack.parent / "unpacked")
    folder = next((pack.parent / "unpacked").iterdir())
    assert told(capsys, str(folder), "--key", public_key())[0] == 0


def test_a_changed_pack_is_not_good(capsys: pytest.CaptureFixture[str], pack: Path) -> None:
    def change(files: dict[str, bytes]) -> None:
        name = next(n for n in files if n.endswith("/plan.json"))
        files[name] = files[name].replace(b"customers", b"custumers", 1)

    code, found = told(capsys, repacked(pack, change), str(pack))
    assert (code, [one["ok"] for one in found["files"]]) == (1, [False, True])


@pytest.mark.parametrize(
    "name", ["../out.txt", "/etc/out", "reprise-R-1/../out", "reprise-R-1/a/b", "other/x", "reprise-R-1/a\\b"]
)
def test_a_zip_that_is_no_pack_is_not_unpacked(
    capsys: pytest.CaptureFixture[str], pack: Path, name: str
) -> None:
    code, found = told(capsys, repacked(pack, lambda files: files.update({name: b"x"})))
    assert (code, found["unread"][0]["code"]) == (1, "no_pack")
    assert not (pack.parent / "out.txt").exists()


def test_a_cut_zip_is_not_good(capsys: pytest.CaptureFixture[str], pack: Path) -> None:
    content = bytearray(pack.read_bytes())
    content[60:90] = b"\0" * 30
    pack.write_bytes(content)
    assert told(capsys, str(pack))[0] == 1


class TestArchive:
    @pytest.fixture
    def file(self, kept_outside: Path, write: Callable[[int], None], tmp_path: Path) -> Path:
        """What `audit archive` writes, of the log's entries."""
        write(4)
        return Path(_write_archive(1, AuditEntry.objects.get(seq=3), tmp_path / "archive").file)

    def test_it_is_proven_by_its_key_alone(self, capsys: pytest.CaptureFixture[str], file: Path) -> None:
        code, found = told(capsys, str(file), "--key", "ab" * 32, "--key", public_key())
        assert (code, found["files"][0]["kind"], found["files"][0]["signature"]) == (0, "archive", "proven")
        assert told(capsys, str(file), "--key", "ab" * 32)[0] == 1
        code, found = told(capsys, str(file))
        assert (code, found["unread"][0]["code"]) == (2, "wrong_use")

    def test_a_change_of_it_is_found(self, capsys: pytest.CaptureFixture[str], file: Path) -> None:
        file.write_text(file.read_text().replace("Entry 2.", "Entry X."))
        code, found = told(capsys, str(file), "--key", public_key())
        assert (code, found["files"][0]["signature"]) == (1, "none")
        assert len(found["files"][0]["problems"]) == 2, "the file, and the entry"

    def test_without_its_signature_it_is_refused(
        self, capsys: pytest.CaptureFixture[str], file: Path
    ) -> None:
        file.with_name(f"{file.name}.sig").unlink()
        code, found = told(capsys, str(file), "--key", public_key())
        assert (code, found["unread"][0]["code"]) == (1, "no_archive")


@pytest.mark.usefixtures("five_entries")
class TestExport:
    @pytest.fixture
    def file(self, auditor: Actor, tmp_path: Path) -> Path:
        made = tmp_path / "log.json"
        made.write_text("".join(export_log(fmt="json", by=auditor, wanted=EntryFilter())))
        return made

    def test_its_entries_fit_and_nobody_is_proven_to_have_made_it(
        self, capsys: pytest.CaptureFixture[str], file: Path
    ) -> None:
        code, found = told(capsys, str(file))
        assert (code, found["files"][0]["kind"], found["files"][0]["signature"]) == (0, "export", "none")
        assert found["files"][0]["notes"][0].startswith("NOT SIGNED")

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            (lambda rows: rows, 0),
            (lambda rows: [r for r in rows if r["seq"] != 3], 0),
            (lambda rows: [r | {"says": "x"} if r["seq"] == 3 else r for r in rows], 1),
            (lambda rows: [rows[1], rows[0], *rows[2:]], 1),
            (lambda rows: [rows[0], rows[0]], 1),
            (lambda rows: [], 2),
            (lambda rows: {"count": len(rows), "entries": rows}, 0),
            (lambda rows: {"rows": rows}, 2),
            (lambda rows: [{"seq": 1}], 2),
            (lambda rows: 7, 2),
        ],
    )
    def test_each_entry_is_judged_by_its_own_hash(
        self, capsys: pytest.CaptureFixture[str], file: Path, change: Callable[[Any], Any], code: int
    ) -> None:
        file.write_text(json.dumps(change(json.loads(file.read_text()))))
        assert told(capsys, str(file))[0] == code

    def test_an_entry_whose_hash_was_made_to_fit_breaks_the_next_one(self, file: Path) -> None:
        rows = json.loads(file.read_text())
        rows[2]["says"] = "x"
        rows[2]["hash"] = chain.entry_hash({**rows[2], "at": datetime.fromisoformat(rows[2]["at"])})
        assert [re.findall(r"\d+", one) for one in archive.list_breaks(rows)] == [["4"]]

    def test_a_table_for_spreadsheets_cannot_be_checked(
        self, capsys: pytest.CaptureFixture[str], auditor: Actor, tmp_path: Path
    ) -> None:
        file = tmp_path / "log.csv"
        file.write_text("".join(export_log(fmt="csv", by=auditor, wanted=EntryFilter())))
        code, found = told(capsys, str(file), str(tmp_path / "nowhere"))
        assert (code, [one["code"] for one in found["unread"]]) == (2, ["wrong_use", "wrong_use"])
