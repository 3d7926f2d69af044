"""Signs of life of the Celery processes, and `python -m console.life PART`, the question whether
they live; PART is `beat` or a name of `console.workers`.

A worker's main loop leaves the time in memory every few seconds, and a thread writes it down while it is
fresh: a loop that hangs, or waits for a broker that is away, is silent although its process runs, and a
database that is slow never holds the loop up. Beat writes its sign in its own tick.
"""

import os
import socket
import sys
import threading
import time
from typing import Any

from celery import bootsteps
from celery.beat import PersistentScheduler

from console.workers import part_of
from recovery.health import (
    EVERY_SECONDS,
)  # what has tables is imported late: Celery loads this before Django is ready

FRESH_SECONDS = EVERY_SECONDS * 3


class Pulse(bootsteps.StartStopStep):
    """Part of a worker: begins with it, ends with it."""

    # after the pool: its processes are forked before there is a thread or a connection to inherit
    requires = ("celery.worker.components:Timer", "celery.worker.components:Pool")

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.part = part_of(parent.hostname)
        self.turned = time.monotonic()
        self.over = threading.Event()
        self.timer: Any = None

    def start(self, parent: Any) -> None:
        self.timer = parent.timer.call_repeatedly(EVERY_SECONDS, self.turn, priority=10)
        threading.Thread(target=self.write, name="pulse", daemon=True).start()

    def turn(self) -> None:
        """Called by the worker's main loop."""
        self.turned = time.monotonic()

    def write(self) -> None:
        """The thread: write while the loop turns."""
        from django.db import connections

        from recovery.health import heartbeats

        process = heartbeats.this_process()
        try:
            while True:
                if time.monotonic() - self.turned < FRESH_SECONDS:
                    heartbeats.write_heartbeat(self.part, process)
                if self.over.wait(EVERY_SECONDS):
                    return
        finally:
            connections.close_all()

    def stop(self, parent: Any) -> None:
        if self.timer:
            self.timer.cancel()
        self.over.set()


class Scheduler(PersistentScheduler):
    """Beat's own scheduler, which says that it lives."""

    written = float("-inf")

    def tick(self, *args: Any, **options: Any) -> float:
        wait = float(super().tick(*args, **options))
        if time.monotonic() - self.written >= EVERY_SECONDS:
            from recovery.health import heartbeats

            self.written = time.monotonic()
            heartbeats.write_heartbeat("beat", heartbeats.this_process())
        return min(wait, EVERY_SECONDS)


def main(part: str) -> int:
    """Exit 0 when this part of this host lives; else 1, and one sentence."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    import django

    django.setup()
    from django.db import DatabaseError

    from recovery.health import heartbeats

    try:
        says = heartbeats.find_problem(part, socket.gethostname())
    except DatabaseError as problem:
        says = f"The database does not answer: {problem}"
    if says:
        print(says, file=sys.stderr)  # noqa: T201
    return 1 if says else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
