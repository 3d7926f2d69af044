"""Runs the third incident: a plain program, until its dropDuplicates is taken out and Spark refuses it.

As the first one it can be interrupted and called again: a run that ended well is not repeated, files that arrived stay,
and the marker file is written last. It is outside of the instance's home, as a stream of your own is: what starts
such a program reaches nothing in that home.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from console.incident.orders_program import write_job, write_program
from console.incident.updates import Tell, ignore_progress
from recovery.errors import Refused, Unreachable
from recovery.server.java import find_java

ARRIVALS: Final = (range(0, 6), range(4, 12), range(12, 17), range(17, 20))
"""The order ids of each file, in the order of arrival; 4 and 5 come twice. The last two files wait."""
GOOD_RUNS: Final = 2
COUNTRIES: Final = ("at", "de", "fr")
RUN_SECONDS: Final = 180
NAME: Final = "orders"


@dataclass(frozen=True)
class OrdersIncident:
    """A failed plain stream: places on this machine, and the commands of its scheduler."""

    folder: str

    @property
    def checkpoint(self) -> str:
        return f"{self.folder}/checkpoint"

    @property
    def table(self) -> str:
        return f"{self.folder}/table"

    @property
    def event_log(self) -> str:
        return f"{self.folder}/events"

    @property
    def program(self) -> str:
        return f"{self.folder}/orders.py"

    def command(self, act: str) -> str:
        """The words with which its scheduler does `act`: start, stop or running."""
        return shlex.join([sys.executable, f"{self.folder}/job.py", act])


def orders_folder(home: Path) -> Path:
    """Where the stream of this instance is: one folder of this user in the machine's place for temporary files."""
    mark = hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"reprise-demo-{os.getuid()}-{mark}"


def make_orders(*, folder: Path, tell: Tell = ignore_progress) -> OrdersIncident:
    """Run the program until it fails, once. Raises Refused where the folder is someone else's or a run ends otherwise
    than it must, Unreachable where one does not end or Java is missing."""
    _claim_folder(folder)  # first: what is there may be someone else's, and its commands are run
    made, marker = OrdersIncident(str(folder)), folder / "incident.json"
    if marker.exists():
        return made
    java = str(find_java(folder / "java").home)
    (folder / "job.py").write_text(write_job(java))
    for good in range(GOOD_RUNS):
        if not (folder / "checkpoint" / "commits" / str(good)).exists():
            _run_program(made, java, keeps=True, files=good + 1, says=f"Run {good + 1}", tell=tell)
    _run_program(
        made, java, keeps=False, files=len(ARRIVALS), says="Run without dropDuplicates, failed", tell=tell
    )
    marker.write_text(json.dumps(asdict(made)))
    return made


def _claim_folder(folder: Path) -> None:
    """Make the folders, for this user alone."""
    if not folder.is_symlink():
        folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    if folder.is_symlink() or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise Refused(f"{folder} is someone else's. Set TMPDIR to a folder of your own.")
    for name in ("arriving", "events"):
        (folder / name).mkdir(exist_ok=True)


def _run_program(made: OrdersIncident, java: str, *, keeps: bool, files: int, says: str, tell: Tell) -> None:
    """Let the first `files` files arrive and run the program; with its step it must end well, without it must fail."""
    began, folder = time.monotonic(), Path(made.folder)
    for number, ids in enumerate(ARRIVALS[:files]):
        _put_file(folder / "arriving" / f"{number:03}.json", ids)
    Path(made.program).write_text(write_program(keeps=keeps))
    try:
        ended = subprocess.run(
            [sys.executable, made.program, made.folder],
            env={**os.environ, "JAVA_HOME": java}, capture_output=True, timeout=RUN_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as problem:
        raise Unreachable(f"Program {NAME} did not end within {RUN_SECONDS} s.") from problem
    if (ended.returncode == 0) is not keeps:
        last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise Refused(f"Program {NAME} ended with {ended.returncode}: {''.join(last)[:300]}")
    tell(says, time.monotonic() - began)


def _put_file(path: Path, ids: Sequence[int]) -> None:
    if path.exists():
        return
    rows = ({"order_id": n, "country": COUNTRIES[n % 3], "cents": 100 * n + 99} for n in ids)
    unseen = path.with_name(f".{path.name}")
    unseen.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    unseen.rename(path)
