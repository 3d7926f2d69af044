"""A real PostgreSQL server to strike: whoever kills it, it is started again after a short while.

Unlike the tests' server it keeps every commit (no `synchronous_commit=off`, no `fsync=off`): a SIGKILL must
lose nothing that the instance was told is kept, else the harness would report losses that are its own.
"""

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from console.supervisor import postgres
from console.supervisor.bootstrap import CannotStart

KEEPING = ("-c", "max_wal_size=256MB", "-c", "max_connections=200")  # the disk is small
AWAY = (0.2, 6.0)  # seconds until somebody starts it again
LOOK = 0.1


class Server:
    """The server and the thread that starts it again. The thread is the server's parent and lives as long as it.

    (`postgres.serve_cluster` lets the kernel end the server with the thread that started it.)
    """

    def __init__(self, folder: Path, seed: int, log: Callable[[str], None]) -> None:
        self.folder, self.log = folder, log
        self.dice = random.Random(seed)
        self.process: subprocess.Popen[bytes] | None = None
        self.problem: Exception | None = None
        self.ready, self.ended = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._keep, name="database")

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/reprise?host={self.folder}"

    @property
    def pid(self) -> int:
        """0 while it is away."""
        process = self.process
        return process.pid if process and process.poll() is None else 0

    def start(self) -> None:
        """Returns when it answers. Raises CannotStart."""
        self.thread.start()
        self.ready.wait()
        if self.problem:
            raise self.problem

    def end(self) -> None:
        self.ended.set()
        self.thread.join()

    def _keep(self) -> None:
        try:
            programs = postgres.make_cluster(postgres.site_packages(Path(sys.executable)), self.folder)
            self.process = postgres.serve_cluster(programs, self.folder, KEEPING)
        except CannotStart as problem:
            self.problem = problem
            return
        finally:
            self.ready.set()
        while not self.ended.wait(LOOK):
            if not self.pid and not self.ended.wait(self.dice.uniform(*AWAY)):
                self._again(programs)
        if self.process:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()

    def _again(self, programs: Path) -> None:
        """A server that will not start (its disk is full, a process of the old one lives) is tried anew."""
        try:
            self.process = postgres.serve_cluster(programs, self.folder, KEEPING)
        except CannotStart as problem:
            self.log(str(problem))


@contextmanager
def running(folder: Path, seed: int, log: Callable[[str], None]) -> Iterator[Server]:
    """A server in a new folder, as long as the block."""
    folder.mkdir()
    folder.parent.chmod(0o711)  # the server's own user must come through, and can list nothing
    server = Server(folder, seed, log)
    server.start()
    try:
        yield server
    finally:
        server.end()
