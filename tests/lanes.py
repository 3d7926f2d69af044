"""A pytest plugin: seconds of every test into a file, and a budget that fails the lane when a test exceeds it.

`bin/test` passes `--budget` and `--seconds-file` (devtools/lanes.py); a pytest call without them is as it always was.
"""

import json
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from devtools.lanes import LEAVE_OUT, OVER_BUDGET
from devtools.proofs import is_thorough


@dataclass
class TestSeconds:
    """What one test took, in seconds of the clock; `cpu` is of the process that ran it, without its children."""

    __test__ = False
    nodeid: str
    setup: float = 0.0
    call: float = 0.0
    teardown: float = 0.0
    cpu: float = 0.0
    outcome: str = "passed"


class LaneReport:
    """Collects the reports of one run in the process that controls it."""

    def __init__(self, budget: float | None, target: Path | None) -> None:
        self.budget = budget
        self.target = target
        self.tests: dict[str, TestSeconds] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = self.tests.setdefault(report.nodeid, TestSeconds(report.nodeid))
        setattr(seconds, report.when or "call", report.duration)
        seconds.cpu += getattr(report, "cpu_seconds", 0.0)
        if not report.passed:
            seconds.outcome = report.outcome

    @property
    def over_budget(self) -> list[TestSeconds]:
        """Tests whose own call took longer than the lane allows. Set-up is shared, so it counts for nobody."""
        if self.budget is None:
            return []
        return [seconds for seconds in self.tests.values() if seconds.call > self.budget]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for seconds in self.over_budget:
            seconds.outcome = OVER_BUDGET if seconds.outcome == "passed" else seconds.outcome
        if self.target is not None:
            self.target.write_text("".join(json.dumps(asdict(s)) + "\n" for s in self.tests.values()))
        if self.over_budget and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.over_budget:
            terminalreporter.section(f"tests over this lane's budget of {self.budget:.0f} s")
            for seconds in sorted(self.over_budget, key=lambda s: -s.call):
                terminalreporter.line(f"{seconds.call:7.1f} s  {seconds.nodeid}", red=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lanes")
    group.addoption("--budget", type=float, help="Seconds that no test's call may exceed.")
    group.addoption("--seconds-file", type=Path, help="JSON lines: what each test took.")
    group.addoption(
        LEAVE_OUT, action="store_true", help="Leave out what the everyday lane asks of PostgreSQL alone."
    )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # with xdist, the process that controls the workers
        report = LaneReport(config.getoption("budget"), config.getoption("seconds_file"))
        config.pluginmanager.register(report, "lane-report")


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_thorough(item.nodeid):
            item.add_marker(pytest.mark.thorough)


_cpu_at_last_report = time.process_time()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    global _cpu_at_last_report
    report = yield
    now = time.process_time()
    report.cpu_seconds = now - _cpu_at_last_report  # type: ignore[attr-defined]
    _cpu_at_last_report = now
    return report
