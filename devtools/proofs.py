"""The slow proofs of `bin/test --all`: what each of them runs, which code it proves, and when that was last done.

The record is `docs/proofs.json`, the page that people read is `docs/proofs.md`; `bin/check` says which proofs are
older than the code that they prove. Standard library only: bin/check reads this too.
"""

import hashlib
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from console.supervisor.bootstrap import ROOT
from devtools.lanes import limit_seconds

RECORD = ROOT / "docs" / "proofs.json"
PAGE = ROOT / "docs" / "proofs.md"
DEPENDENCIES = ("requirements/spark.txt",)
#: The last line of pytest: `12 failed, 200 passed, 3 deselected in 61.02s`.
COUNTS = re.compile(r"(\d+) (passed|failed|error)")


@dataclass(frozen=True)
class Proof:
    """One slow proof."""

    name: str
    #: What is true when it passes, for people.
    claim: str
    #: What Python runs: arguments of `python`.
    command: tuple[str, ...]
    #: Files and folders of the product whose change makes this proof old.
    proves: tuple[str, ...]
    #: Beginnings of the ids of its tests; () where the command is not pytest.
    asks: tuple[str, ...] = ()
    #: Beginnings of the ids of those among them that the everyday lane asks too.
    everyday: tuple[str, ...] = ()

    @property
    def covers(self) -> tuple[str, ...]:
        """What makes it old when it changes: the code that it proves, its own tests, and the versions of Spark."""
        tests = dict.fromkeys(test.split("::")[0] for test in self.asks)
        return (*self.proves, *tests, *DEPENDENCIES)


@dataclass(frozen=True)
class ProofRun:
    """The newest run of one proof."""

    name: str
    #: UTC, ISO 8601.
    ran_at: str
    #: Abbreviated hash; with "+" where the checkout held uncommitted changes.
    commit: str
    #: "passed" or "failed".
    result: str
    #: What pytest counted; 0 for a command that is not pytest.
    passed: int
    failed: int
    seconds: int
    #: sha256 over what it covers (`Proof.covers`), as it was then.
    digest: str


def read_proofs(definition: Path) -> tuple[Proof, ...]:
    """The proofs of a TOML file, in its order; devtools/proofs.toml says what its fields mean."""
    tables = tomllib.loads(definition.read_text())
    return tuple(
        Proof(
            name=name,
            claim=table["claim"],
            command=tuple(table.get("command") or _pytest_command(table["asks"])),
            proves=tuple(table["proves"]),
            asks=tuple(f"tests/{test}" for test in table.get("asks", ())),
            everyday=tuple(f"tests/{test}" for test in table.get("everyday", ())),
        )
        for name, table in tables.items()
    )


def _pytest_command(tests: Iterable[str]) -> list[str]:
    """pytest over the files of these tests. A test that hangs is ended with its stacks."""
    files = dict.fromkeys(f"tests/{test.split('::')[0]}" for test in tests)
    return [
        "-m",
        "pytest",
        *files,
        "-m",
        "thorough",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-p",
        "no:randomly",
        *limit_seconds(900),
    ]


PROOFS = read_proofs(Path(__file__).with_name("proofs.toml"))


def is_thorough(nodeid: str) -> bool:
    """Whether a test belongs to a slow proof alone: the everyday lane does not ask it."""
    asking = [proof for proof in PROOFS if proof.asks and nodeid.startswith(proof.asks)]
    return any(not (proof.everyday and nodeid.startswith(proof.everyday)) for proof in asking)


def digest_code(paths: Iterable[str], root: Path = ROOT) -> str:
    """sha256 over names and bytes of every file below `paths`: pages are proven with their templates and styles."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        place = root / path
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if not file.is_file() or file.suffix == ".pyc":
                continue
            digest.update(f"{file.relative_to(root)}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def read_record(record: Path = RECORD) -> dict[str, ProofRun]:
    """The newest run of each proof, by name."""
    if not record.exists():
        return {}
    return {entry["name"]: ProofRun(**entry) for entry in json.loads(record.read_text())}


def list_stale(proofs: Sequence[Proof], runs: dict[str, ProofRun], root: Path = ROOT) -> list[str]:
    """One line for each proof that was never run, did not pass, or is older than the code that it proves."""
    lines = []
    for proof in proofs:
        run = runs.get(proof.name)
        if run is None:
            lines.append(f"{proof.name}: never run.")
        elif run.result != "passed":
            lines.append(f"{proof.name}: failed on {run.ran_at[:10]} at {run.commit}.")
        elif run.digest != digest_code(proof.covers, root):
            lines.append(
                f"{proof.name}: ran on {run.ran_at[:10]} at {run.commit}; since then its tests, Spark's version or "
                f"{', '.join(proof.proves)} changed."
            )
    return lines


def run_proof(python: Path, proof: Proof) -> ProofRun:
    """Run one proof, showing what it prints, and give its result."""
    digest, commit = digest_code(proof.covers), read_commit()
    began, ran_at = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    last_counts: dict[str, int] = {}
    with subprocess.Popen(
        [str(python), *proof.command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if counts := {word: int(number) for number, word in COUNTS.findall(line)}:
                last_counts = counts
        code = process.wait()
    return ProofRun(
        name=proof.name,
        ran_at=ran_at,
        commit=commit,
        result="passed" if code == 0 else "failed",
        passed=last_counts.get("passed", 0),
        failed=last_counts.get("failed", 0) + last_counts.get("error", 0),
        seconds=round(time.monotonic() - began),
        digest=digest,
    )


def read_commit() -> str:
    """Abbreviated hash of HEAD, with "+" where tracked files differ from it."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    # without the record itself, which the proof before this one has just written
    but_record = [f":!{path.relative_to(ROOT)}" for path in (RECORD, PAGE)]
    dirty = (
        subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ".", *but_record], cwd=ROOT).returncode != 0
    )
    return (head.stdout.strip() or "unknown") + ("+" if dirty else "")


def keep_run(run: ProofRun, record: Path = RECORD, page: Path = PAGE) -> None:
    """Write one result into the record and the page, over the older run of the same proof."""
    runs = {**read_record(record), run.name: run}
    known = [proof.name for proof in PROOFS]
    ordered = [runs[name] for name in known if name in runs]
    record.write_text(json.dumps([asdict(entry) for entry in ordered], indent=1) + "\n")
    page.write_text(write_page(PROOFS, runs))


HEAD = """# Proofs: what was asked of real systems, when, and on which commit

Written by `bin/test --all`, with `proofs.json`, which holds a digest of what each proof covers. A proof runs the tests
that the everyday lane leaves out, so a claim holds for a commit on which its proof and the everyday lane passed.
`bin/check` names every proof whose code or tests changed since. "+": the checkout held uncommitted changes.
[testing.md](testing.md) describes the lanes.

| proof | what is true when it passes | code that it proves | run at (UTC) | commit | result | tests | minutes |
|---|---|---|---|---|---|---|---|
"""


def write_page(proofs: Sequence[Proof], runs: dict[str, ProofRun]) -> str:
    """docs/proofs.md."""
    lines = []
    for proof in proofs:
        run = runs.get(proof.name)
        ran = ("never", "", "not run", "", "")
        if run is not None:
            counted = (
                f"{run.passed} passed" + (f", {run.failed} failed" if run.failed else "")
                if run.passed
                else ""
            )
            ran = (
                run.ran_at[:16].replace("T", " "),
                run.commit,
                run.result,
                counted,
                f"{run.seconds / 60:.1f}",
            )
        proven = ", ".join(f"`{path}`" for path in proof.proves)
        lines.append(f"| {proof.name} | {proof.claim} | {proven} | {' | '.join(ran)} |\n")
    return HEAD + "".join(lines)


def named(names: Sequence[str]) -> list[Proof]:
    """The proofs of these names; all of them for none. Raises KeyError with the first name that is not known."""
    by_name = {proof.name: proof for proof in PROOFS}
    return [by_name[name] for name in names] if names else list(PROOFS)
