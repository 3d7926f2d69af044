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
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from console.supervisor.bootstrap import ROOT

RECORD = ROOT / "docs" / "proofs.json"
PAGE = ROOT / "docs" / "proofs.md"
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
    #: sha256 over the code that it proves, as it was then.
    digest: str


CORE = ("recovery/checkpoints",)
STARTS = (*CORE, "recovery/sources", "recovery/sinks", "recovery/strategies")
SPARK = ("recovery/spark", "recovery/verification")
RUNS = ("recovery/workflow", "recovery/server", "recovery/pipelines")
HERE = "tests/integration/test_"


def pytest_command(*arguments: str) -> tuple[str, ...]:
    """The command of a proof that is made of tests. A test that hangs is ended with its stacks."""
    return ("-m", "pytest", *arguments, "-n", "2", "--dist", "loadgroup", "--timeout=900")


def from_tests(
    name: str, claim: str, proves: tuple[str, ...], asks: tuple[str, ...], everyday: tuple[str, ...] = ()
) -> Proof:
    """A proof made of the tests whose ids begin with one of `asks`; the everyday lane asks those of `everyday` too."""
    files = tuple(dict.fromkeys(test.split("::")[0] for test in asks))
    return Proof(name, claim, pytest_command(*files, "-m", "thorough"), proves, asks, everyday)


PROOFS: tuple[Proof, ...] = (
    from_tests(
        "damages",
        "Spark does to every damaged checkpoint what the record says, and `inspect` predicts it",
        CORE,
        asks=(f"{HERE}damages_on_spark.py", f"{HERE}more_damages_on_spark.py", f"{HERE}state_on_spark.py"),
    ),
    from_tests(
        "transplants",
        "State that Spark wrote goes on with exactly the right rows in another, a mended or a seeded checkpoint",
        CORE,
        asks=(f"{HERE}transplant_on_spark.py", f"{HERE}checkpoints_on_spark.py"),
    ),
    from_tests(
        "positions",
        "A seed or a start option at any position reads exactly the rows that were forecast: files, Kafka, Delta, rate",
        STARTS,
        asks=(
            f"{HERE}seeds_on_spark.py", f"{HERE}file_positions_on_spark.py", f"{HERE}kafka_on_spark.py",
            f"{HERE}delta_on_spark.py", f"{HERE}delta_incidents_on_spark.py", f"{HERE}s3_on_spark.py",
        ),
    ),
    from_tests(
        "counts",
        "What a flow yields between two positions is counted to the row: Kafka, Delta, change feeds, files, mixed",
        (*SPARK, "recovery/sources"),
        asks=(
            f"{HERE}delta_slices_on_spark.py", f"{HERE}mixed_slices_on_spark.py", f"{HERE}slices_on_spark.py",
            f"{HERE}delta_measures_on_spark.py",
        ),
    ),
    from_tests(
        "rehearsals",
        "A rehearsal yields what the update then writes; a rewind writes every open window whole and none twice",
        (*SPARK, *CORE, "recovery/workflow"),
        asks=(f"{HERE}rehearsal_on_spark.py", f"{HERE}rewind_on_spark.py"),
    ),
    from_tests(
        "recoveries",
        "Whole recoveries beyond one of each kind: refused, earlier and later positions, refreshes, other sinks",
        (*STARTS, *SPARK, *RUNS),
        asks=(
            f"{HERE}first_recovery.py", f"{HERE}kafka_to_delta.py", f"{HERE}kafka_to_kafka.py", f"{HERE}repair.py",
            f"{HERE}when_things_are_wrong.py",
        ),
    ),
    from_tests(
        "kills",
        "Killed workers, servers, brokers and drivers come back, and a run cut in the middle ends exactly-once",
        ("recovery/workflow", "recovery/server", "console/supervisor"),
        asks=(
            f"{HERE}kills.py", f"{HERE}demo.py", "tests/contract/test_process.py", "tests/chaos/test_short.py",
            "tests/contract/test_compose_processes.py",
        ),
    ),
    from_tests(
        "stores",
        "A worker killed at any write to an object store leaves what the next one recognises",
        CORE,
        asks=("tests/contract/test_s3.py",),
    ),
    Proof(
        "matrix",
        "In every cell of source, sink and incident the forecast is what Spark then does (docs/matrix.md)",
        ("-m", "tests.matrix"),
        (*STARTS, *SPARK),
    ),
    Proof(
        "fuzz",
        "No bytes make a reader of checkpoints end with anything but its own refusal",
        ("-m", "tests.fuzz", "--seconds", "20"),
        CORE,
    ),
    Proof(
        "chaos",
        "Thirty strikes on a running instance lose and double no row (docs/chaos.md)",
        ("-m", "tests.chaos", "--kills", "30"),
        ("recovery/workflow", "recovery/server", "recovery/audit"),
    ),
)  # fmt: skip


def is_thorough(nodeid: str) -> bool:
    """Whether a test belongs to a slow proof alone: the everyday lane does not ask it."""
    return any(
        nodeid.startswith(proof.asks) and not nodeid.startswith(proof.everyday)
        for proof in PROOFS
        if proof.asks
    )


def digest_code(paths: Iterable[str], root: Path = ROOT) -> str:
    """sha256 over names and bytes of every Python file below `paths`."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        place = root / path
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
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
        elif run.digest != digest_code(proof.proves, root):
            lines.append(
                f"{proof.name}: ran on {run.ran_at[:10]} at {run.commit}; {', '.join(proof.proves)} changed since."
            )
    return lines


def run_proof(python: Path, proof: Proof) -> ProofRun:
    """Run one proof, showing what it prints, and give its result."""
    digest, commit = digest_code(proof.proves), read_commit()
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
    dirty = subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT).returncode != 0
    return (head.stdout.strip() or "unknown") + ("+" if dirty else "")


def keep_run(run: ProofRun, record: Path = RECORD, page: Path = PAGE) -> None:
    """Write one result into the record and the page, over the older run of the same proof."""
    runs = {**read_record(record), run.name: run}
    known = [proof.name for proof in PROOFS]
    ordered = [runs[name] for name in known if name in runs]
    record.write_text(json.dumps([asdict(entry) for entry in ordered], indent=1) + "\n")
    page.write_text(write_page(PROOFS, runs))


HEAD = """# Proofs: what was asked of real systems, when, and on which commit

Written by `bin/test --all`. Each proof takes minutes; the everyday lane of `bin/test` asks a part of what it asks.
`bin/check` names every proof that is older than the code that it proves. [testing.md](testing.md) describes the lanes.

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
