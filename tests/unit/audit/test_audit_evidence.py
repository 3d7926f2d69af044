"""The evidence pack: whole, readable and checkable without the console, and no change of it goes unseen."""

import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.audit import evidence, keys
from recovery.audit.actions import append_entry
from recovery.audit.offline import verify as offline
from recovery.contracts.codec import seal
from recovery.errors import Denied, NotFound
from recovery.models import Hold, Recovery
from recovery.people.roles import SYSTEM, Actor, Role
from tests import factories as f
from tests.factories.joint import joined

AUDITOR = Actor("grace", Role.AUDITOR, via="page")
BY = Actor("bob", Role.RESPONDER, via="page")


@pytest.fixture
def recovery(kept_outside: Path) -> Recovery:
    """A proven recovery with entries of its own, and some of others in between."""
    made = f.verified(f.failed_flow(f.pipeline(environment="production")))
    plan = made.plans.get()
    made.plans.update(hash=seal(plan.body))
    append_entry(action="session.sign_in", outcome="done", by=BY, says="Somebody else's business: zebra.")
    append_entry(
        action="recovery.execute", outcome="done", by=BY, recovery=made.label, says="Started <b>it</b>.",
        reason="Ticket 881", after={"password": "hunter22"},
    )  # fmt: skip
    append_entry(action="session.sign_out", outcome="done", by=BY, says="Somebody else's business: zebra.")
    append_entry(action="step.run", outcome="done", by=SYSTEM, recovery=made.label, says="Ran.")
    return made


@pytest.fixture
def folder(
    recovery: Recovery, tmp_path: Path, django_capture_on_commit_callbacks: Callable[..., Any]
) -> Path:
    with django_capture_on_commit_callbacks(execute=True):
        content, made = evidence.to_bytes(label=recovery.label, by=AUDITOR)
    assert made.signed
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path / "pack")
    return tmp_path / "pack" / f"reprise-{recovery.label}"


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """verify.py as its reader runs it: an interpreter without any package."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(folder / "verify.py"), *arguments], capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def test_a_pack_is_good_where_there_is_only_python(folder: Path) -> None:
    key = keys.public_bytes(keys.signing_key()).hex()
    code, said = run(folder, "--key", key)
    assert (code, said.splitlines()[-1]) == (0, "GOOD: everything fits.")
    assert "given by you" in said
    assert "compare it" in run(folder)[1]


@pytest.mark.django_db
def test_the_pack_of_a_plan_that_ran_together_with_others_holds_what_its_votes_have_signed(
    tmp_path: Path,
) -> None:
    joint, rows = joined()
    plans = [row.plans.get() for row in rows]
    for plan, named in zip(plans, joint.body["plans"], strict=True):
        named["plan"] = seal(plan.body)
        type(plan).objects.filter(pk=plan.pk).update(hash=named["plan"])
    type(joint).objects.filter(pk=joint.pk).update(body=joint.body, hash=seal(joint.body))
    content, _ = evidence.to_bytes(label=rows[1].label, by=AUDITOR)
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    folder = tmp_path / f"reprise-{rows[1].label}"
    packed = json.loads((folder / "plan.json").read_text())
    assert packed["plans"][0]["joint_hash"] == seal(joint.body)
    assert offline.check_plans(folder) == []
    packed["plans"][0]["joint"]["plans"].pop(0)
    (folder / "plan.json").write_text(json.dumps(packed))
    assert len(offline.check_plans(folder)) == 1


def test_the_pack_of_a_plan_that_runs_alone_says_nothing_of_others(folder: Path) -> None:
    plans = json.loads((folder / "plan.json").read_text())["plans"]
    assert {key for plan in plans for key in plan} == {
        "hash", "sealed_by", "sealed_at", "voided_at", "drift", "body"
    }  # fmt: skip


def test_another_key_than_ones_own_is_not_good(folder: Path) -> None:
    code, said = run(folder, "--key", "00" * 32)
    assert code == 1
    assert "signed with another key than yours" in said


def test_a_pack_holds_everything_and_shows_nothing_of_others(folder: Path, recovery: Recovery) -> None:
    names = {p.name for p in folder.iterdir()}
    assert names == {
        "index.html", "recovery.json", "plan.json", "approvals.json", "records.json", "steps.json", "steps.log",
        "verification.json",         "entries.jsonl", "proof.json", "verify.py", "manifest.json", "manifest.sig",
    }  # fmt: skip
    everything = "".join(p.read_text() for p in folder.iterdir())
    assert "zebra" not in everything
    assert "hunter22" not in everything
    entries = [json.loads(line) for line in (folder / "entries.jsonl").read_text().splitlines()]
    assert [e["code"] for e in entries] == ["recovery.execute.done", "step.run.done", "audit.pack.done"]
    assert json.loads((folder / "plan.json").read_text())["plans"][0]["body"] == recovery.plans.get().body
    assert "== " in (folder / "steps.log").read_text()
    assert json.loads((folder / "verification.json").read_text())["measured"]["verified"] is True


def test_what_other_rooms_keep_about_a_recovery_comes_along_by_itself(recovery: Recovery) -> None:
    Hold.objects.create(
        recovery=recovery, pipeline=recovery.flow.pipeline, job_id=7, name="nightly", way="schedule", was={}
    )
    content, _ = evidence.to_bytes(label=recovery.label, by=AUDITOR)
    zipped = zipfile.ZipFile(io.BytesIO(content))
    records = json.loads(zipped.read(f"reprise-{recovery.label}/records.json"))
    assert records["hold"][0]["name"] == "nightly"
    assert json.loads(zipped.read(f"reprise-{recovery.label}/approvals.json")) == {}


def test_the_page_can_be_read_offline_and_runs_nothing(folder: Path) -> None:
    page = (folder / "index.html").read_text()
    assert "Started &lt;b&gt;it&lt;/b&gt;." in page
    assert "Ticket 881" in page
    for outside in ("<script", "http://", "https://", "src="):
        assert outside not in page


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("entries.jsonl", "Started", "Stopped", "Entry 2 is not what was written"),
        ("plan.json", "customers", "custumers", "is not what was sealed"),
        ("steps.log", "== ", "=== ", "steps.log was changed"),
        ("index.html", "Ticket 881", "Ticket 882", "index.html was changed"),
        ("proof.json", '"prev_hash": "', '"prev_hash": "0', "does not lead to the signed anchor"),
        ("proof.json", '"kind": "mark"', '"kind": "mork"', "signature of the anchor does not fit"),
        ("manifest.json", "steps.log", "steps.lag", "signature of the manifest does not fit"),
        ("manifest.sig", "", "00" * 64, "signature of the manifest does not fit"),
    ],
)  # fmt: skip
def test_a_change_of_any_file_is_found(folder: Path, file: str, old: str, new: str, words: str) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1) if old else new)
    wrong, _ = offline.check_pack(folder)
    assert words in " ".join(wrong)


@pytest.mark.parametrize("file", ["steps.log", "index.html", "verify.py"])
def test_a_file_that_is_missing_or_was_added_is_found(folder: Path, file: str) -> None:
    shutil.move(folder / file, folder / "extra.txt")
    wrong = " ".join(offline.check_pack(folder)[0])
    assert f"{file} is missing." in wrong
    assert "extra.txt does not belong to the pack." in wrong


def test_an_entry_left_out_or_put_in_is_found(folder: Path) -> None:
    lines = (folder / "entries.jsonl").read_text().splitlines(keepends=True)
    forged = json.loads(lines[0]) | {"seq": 99}
    (folder / "entries.jsonl").write_text("".join([*lines, json.dumps(forged) + "\n"]))
    assert "Entry 99 is not in the chain." in offline.check_pack(folder)[0]


def test_what_is_no_pack_is_said(tmp_path: Path) -> None:
    shutil.copy(Path(offline.__file__), tmp_path / "verify.py")
    code, said = run(tmp_path)
    assert code == 1
    assert "no whole pack" in said
    assert run(tmp_path, "--wrong")[0] == 2


def test_a_pack_without_a_key_says_so(recovery: Recovery, settings: Any, tmp_path: Path) -> None:
    settings.REPRISE_AUDIT_KEY = "nonsense"
    content, made = evidence.to_bytes(label=recovery.label, by=AUDITOR)
    assert not made.signed
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path / "pack")
    pack = tmp_path / "pack" / f"reprise-{recovery.label}"
    code, said = run(pack)
    assert code == 0
    assert "NOT SIGNED" in said
    assert run(pack, "--key", "00" * 32)[0] == 1, "who names a key asks who signed"


def test_who_may_not_export_takes_no_evidence(recovery: Recovery) -> None:
    with pytest.raises(Denied):
        evidence.to_bytes(label=recovery.label, by=BY)
    with pytest.raises(NotFound):
        evidence.to_bytes(label="R-0", by=AUDITOR)


@settings(max_examples=30)
@given(message=st.binary(max_size=200), flip=st.integers(0, 511))
def test_the_packs_own_ed25519_judges_as_the_library_does(message: bytes, flip: int) -> None:
    key = Ed25519PrivateKey.generate()
    signature = key.sign(message)
    broken = bytearray(signature)
    broken[flip // 8] ^= 1 << flip % 8
    assert offline.is_signed(keys.public_bytes(key), message, signature)
    assert not offline.is_signed(keys.public_bytes(key), message, bytes(broken))
    assert not offline.is_signed(keys.public_bytes(key), message + b"x", signature)
    assert not offline.is_signed(b"\xff" * 32, message, signature)
