"""Processes that must not outlive this server: recorded when they start, ended at the next start if left.

The JVM, the runners and their parent end by themselves when the pipe from us closes. This record is the second line,
for one that hangs: its pid is killed at the next start, but only if `/proc` says that it still is that process.
"""

import contextlib
import json
import logging
import os
import signal
import threading
import time
from pathlib import Path

LOG = logging.getLogger(__name__)


def started_at(pid: int) -> str | None:
    """When a process started, in the kernel's ticks since boot; None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]


def boot_id() -> str:
    """Tells one start of the machine from another: pids and ticks begin again."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


class Children:
    """The record of the running children, in one small file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.turn = threading.Lock()
        self.known: dict[int, str] = {}

    def add(self, pid: int) -> None:
        """Record a child that has just been started."""
        with self.turn:
            self.known[pid] = started_at(pid) or ""
            self.write()

    def remove(self, pid: int) -> None:
        """Forget a child that has ended."""
        with self.turn:
            self.known.pop(pid, None)
            self.write()

    def write(self) -> None:
        """Replace the file in one step."""
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps({"boot": boot_id(), "children": self.known}))
        draft.replace(self.path)

    def end_left_over(self, *, seconds: float = 10.0) -> int:
        """End what a former server left behind; how many processes that were. Called under the server's lock."""
        try:
            record = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return 0
        if record.get("boot") != boot_id():
            return 0
        left = {
            int(pid): start
            for pid, start in record["children"].items()
            if start and started_at(int(pid)) == start
        }
        for pid in left:
            LOG.warning("process %s of a former server still runs; it is ended", pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + seconds
        while any(started_at(pid) == start for pid, start in left.items()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return len(left)
