"""Feeds, hears and ends the runner process of an update."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recovery.server.auth import private_write
from recovery.server.confinement import Confinement, dump_grants
from recovery.server.forks import Runners
from recovery.server.gateway import last_lines
from recovery.server.reports import BadReport, Reports

MOST_WAITING = 10_000  # reports that no one has handled yet
PAUSE_SECONDS = 0.05


class Runner:
    """A running runner. `tell` gets each report, and at last `{"kind": "ended", "code": int | None}`.

    Before that comes `{"kind": "bad_report", "code": …}` where it sent what is no report, upon which it is ended.
    """

    def __init__(
        self,
        runners: Runners,
        folder: Path,
        arguments: dict[str, Any],
        tell: Callable[[dict[str, Any]], None],
        *,
        token: str,
        confinement: Confinement | None = None,
        waiting: Callable[[], int] = lambda: 0,
    ) -> None:
        """`token` opens Spark Connect. It goes through the control pipe, so that no file and no environment has it.

        `waiting`: how many reports wait to be handled; beyond MOST_WAITING no further one is read.

        `confinement` is what Landlock lets it see of what its parent sees; None: the same, and every runner beside it.

        Raises NoRunner.
        """
        self.tell = tell
        self.waiting = waiting
        self.ending = threading.Event()
        self.log = folder / "runner.log"
        argument_file = folder / "arguments.json"
        private_write(argument_file, json.dumps(arguments))
        self.fork = runners.fork()
        self.reader = threading.Thread(target=self.read, name=f"runner-{self.pid}", daemon=True)
        self.reader.start()
        grants = None if confinement is None else dump_grants(confinement.grants())
        self.order(arguments=str(argument_file), log=str(self.log), token=token, grants=grants)

    @property
    def pid(self) -> int:
        """The runner's process id; also the id of its process group."""
        return self.fork.pid

    def read(self) -> None:
        """Hand on the reports until the runner has ended, and with it what it had started."""
        reports = Reports()
        try:
            for line in self.fork.lines():
                self.tell(reports.read(line))
                while self.waiting() > MOST_WAITING and not self.ending.wait(PAUSE_SECONDS):
                    pass
        except BadReport as bad:
            self.fork.kill()
            self.tell({"kind": "bad_report", "code": bad.code})
        self.tell({"kind": "ended", "code": self.fork.bury()})

    def order(self, **order: Any) -> None:
        """Send its arguments, and later `go`. A runner that has ended meanwhile says so by itself."""
        self.fork.send((json.dumps(order) + "\n").encode())

    def kill(self) -> None:
        """End the runner and its children now."""
        self.fork.kill()

    def end(self) -> None:
        """End it where it still runs, and wait for its end."""
        self.ending.set()
        self.fork.kill()
        self.reader.join()
        self.fork.close_control()

    def last_words(self) -> str:
        """The last lines of its log."""
        return last_lines(self.log, 3)
