"""Starts, feeds and ends the runner process of an update."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recovery.server.auth import private_write
from recovery.server.children import Children
from recovery.server.gateway import clean_environment, last_lines

PROJECT = Path(__file__).resolve().parents[2]


class Started:
    """A runner process that has no update yet: it pays its imports (1 to 3 s) and then waits for `arguments`."""

    def __init__(self, token: str) -> None:
        self.report, report_write = os.pipe()
        control_read, self.control = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "recovery.server.runner", str(report_write), str(control_read)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=PROJECT,
            env=clean_environment() | {"REPRISE_SPARK_TOKEN": token, "PYTHONDONTWRITEBYTECODE": "1"},
            pass_fds=(report_write, control_read),
            start_new_session=True,
        )
        os.close(report_write)
        os.close(control_read)

    def end(self) -> None:
        """End one that no update has taken."""
        self.process.kill()
        self.process.wait()
        os.close(self.report)
        os.close(self.control)


class Ahead:
    """At most one runner that is started before anybody needs it, so that an update does not wait for it."""

    def __init__(self, token: str, children: Children) -> None:
        self.token = token
        self.children = children
        self.turn = threading.Lock()
        self.waiting: Started | None = None
        self.ended = False

    def start(self) -> None:
        """Have one ready for the next update."""
        with self.turn:
            if self.waiting is None and not self.ended:
                self.waiting = self._started()

    def take(self) -> Started:
        """The one that waits, if it still lives; else a new one."""
        with self.turn:
            found, self.waiting = self.waiting, None
            if found is not None and found.process.poll() is None:
                return found
            if found is not None:
                self._forget(found)
            return self._started()

    def end(self) -> None:
        """None waits any more, and none will."""
        with self.turn:
            self.ended = True
            if self.waiting is not None:
                self._forget(self.waiting)
                self.waiting = None

    def _started(self) -> Started:
        started = Started(self.token)
        self.children.add(started.process.pid)
        return started

    def _forget(self, started: Started) -> None:
        started.end()
        self.children.remove(started.process.pid)


class Runner:
    """A running runner. `tell` gets each report, and at last `{"kind": "ended", "code": int}`."""

    def __init__(
        self,
        started: Started,
        folder: Path,
        arguments: dict[str, Any],
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        self.tell = tell
        self.log = folder / "runner.log"
        self.process = started.process
        self.control = started.control
        argument_file = folder / "arguments.json"
        private_write(argument_file, json.dumps(arguments))
        threading.Thread(
            target=self.read, args=(started.report,), name=f"runner-{self.pid}", daemon=True
        ).start()
        threading.Thread(target=self.wait, name=f"wait-{self.pid}", daemon=True).start()
        self.order(arguments=str(argument_file), log=str(self.log))

    @property
    def pid(self) -> int:
        """The runner's process id; also the id of its process group."""
        return self.process.pid

    def read(self, report_read: int) -> None:
        """Hand on the reports until the runner, and all that it started, have closed the pipe."""
        with os.fdopen(report_read, errors="replace") as stream:
            for line in stream:
                with contextlib.suppress(ValueError):  # half a line: it was killed while writing
                    self.tell(json.loads(line))
        self.tell({"kind": "ended", "code": self.process.wait()})

    def wait(self) -> None:
        """When the runner ends, what it started ends with it."""
        self.process.wait()
        self.kill()

    def order(self, **order: Any) -> None:
        """Send its arguments, and later `go`. A runner that has ended meanwhile says so by itself."""
        with contextlib.suppress(OSError):
            os.write(self.control, (json.dumps(order) + "\n").encode())

    def kill(self) -> None:
        """End the runner and its children now."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let go of the control pipe, which also tells the runner to end."""
        with contextlib.suppress(OSError):
            os.close(self.control)

    def last_words(self) -> str:
        """The last lines of its log."""
        return last_lines(self.log, 3)
