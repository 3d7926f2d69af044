"""The record of slow proofs: what is kept, what is old, and that every slow test belongs to a proof."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from devtools import proofs
from devtools.proofs import Proof, ProofRun


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "module.py").write_text("answer = 1\n")
    for name in ("other.py", "test_rows.py", *proofs.DEPENDENCIES):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("other = 1\n")
    return tmp_path


PROOF = Proof("rows", "Rows are right", ("-c", "pass"), ("room", "other.py"), ("test_rows.py::test_one",))


def passed(code: Path) -> ProofRun:
    digest = proofs.digest_code(PROOF.covers, code)
    return ProofRun("rows", "2026-11-22T10:00:00+00:00", "abc1234", "passed", 12, 0, 61, digest)


def test_a_proof_of_unchanged_code_is_current(code: Path) -> None:
    assert proofs.list_stale([PROOF], {"rows": passed(code)}, code) == []


@pytest.mark.parametrize(
    "path",
    ["room/module.py", "room/new.py", "room/page.html", "other.py", "test_rows.py", *proofs.DEPENDENCIES],
)
def test_a_changed_or_new_file_makes_its_proof_old(code: Path, path: str) -> None:
    run = passed(code)
    (code / path).write_text("answer = 2\n")

    assert len(proofs.list_stale([PROOF], {"rows": run}, code)) == 1


def test_compiled_code_makes_no_proof_old(code: Path) -> None:
    run = passed(code)
    compiled = code / "room" / "__pycache__" / "module.cpython-311.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(b"compiled")

    assert proofs.list_stale([PROOF], {"rows": run}, code) == []


def test_a_proof_that_never_ran_or_failed_is_named(code: Path) -> None:
    failed = replace(passed(code), result="failed")

    assert len(proofs.list_stale([PROOF], {}, code)) == 1
    assert len(proofs.list_stale([PROOF], {"rows": failed}, code)) == 1


def test_a_run_is_kept_over_the_older_one_and_the_page_shows_it(tmp_path: Path) -> None:
    record, page = tmp_path / "proofs.json", tmp_path / "proofs.md"
    known = proofs.PROOFS[0].name
    first = ProofRun(known, "2026-11-22T10:00:00+00:00", "abc1234", "failed", 10, 2, 61, "0" * 64)
    proofs.keep_run(first, record, page)
    proofs.keep_run(replace(first, result="passed", passed=12, failed=0), record, page)

    assert proofs.read_record(record)[known].result == "passed"
    row = next(line for line in page.read_text().splitlines() if line.startswith(f"| {known} |"))
    assert [cell.strip() for cell in row.split("|")][4:9] == [
        "2026-11-22 10:00", "abc1234", "passed", "12 passed", "1.0"
    ]  # fmt: skip


@pytest.mark.parametrize(("script", "result"), [("print('3 passed in 0.1s')", "passed"), ("1/0", "failed")])
def test_a_proof_is_run_and_judged_by_its_exit_code(
    script: str, result: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import sys

    run = proofs.run_proof(
        Path(sys.executable), replace(PROOF, command=("-c", script), proves=("manage.py",), asks=())
    )

    assert run.result == result
    assert run.passed == (3 if result == "passed" else 0)


def test_what_the_proofs_ask_and_prove_is_there() -> None:
    paths = {path for proof in proofs.PROOFS for path in proof.proves}
    files = {test.split("::")[0] for proof in proofs.PROOFS for test in (*proof.asks, *proof.everyday)}

    assert {path for path in paths | files if not (proofs.ROOT / path).exists()} == set()


def test_each_test_that_a_proof_names_has_that_name() -> None:
    named = [test for proof in proofs.PROOFS for test in (*proof.asks, *proof.everyday) if "::" in test]
    begun = {test: re.escape(test.rpartition("::")[2].partition("[")[0]) for test in named}
    gone = [
        test
        for test, name in begun.items()
        if not re.search(rf"def {name}", (proofs.ROOT / test.split("::")[0]).read_text())
    ]

    assert gone == []


def test_the_page_of_proofs_shows_its_record() -> None:
    assert proofs.PAGE.read_text() == proofs.write_page(proofs.PROOFS, proofs.read_record())


def test_a_test_is_slow_when_a_proof_asks_it_and_the_everyday_lane_does_not() -> None:
    for proof in proofs.PROOFS:
        assert all(proofs.is_thorough(f"{asked}::test") for asked in proof.asks if "::" not in asked)
        assert not any(proofs.is_thorough(kept) for kept in proof.everyday)
