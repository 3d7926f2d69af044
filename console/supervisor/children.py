"""One child process of the supervisor: started, found ready, watched, started again, ended."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from console.supervisor import processes
from console.supervisor.bootstrap import ROOT, CannotStart

LOG_LIMIT = 10_000_000  # bytes; a longer log begins again, the old one is kept beside it
HEALTHY_AFTER = 60.0  # seconds: a child that lived so long is started again at once when it dies


@dataclass
class Child:
    """What to run and how to see that it is ready. `ready` gets the child itself."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    #: value of CHILD_OF_REPRISE
    mark: str
    ready: Callable[["Child"], bool]
    #: how long the start may take
    seconds: float
    #: how long it may take to end before it is forced
    grace: float = 5.0
    #: file descriptors to pass on
    inherit: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    started: float = 0.0
    log_from: int = 0
    deaths: int = 0
    is_ready: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid if self.process else 0

    def start(self) -> None:
        """Start it in a session of its own, so that Ctrl-C in the terminal reaches the supervisor alone."""
        self.log.parent.mkdir(mode=0o700, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.1"))
        self.is_ready = False
        self.started = time.monotonic()
        with self.log.open("ab") as out:
            self.log_from = out.tell()
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env={**self.environment, processes.MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.inherit,
            )

    def turn_log(self) -> None:
        """Begin the log again while the child lives, where it has grown too large; the last one is kept beside it.

        The child appends to its open file, so what it writes next begins the file again.
        """
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
            os.truncate(self.log, 0)
            self.log_from = 0

    def said(self, text: str) -> bool:
        """Whether the log has this text since the last start."""
        with self.log.open("rb") as log:
            log.seek(self.log_from)
            return text.encode() in log.read()

    def last_words(self) -> str:
        """The last line of the log that is not empty, for a sentence."""
        with self.log.open("rb") as log:
            log.seek(self.log_from)
            lines = [
                line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()
            ]
        return lines[-1][:300] if lines else "no output"

    def ended(self) -> str | None:
        """How it ended ("signal 9", "exit 1"), or None while it lives."""
        code = self.process.poll() if self.process else None
        if code is None:
            return None
        return f"signal {-code}" if code < 0 else f"exit {code}"

    def check_ready(self) -> bool:
        """Ask once whether it is ready. Raises CannotStart when it ended or took too long."""
        if how := self.ended():
            raise CannotStart(
                f"{self.name.capitalize()} ended while starting ({how}): {self.last_words()}; "
                f"{self.log} has all of it.",
                code="child_ended",
            )
        self.is_ready = self.ready(self)
        if not self.is_ready and time.monotonic() - self.started > self.seconds:
            raise CannotStart(
                f"{self.name.capitalize()} was not ready within {self.seconds:.0f} s; "
                f"{self.log} shows what it did.",
                code="child_not_ready",
            )
        return self.is_ready

    def wait_before_restart(self) -> float:
        """Seconds to wait: none after a healthy life, then 1, 2, 4 … at most 30."""
        if time.monotonic() - self.started > HEALTHY_AFTER:
            self.deaths = 0
        self.deaths += 1
        return 0.0 if self.deaths == 1 else min(30.0, 2.0 ** (self.deaths - 2))

    def stop(self, hurry: Callable[[], bool]) -> None:
        """Ask it to end, force it after its grace, then end whatever it had started itself."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + self.grace
            while self.process.poll() is None and time.monotonic() < deadline and not hurry():
                time.sleep(0.02)
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
        self.clear()

    def clear(self) -> None:
        """End what the child left behind: pool workers, runners, Spark's driver."""
        processes.end_marked(self.mark, grace=0)


def child_environment(home: Path, values: dict[str, str]) -> dict[str, str]:
    """The environment of every child: the caller's, and what this instance is."""
    return {**os.environ, **values, "REPRISE_HOME": str(home), "PYTHONUNBUFFERED": "1"}
