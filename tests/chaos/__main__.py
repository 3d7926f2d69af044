"""`python -m tests.chaos`: recoveries under strikes, with a report. Exit 1 when anything was lost or not proven."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from console.incident.making import Incident
from recovery.errors import RepriseError
from tests import databases
from tests.chaos import database, person, visitor
from tests.chaos.person import Outcome, Responder
from tests.chaos.report import Run, keep, page
from tests.chaos.strikes import Striker
from tests.stack import Stack, clean_environment, start

T = TypeVar("T")
R = TypeVar("R")
QUICK = {"REPRISE_HEARTBEAT_SECONDS": "0.5", "REPRISE_SILENCE_SECONDS": "4"}
DISK = "1g"
BATCHES = 2  # before the failure
HEALTHY_SECONDS = 240
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description="Strikes a whole instance while recoveries run: kills, freezes, a flushed broker, a full disk. "
        "Afterwards counts rows lost and doubled, resets done twice, and breaks of the audit chain: all must be 0.",
    )
    made.add_argument(
        "--kills", type=int, default=200, help="go on until so many kills were done (default: 200)"
    )
    made.add_argument("--each", type=int, default=15, help="strikes for each recovery (default: 15)")
    made.add_argument(
        "--early",
        type=float,
        default=0.25,
        help="the share of them that falls while it is planned, the others fall while its steps run (default: 0.25)",
    )
    made.add_argument(
        "--at-once", type=int, default=4, help="recoveries that run at the same time (default: 4)"
    )
    made.add_argument(
        "--database",
        choices=tuple(NAMES),
        default="sqlite",
        help="postgresql: a real server, which is struck too (default: sqlite)",
    )
    made.add_argument("--seed", type=int, default=1, help="of the order of the strikes (default: 1)")
    made.add_argument(
        "--minutes", type=float, default=180, help="begin no further recovery after this (default: 180)"
    )
    made.add_argument("--json", action="store_true", help="one JSON object on stdout")
    made.add_argument(
        "--report",
        type=Path,
        help="keep this run beside PAGE (.jsonl), and write PAGE anew from all runs there, after every round",
        metavar="PAGE",
    )
    made.add_argument("--logs", type=Path, help="copy the instance's logs there at the end", metavar="DIR")
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
    until = time.monotonic() + HEALTHY_SECONDS
    while why := missing(stack):
        if time.monotonic() > until:
            raise AssertionError(f"The instance did not come back within {HEALTHY_SECONDS} s: {why}")
        time.sleep(0.5)


def missing(stack: Stack) -> str:
    """What does not answer: the console, the command line, the Pipelines server. Empty when all do."""
    if why := visitor.answers(stack):
        return why
    code, _, err = stack.manage("flows", "--fresh", "--json", token="viewer")
    if code not in (0, 1):
        return err
    try:
        stack.client.list_pipelines()
    except (RepriseError, OSError, ValueError) as problem:
        return str(problem)
    return ""


def together(act: Callable[[T], R], on: Sequence[T]) -> list[R]:
    """What `act` gives for each, in their order. Its threads hold up nobody who ends this process meanwhile."""
    ends: dict[int, Future[R]] = {n: Future() for n in range(len(on))}

    def run(number: int) -> None:
        try:
            ends[number].set_result(act(on[number]))
        except Exception as problem:
            ends[number].set_exception(problem)

    for number in ends:
        threading.Thread(target=run, args=(number,), daemon=True).start()
    return [end.result() for end in ends.values()]


class Campaign:
    """Pairs of incident and recovery, `at_once` at a time, until the kills are reached."""

    def __init__(
        self, stack: Stack, striker: Striker, options: argparse.Namespace, answers: Mapping[str, int]
    ) -> None:
        self.stack, self.striker, self.options = stack, striker, options
        self.outcomes: list[Outcome] = []
        self.began = time.monotonic()
        self.number = 0
        self.run = Run(
            options.seed,
            NAMES[options.database],
            datetime.now(UTC).isoformat(timespec="seconds"),
            striker.done,
            self.outcomes,
            answers,
            left_out=[] if striker.can_fill else ["a full disk: no file system of its own could be mounted"],
        )

    def go(self) -> None:
        """Rounds until there were enough kills. Whatever ends them early is a problem of the run."""
        until = self.began + self.options.minutes * 60
        try:
            while self.run.kills < self.options.kills and time.monotonic() < until:
                self.round()
                self.keep()
                bad = sum(o.bad for o in self.outcomes)
                log(f"{len(self.outcomes)} recoveries, {self.run.kills} kills, {bad} not good")
        except Exception as problem:
            traceback.print_exc()
            self.run.problems.append(f"{type(problem).__name__}: {problem}"[:1000])
            self.keep()

    def keep(self) -> None:
        self.run.seconds = time.monotonic() - self.began
        if self.options.report:
            keep(self.options.report, self.run.as_dict())

    def round(self) -> None:
        """Incidents in peace, recoveries under strikes, counting in peace."""
        names = [f"chaos{self.number + n + 1}" for n in range(self.options.at_once)]
        self.number += len(names)
        incidents = together(lambda name: self.stack.incident(name, batches=BATCHES), names)
        log(f"{', '.join(names)} have failed; the strikes begin")
        ends = together(self.recover, incidents)
        self.striker.calm()
        healthy(self.stack)
        for incident, outcome in zip(incidents, ends, strict=True):
            self.outcomes.append(outcome)
            person.count(self.stack, incident, outcome)
            counted = f"lost {outcome.lost}, doubled {outcome.doubled}, reset twice {outcome.double_resets}"
            log(
                f"{outcome.name}: {outcome.state} after {outcome.seconds} s, {counted}, resumed {outcome.resumed}"
            )
            if outcome.bad:
                log("; ".join(outcome.said[-5:]))
        self.run.chain_breaks, self.run.chain = person.chain_breaks(self.stack)

    def recover(self, incident: Incident) -> Outcome:
        """Some of its strikes from the start, while it is planned, the others when its steps begin to run."""
        early = round(self.options.each * self.options.early)
        self.striker.more(early)

        def runs() -> None:
            log(f"{incident.name} runs")
            self.striker.more(self.options.each - early)

        return Responder(self.stack, incident, log, runs).recover()


def use(stack: Stack) -> None:
    """Let this process read the instance's database through Django."""
    for name in [n for n in os.environ if n.startswith(("REPRISE_", "DJANGO_"))]:
        del os.environ[name]
    os.environ |= {k: v for k, v in clean_environment(stack.home).items() if k.startswith("REPRISE_")}
    os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
    import django

    django.setup()


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as ends:
        place, can_fill = ends.enter_context(small_disk())
        server = None
        if options.database == "postgresql":
            server = ends.enter_context(database.running(place / "database", options.seed, log))
        stack = start(
            place / "home", "--no-incident", **QUICK, **databases.fresh(server.url if server else "")
        )
        if options.logs:
            options.logs.mkdir(parents=True, exist_ok=True)
            ends.callback(shutil.copy, stack.output, options.logs)
            ends.callback(shutil.copytree, stack.home / "logs", options.logs, dirs_exist_ok=True)
        ends.callback(stack.end)
        use(stack)
        visiting = visitor.Visitor(stack, log)
        ends.callback(visiting.end)
        striker = Striker(stack, options.seed, can_fill, log, server)
        ends.callback(striker.end)
        campaign = Campaign(stack, striker, options, visiting.answers)
        campaign.go()
    run = campaign.run
    sys.stdout.write((json.dumps(run.as_dict()) if options.json else page([run.as_dict()])) + "\n")
    return 1 if run.bad or not campaign.outcomes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
