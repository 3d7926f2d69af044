"""The lanes of bin/test: which pytest calls each of them makes, and how long a test of each may take.

Standard library only: bin/test reads this before it knows that the environment is current. docs/testing.md describes
the lanes for people.
"""

import json
import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from console.supervisor import postgres
from console.supervisor.bootstrap import ROOT, print_line, progress_line

UNIT = "tests/unit"
RUNNING = ("tests", f"--ignore={UNIT}")
SECONDS_FOLDER = ROOT / ".venv" / "seconds"


@dataclass(frozen=True)
class Part:
    """One pytest call of a lane."""

    name: str
    #: "sqlite" or "postgresql": the database of the tests' own process.
    database: str
    #: What pytest is given besides the options that every part has.
    arguments: tuple[str, ...]
    #: Seconds: a test that takes longer fails the part.
    budget: float
    #: Seconds: a test that takes longer is ended, and its stacks are printed.
    timeout: float


@dataclass(frozen=True)
class PartResult:
    """How one pytest call ended."""

    part: Part
    #: pytest's exit code; 5 (no test was collected) counts as good.
    code: int
    seconds: float
    #: Ids of the tests that failed, and passed when they were asked again by themselves.
    flaky: tuple[str, ...] = ()


# Unit tests are bound by the processor, but a third of their time goes to processes and files: one worker more than
# there are cores. Tests on a running instance mostly wait for Spark.
UNIT_WORKERS = ("-n", str(min((os.cpu_count() or 1) + 1, 8)), "--dist", "worksteal")
# In their written order: some modules tell a pipeline's life test by test, and pages need a fresh sign-in.
RUNNING_WORKERS = (
    "-n",
    os.environ.get("REPRISE_TEST_WORKERS", "3"),
    "--dist",
    "loadgroup",
    "-p",
    "no:randomly",
)
#: After its time limit, a test has these seconds to end as Python's exceptions do. One that hangs in C code cannot: its
#: process is ended, with the stacks of all threads.
LAST_RESORT_SECONDS = 60
#: The outcome of a test that passed and took longer than its part allows.
OVER_BUDGET = "over budget"
#: More failed tests than this are a broken change, not flaky tests: nothing is asked again.
MOST_FLAKY = 3
EVERY_DAY = ("-m", "not thorough")
# Most pages and rights send the same few queries, whichever page shows the answer. So the everyday lane asks PostgreSQL
# for the rooms that write and list, and for the pages of lists; the proof `postgresql` asks it for everything.
PAGES_OF_LISTS = ("test_lists.py", "test_search.py", "test_audit.py")
# Each other page by itself: with their folder ignored, pytest would leave out the pages of lists too. To name these
# as well does not help, since pytest drops an argument that is below another one (`tests/unit`).
OTHER_PAGES = tuple(
    f"{UNIT}/pages/{page.name}"
    for page in sorted((ROOT / UNIT / "pages").glob("test_*.py"))
    if page.name not in PAGES_OF_LISTS
)
# Tables of what one process decides from rows that it reads by the same few queries: neither locks nor order matter.
DECIDED_IN_ONE_PROCESS = tuple(
    f"{UNIT}/{module}"
    for module in (
        "approvals/test_histories.py",
        "people/test_audit_sight.py",
        "people/test_truth_table.py",
        "pipelines/test_losses.py",
        "pipelines/test_pipeline_failures.py",
        "streams/test_running.py",
    )
)
NOT_ON_POSTGRESQL = (*OTHER_PAGES, f"{UNIT}/words", f"{UNIT}/api", *DECIDED_IN_ONE_PROCESS)
# Every other test of a database is asked of PostgreSQL alone, which production has; the proof `sqlite` asks them of
# SQLite. These are asked of both every day: they depend on how a database locks, or on its own triggers.
ON_BOTH = tuple(
    f"{UNIT}/{module}"
    for module in (
        "approvals/test_approval_processes.py",
        "audit/test_audit_guard.py",
        "pipelines/test_readers_in_order.py",
        "workflow/test_engine.py",
        "workflow/test_waiting.py",
    )
)
LEAVE_OUT = "--leave-to-postgresql"
"""pytest's option by which a run on SQLite leaves out what the part on PostgreSQL is asked."""
UNIT_SQLITE = Part(
    "unit tests, SQLite", "sqlite", (UNIT, LEAVE_OUT, *EVERY_DAY, *UNIT_WORKERS), budget=60, timeout=240
)  # fmt: skip
UNIT_POSTGRESQL = Part(
    "unit tests, PostgreSQL", "postgresql",
    (UNIT, *(f"--ignore={path}" for path in NOT_ON_POSTGRESQL), *EVERY_DAY, *UNIT_WORKERS),
    budget=60, timeout=240,
)  # fmt: skip
INSTANCE = Part(
    "running instance", "sqlite", (*RUNNING, *EVERY_DAY, *RUNNING_WORKERS), budget=240, timeout=400
)
EVERYDAY = (UNIT_SQLITE, UNIT_POSTGRESQL, INSTANCE)
SMOKE = Part(
    "one recovery, whole", "sqlite", ("tests/integration/test_first_recovery.py", "-m", "smoke", "-n", "0"),
    budget=240, timeout=400,
)  # fmt: skip


def run_part(python: Path, part: Part, more: Sequence[str] = (), *, ask_again: bool = False) -> PartResult:
    """Run one part; its seconds by test go into a file of its own, which `devtools.durations` reads.

    With `ask_again`, a few tests that failed run once more by themselves; what passes then is flaky, and named.
    """
    SECONDS_FOLDER.mkdir(parents=True, exist_ok=True)
    seconds_file = SECONDS_FOLDER / f"{part.name.replace(' ', '-').replace(',', '')}.jsonl"
    options = [
        f"--budget={part.budget}", *limit_seconds(part.timeout), "--durations=15", "--durations-min=5",
    ]  # fmt: skip
    began = time.monotonic()
    code = run_pytest(
        [str(python), "-m", "pytest", *part.arguments, *more, *options, f"--seconds-file={seconds_file}"],
        part.database,
    )
    failed = list_failed(seconds_file) if code == 1 and ask_again else ()
    if 0 < len(failed) <= MOST_FLAKY:
        print_line(f"\n== {part.name}, asked again, alone: {' '.join(failed)}")
        again = [str(python), "-m", "pytest", *failed, "-n", "0", "-p", "no:randomly", *options]
        code = run_pytest(again, part.database)
    else:
        failed = ()
    flaky = failed if code == 0 else ()
    return PartResult(part, 0 if code == 5 else code, time.monotonic() - began, flaky)


def limit_seconds(timeout: float) -> tuple[str, ...]:
    """pytest's options that end a test after so many seconds, whatever it waits for."""
    return (
        f"--timeout={timeout}",
        "-o", f"faulthandler_timeout={timeout + LAST_RESORT_SECONDS}",
        "-o", "faulthandler_exit_on_timeout=true",
    )  # fmt: skip


def list_failed(seconds_file: Path) -> tuple[str, ...]:
    """Ids of the tests that a run says failed, or exceeded the budget; () where it wrote no file."""
    if not seconds_file.exists():
        return ()
    tests = [json.loads(line) for line in seconds_file.read_text().splitlines()]
    return tuple(test["nodeid"] for test in tests if test["outcome"] in ("failed", OVER_BUDGET))


def run_pytest(command: Sequence[str], database: str) -> int:
    """Exit code of pytest. PostgreSQL is a real server of this call alone, on a socket of its own."""
    environment = {name: value for name, value in os.environ.items() if name != postgres.VARIABLE}
    with ExitStack() as stack:
        if database == "postgresql":
            began = time.monotonic()
            environment[postgres.VARIABLE] = stack.enter_context(postgres.running_server(Path(command[0])))
            print_line(progress_line("PostgreSQL ready", time.monotonic() - began))
        return subprocess.run(command, cwd=ROOT, env=environment).returncode


def run_parts(
    python: Path, parts: Sequence[Part], more: Sequence[str] = (), *, ask_again: bool = False
) -> list[PartResult]:
    """Run every part, also after one that failed: a person wants to know all that is broken."""
    results = []
    for part in parts:
        print_line(f"\n== {part.name}")
        results.append(run_part(python, part, more, ask_again=ask_again))
    return results


def measure_coverage(python: Path) -> int:
    """Run the unit tests on SQLite with branch coverage, and print what they reach by room; pytest's exit code."""
    report = ROOT / ".venv" / "coverage.json"
    options = ("--cov=console", "--cov=recovery", "--cov-branch", f"--cov-report=json:{report}")
    result = run_part(
        python, replace(UNIT_SQLITE, arguments=(UNIT, *EVERY_DAY, *UNIT_WORKERS), timeout=300), options
    )
    table = subprocess.run([str(python), "-m", "devtools.coverage_rooms", str(report)], cwd=ROOT)
    return result.code or table.returncode


def summarize(results: Sequence[PartResult], began: float) -> None:
    """One line a part, and the whole."""
    print_line("")
    for result in results:
        note = "" if result.code == 0 else f"FAILED (exit {result.code})"
        print_line(progress_line(result.part.name, result.seconds, note))
    print_line(progress_line("all of it", time.monotonic() - began))
    for name in (name for result in results for name in result.flaky):
        print_line(f"FLAKY, a defect to repair: {name} failed, and passed when it ran again by itself.")


def exit_code(results: Sequence[PartResult]) -> int:
    """The first bad exit code; 0 when every part is good."""
    return next((result.code for result in results if result.code), 0)
