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
from recovery.server.gateway import clean_environment, last_lines

PROJECT = Path(__file__).resolve().parents[2]


class Runner:
    """A running runner. `tell` gets each report, and at last `{"kind": "ended", "code": int}`."""

    def __init__(
        self, folder: Path, arguments: dict[str, Any], token: str, tell: Callable[[dict[str, Any]], None]
    ):
        self.tell = tell
        self.log = folder / "runner.log"
        argument_file = folder / "arguments.json"
        private_write(argument_file, json.dumps(arguments))
        report_read, report_write = os.pipe()
        control_read, self.control = os.pipe()
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "recovery.server.runner",
                    argument_file,
                    str(report_write),
                    str(control_read),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=PROJECT,
                env=clean_environment() | {"REPRISE_SPARK_TOKEN": token, "PYTHONDONTWRITEBYTECODE": "1"},
                pass_fds=(report_write, control_read),
                start_new_session=True,
            )
        os.close(report_write)
        os.close(control_read)
        threading.Thread(
            target=self.read, args=(report_read,), name=f"runner-{self.pid}", daemon=True
        ).start()
        threading.Thread(target=self.wait, name=f"wait-{self.pid}", daemon=True).start()

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
        """Send `go`. A runner that has ended meanwhile says so by itself."""
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
