"""`python -m tests.chaos`: recoveries under strikes, with a report. Exit 1 when anything was lost or not proven."""

import argparse
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from console.incident.making import Incident
from recovery.errors import RepriseError
from tests.chaos import person
from tests.chaos.person import Outcome, Responder
from tests.chaos.report import Report
from tests.chaos.strikes import Striker
from tests.stack import Stack, clean_environment, start

QUICK = {"REPRISE_HEARTBEAT_SECONDS": "0.5", "REPRISE_SILENCE_SECONDS": "4"}
DISK = "3g"
HEALTHY_SECONDS = 240


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description="Strikes a whole instance while recoveries run: kills, freezes, a flushed broker, a full disk. "
        "Afterwards counts rows lost and doubled, resets done twice, and breaks of the audit chain: all must be 0.",
    )
    made.add_argument(
        "--kills", type=int, default=200, help="go on until so many kills were done (default: 200)"
    )
    made.add_argument("--each", type=int, default=6, help="strikes for each recovery (default: 6)")
    made.add_argument(
        "--at-once", type=int, default=2, help="recoveries that run at the same time (default: 2)"
    )
    made.add_argument("--seed", type=int, default=1, help="of the dice (default: 1)")
    made.add_argument(
        "--minutes", type=float, default=180, help="begin no further recovery after this (default: 180)"
    )
    made.add_argument("--json", action="store_true", help="one JSON object on stdout")
    made.add_argument("--report", type=Path, help="write the page there")
    return made


def log(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


@contextlib.contextmanager
def small_disk() -> Iterator[tuple[Path, bool]]:
    """A folder for everything the instance writes, and whether it may be filled: on a file system of its own."""
    place = Path(tempfile.mkdtemp(prefix="reprise-chaos-"))
    mounted = (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)], capture_output=True
        ).returncode
        == 0
    )
    try:
        yield place, mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=False)
        shutil.rmtree(place, ignore_errors=True)


def healthy(stack: Stack) -> None:
    """Wait until every part answers again. Raises AssertionError after HEALTHY_SECONDS."""
    until, why = time.monotonic() + HEALTHY_SECONDS, ""
    while time.monotonic() < until:
        code, _, err = stack.manage("flows", "--json", token="viewer")
        try:
            stack.client.list_pipelines()
            if code in (0, 1):
                return
            why = err
        except (RepriseError, OSError, ValueError) as problem:
            why = str(problem)
        time.sleep(0.5)
    raise AssertionError(f"The instance did not come back within {HEALTHY_SECONDS} s: {why}")


class Campaign:
    """Pairs of incident and recovery, `at_once` at a time, until the kills are reached."""

    def __init__(self, stack: Stack, striker: Striker, options: argparse.Namespace) -> None:
        self.stack, self.striker, self.options = stack, striker, options
        self.outcomes: list[Outcome] = []
        self.until = time.monotonic() + options.minutes * 60
        self.number = 0

    def kills(self) -> int:
        return sum(1 for s in self.striker.done if s.how == "kill")

    def run(self) -> None:
        while self.kills() < self.options.kills and time.monotonic() < self.until:
            self.round()
            log(
                f"{len(self.outcomes)} recoveries, {self.kills()} kills, {sum(o.bad for o in self.outcomes)} not good"
            )

    def round(self) -> None:
        """Incidents in peace, recoveries under strikes, counting in peace."""
        incidents = [self.incident() for _ in range(self.options.at_once)]
        self.striker.more(self.options.each * len(incidents))
        found: queue.SimpleQueue[tuple[Incident, Outcome]] = queue.SimpleQueue()
        threads = [threading.Thread(target=self.recover, args=(i, found)) for i in incidents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.striker.calm()
        healthy(self.stack)
        for _ in incidents:
            incident, outcome = found.get()
            person.count(self.stack, incident, outcome)
            counted = f"lost {outcome.lost}, doubled {outcome.doubled}, reset twice {outcome.double_resets}"
            log(
                f"{outcome.name}: {outcome.state} after {outcome.seconds} s, {counted}, resumed {outcome.resumed}"
            )
            if outcome.bad:
                log("; ".join(outcome.said[-5:]))
            self.outcomes.append(outcome)

    def incident(self) -> Incident:
        self.number += 1
        return self.stack.incident(f"chaos{self.number}")

    def recover(self, incident: Incident, found: Any) -> None:
        found.put((incident, Responder(self.stack, incident, log).recover()))


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with small_disk() as (place, can_fill):
        stack = start(place / "home", "--no-incident", **QUICK)
        for name in [n for n in os.environ if n.startswith(("REPRISE_", "DJANGO_"))]:
            del os.environ[name]
        os.environ |= {k: v for k, v in clean_environment(stack.home).items() if k.startswith("REPRISE_")}
        os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
        import django

        django.setup()
        striker = Striker(stack, options.seed, can_fill, log)
        campaign = Campaign(stack, striker, options)
        try:
            campaign.run()
        finally:
            striker.end()
            breaks, said = person.chain_breaks(stack)
            stack.end()
    left_out = [] if can_fill else ["a full disk (no file system of its own could be mounted)"]
    report = Report(
        options.seed,
        "SQLite",
        time.monotonic() - began,
        striker.done,
        campaign.outcomes,
        breaks,
        said,
        left_out,
    )
    if options.report:
        options.report.write_text(report.page())
    sys.stdout.write(json.dumps(report.as_dict()) + "\n" if options.json else report.page())
    return 1 if report.bad or not campaign.outcomes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
