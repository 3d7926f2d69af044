"""The plugin of the lanes, in pytest runs of its own: seconds are kept, a slow test fails its lane."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from console.supervisor import tools
from console.supervisor.bootstrap import ROOT, CannotStart
from devtools import lanes
from tests import databases

MODULE = """
import time

def test_quick() -> None:
    assert time.time()

def test_slow() -> None:
    deadline = time.process_time() + 0.4
    while time.process_time() < deadline:
        pass
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_sample.py").write_text(MODULE)
    plugins = ("-p", "xdist.plugin", "-p", "tests.lanes", "-p", "no:cacheprovider")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(folder / "pytest.ini"), *plugins, str(folder), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )


@dataclass(frozen=True)
class Overrun:
    """A run whose slow test exceeds the budget: its end, and the seconds that it kept of each test."""

    run: subprocess.CompletedProcess[str]
    seconds: dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=["0", "2"])
def overrun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Overrun:
    """Without workers, and with two."""
    folder = tmp_path_factory.mktemp("overrun")
    target = folder / "seconds.jsonl"
    run = run_pytest(folder, "--budget=0.3", "-n", request.param, f"--seconds-file={target}")
    kept = map(json.loads, target.read_text().splitlines())
    return Overrun(run, {seconds["nodeid"].split("::")[1]: seconds for seconds in kept})


def test_a_test_over_the_budget_fails_the_lane_and_is_named(overrun: Overrun) -> None:
    assert overrun.run.returncode == 1
    assert "2 passed" in overrun.run.stdout
    assert "test_slow" in overrun.run.stdout.partition("over this lane's budget")[2]


def test_within_the_budget_the_lane_passes(tmp_path: Path) -> None:
    assert run_pytest(tmp_path, "--budget=60").returncode == 0


def test_the_seconds_of_every_test_are_kept(overrun: Overrun) -> None:
    kept = overrun.seconds
    assert set(kept) == {"test_quick", "test_slow"}
    assert kept["test_slow"]["call"] >= 0.4
    assert kept["test_slow"]["cpu"] >= 0.4


@pytest.mark.parametrize("part", lanes.EVERYDAY, ids=lambda part: part.name)
def test_no_argument_of_a_part_is_below_another_one_which_would_make_pytest_drop_it(part: lanes.Part) -> None:
    paths = [Path(argument) for argument in part.arguments if (ROOT / argument).exists()]

    assert paths
    assert [path for path in paths if {*path.parents} & {*paths}] == []


def test_of_the_pages_postgresql_is_asked_of_those_of_lists_alone() -> None:
    ignored = {ROOT / path for path in lanes.NOT_ON_POSTGRESQL}
    pages = {page.name for page in (ROOT / lanes.UNIT / "pages").glob("test_*.py") if page not in ignored}

    assert pages == {*lanes.PAGES_OF_LISTS}
    assert ROOT / lanes.UNIT / "pages" not in ignored
    assert [path for path in ignored if not path.exists()] == []


def test_what_both_databases_are_asked_is_there_and_is_asked_of_postgresql() -> None:
    both = [ROOT / path for path in lanes.ON_BOTH]

    assert [path for path in both if not path.exists()] == []
    assert {*lanes.ON_BOTH} & {*lanes.NOT_ON_POSTGRESQL} == set()


@pytest.mark.parametrize(
    ("module", "postgresql_alone"),
    [
        ("workflow/test_actions.py", True),
        ("pages/test_lists.py", True),
        ("pages/test_run.py", False),
        ("words/test_pages.py", False),
        ("approvals/test_histories.py", False),
        ("approvals/test_approval_processes.py", False),
    ],
)
def test_a_database_test_stays_on_sqlite_where_postgresql_is_not_asked_or_both_are(
    module: str, postgresql_alone: bool
) -> None:
    assert databases.is_asked_of_postgresql_alone(ROOT / lanes.UNIT / module) is postgresql_alone


@pytest.mark.parametrize(
    ("arguments", "lane", "rest"),
    [
        ([], "", []),
        (["-k", "x"], "", ["-k", "x"]),
        (["--all"], "--all", []),
        (["--all", "matrix"], "--all", ["matrix"]),
        (["--changed", "main"], "--changed", ["main"]),
        (["--ask-again"], "--ask-again", []),
    ],
)
def test_the_lane_is_the_first_argument(arguments: list[str], lane: str, rest: list[str]) -> None:
    assert tools.chosen_lane(arguments) == (lane, rest)


def test_a_proof_that_is_not_there_is_refused() -> None:
    with pytest.raises(CannotStart, match="no proof nothing"):
        tools.refuse_unknown_proofs(["nothing"])


def test_a_run_of_the_nearest_tests_keeps_the_seconds_of_the_whole_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[lanes.Part] = []
    chosen = subprocess.CompletedProcess((), 0, stdout="tests/unit/devtools\n\n\n0\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: chosen)
    monkeypatch.setattr(lanes, "run_parts", lambda _, parts: asked.extend(parts) or [])

    tools.run_changed(Path(sys.executable), [])
    assert [part.name for part in asked] != [lanes.UNIT_SQLITE.name]


def lay_out_part(folder: Path, patch: pytest.MonkeyPatch, module: str, timeout: float = 60) -> lanes.Part:
    """A part of one module of its own."""
    patch.setattr(lanes, "SECONDS_FOLDER", folder / "seconds")
    patch.setattr(lanes, "ROOT", folder)  # ids are relative to where pytest runs
    # No plugin but those that the lane's options are of: the others take seconds to import.
    patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = "-p no:cacheprovider -p tests.lanes -p xdist.plugin -p pytest_timeout"
    patch.setenv("PYTEST_ADDOPTS", f"-c {os.devnull} --rootdir={folder} {plugins}")
    patch.setenv("PYTHONPATH", str(ROOT))
    path = folder / "test_sample.py"
    path.write_text(module)
    return lanes.Part("sample", "sqlite", (str(path),), budget=60, timeout=timeout)


HOLDS_THE_INTERPRETER = """
import ctypes

def test_hangs() -> None:
    held = ctypes.create_string_buffer(64)  # a mutex of pthread that nobody has, then this thread
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(held)
"""


def test_a_test_that_hangs_where_python_cannot_interrupt_it_is_ended_with_its_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lanes, "LAST_RESORT_SECONDS", 1)
    part = lay_out_part(tmp_path, monkeypatch, HOLDS_THE_INTERPRETER, timeout=1)

    result = lanes.run_part(Path(sys.executable), part)

    assert result.code != 0
    assert result.seconds < 40
    assert "in test_hangs" in capfd.readouterr().err


FLAKY = """
from pathlib import Path

import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_passes_the_second_time(number: int) -> None:
    seen = Path(__file__).with_name(f"seen{{number}}")
    asked_before = seen.exists() and {passes_later}
    seen.touch()
    assert asked_before
"""


@pytest.mark.parametrize(
    ("tests", "passes_later", "ask_again", "code", "flaky"),
    [
        (1, True, False, 1, 0),
        (1, False, True, 1, 0),
        (lanes.MOST_FLAKY, True, True, 0, lanes.MOST_FLAKY),
        (lanes.MOST_FLAKY + 1, True, True, 1, 0),
    ],
)
def test_a_few_failed_tests_are_asked_again_and_named_where_that_is_wanted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tests: int,
    passes_later: bool,
    ask_again: bool,
    code: int,
    flaky: int,
) -> None:
    part = lay_out_part(tmp_path, monkeypatch, FLAKY.format(tests=tests, passes_later=passes_later))

    result = lanes.run_part(Path(sys.executable), part, ask_again=ask_again)

    assert (result.code, len(result.flaky)) == (code, flaky)
