"""Tries at the server's start what pipelines' code could reach, from inside its jail. What was reached decides.

A probe in the jail reaches for a secret in the console's home, for a Unix socket there, for the environment of the
server and for a signal to it, and for files of servers of other environments; then, confined as an update is, for the
folder and for a process of another update.
"""

import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from recovery.errors import Refused, Unreachable
from recovery.server.children import started_at
from recovery.server.confinement import Confinement, PathAccess, dump_grants
from recovery.server.jail import (
    LAUNCH_PLACES,
    child_environment,
    measure_protection,
    pipeline_confinement,
    start_jailed,
)

PROBE_SECONDS: Final = 60.0
PROBE: Final = f"import sys; sys.path[:0] = {LAUNCH_PLACES!r}; from recovery.server.probe import main; main()"
REACHES: Final = ("file", "socket", "environment", "signal", "neighbour", "process", "apart")
MOST_APART: Final = 10  # files of each folder of another server that are tried
MOST_LOOKED_AT: Final = 2_000  # entries of one, to find them

OF_NEIGHBOURS: Final = frozenset(
    {"neighbour", "process"}
)  # what is another pipeline's, and nothing of the console


class ConfinementDemand(StrEnum):
    """What must hold before the server starts (REPRISE_CONFINEMENT)."""

    REQUIRED = "required"  # a place of its own: nothing of the console is within reach
    CONTAINER = "container"  # the same, or Landlock alone: the container is the place, and holds no secret
    OPTIONAL = "optional"  # as much as the machine allows; what is missing is said


class ConfinementLevel(StrEnum):
    """What a probe has shown."""

    FULL = "full"  # nothing of the console within reach, and pipelines held apart
    CONSOLE = "console"  # nothing of the console; code of one pipeline reaches files or processes of another
    FILES = "files"  # no file, environment or process of the console; a Unix socket, or another pipeline, is
    NONE = (
        "none"  # the console's files, environment or processes are, or files of another environment's server
    )


@dataclass(frozen=True)
class ConfinementProof:
    """What pipelines' code reached in the probe (of REACHES), and what this machine has to hold it."""

    reached: tuple[str, ...]
    namespaces: bool
    #: ABI of the kernel's Landlock; 0: none
    landlock: int
    #: the system's words where it allows no namespaces
    why: str = ""

    @property
    def level(self) -> ConfinementLevel:
        """How far it holds."""
        if not self.reached:
            return ConfinementLevel.FULL
        if set(self.reached) <= OF_NEIGHBOURS:
            return ConfinementLevel.CONSOLE
        most = {"file", "environment", "signal", "apart"}
        return ConfinementLevel.NONE if most & set(self.reached) else ConfinementLevel.FILES

    def as_public(self) -> dict[str, Any]:
        """As `pipelines.json` and the health answer have it."""
        return {"level": self.level.value, **asdict(self)}


ACCEPTED: Final = {
    ConfinementDemand.REQUIRED: {ConfinementLevel.FULL, ConfinementLevel.CONSOLE},
    ConfinementDemand.CONTAINER: {ConfinementLevel.FULL, ConfinementLevel.CONSOLE, ConfinementLevel.FILES},
    ConfinementDemand.OPTIONAL: set(ConfinementLevel),
}


def prove_confinement(home: Path, confinement: Confinement, apart: Sequence[Path] = ()) -> ConfinementProof:
    """Start the probe as a runner is started, and hear what it reached. Raises Unreachable where it says nothing.

    `apart`: folders of servers of other environments; files in them are tried.
    """
    protection = measure_protection()
    with place_canaries(home) as (secret, own, other):
        process = start_jailed(
            [sys.executable, "-I", "-S", "-c", PROBE, secret, str(os.getpid()), started_at(os.getpid()) or "",
             str(other), *map(str, files_apart(apart, confinement))],
            confinement=confinement, env=child_environment(), cwd="/", stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        grants = dump_grants(narrowed_confinement(home, own).grants()) if protection.landlock else None
        said = complaint = b""
        try:
            said, complaint = process.communicate(json.dumps(grants).encode(), timeout=PROBE_SECONDS)
            reached = json.loads(said)
        except (subprocess.TimeoutExpired, ValueError) as error:
            process.kill()
            process.wait()
            words = complaint.decode(errors="replace").strip()[-300:] or str(error)
            raise Unreachable(f"What pipelines' code can reach could not be tried: {words}") from error
    reached = tuple(name for name in REACHES if name in reached)
    return ConfinementProof(reached, protection.bubblewrap is not None, protection.landlock, protection.why)


def narrowed_confinement(home: Path, own: Path) -> Confinement:
    """The confinement of an update whose folder is `own`."""
    return pipeline_confinement(home=home, folder=own, sources=(), storage="", others=())


def files_apart(folders: Sequence[Path], confinement: Confinement) -> list[Path]:
    """Some files in each of these folders that a confined process must not be able to read; links are not followed."""
    sight = confinement.sights()
    files: list[Path] = []
    for folder in folders:
        below = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
        looked = islice(chain([folder], below), MOST_LOOKED_AT)
        files += islice(
            (path for path in looked if _is_to_be_read(path) and sight(path) is PathAccess.HIDDEN), MOST_APART
        )
    return files


def _is_to_be_read(path: Path) -> bool:
    """Whether it is a file that this process reads; not where it has just gone."""
    try:
        return stat.S_ISREG(path.lstat().st_mode) and os.access(path, os.R_OK)
    except OSError:
        return False


@contextmanager
def place_canaries(home: Path) -> Iterator[tuple[str, Path, Path]]:
    """A folder in the home with a secret and a listening socket, and the folders of two updates."""
    made = []
    for place in ("tmp", "updates", "updates"):
        (home / place).mkdir(exist_ok=True, mode=0o700)
        made.append(Path(tempfile.mkdtemp(prefix="probe-", dir=home / place)))
    secret, own, other = made
    (secret / "secret").write_text("canary")
    (other / "source").write_text("canary")
    handle = os.open(secret, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(
                f"/proc/self/fd/{handle}/socket"
            )  # an address holds 108 bytes, a home's path may be longer
            listener.listen()
            yield str(secret), own, other
    finally:
        os.close(handle)
        for folder in made:
            with contextlib.suppress(OSError):
                shutil.rmtree(folder)


def check_proof(proof: ConfinementProof, demand: ConfinementDemand) -> None:
    """Raises Refused where less holds than is demanded."""
    if proof.level in ACCEPTED[demand]:
        return
    means = f"reached: {', '.join(proof.reached)}"
    machine = f"; the machine allows no namespaces ({proof.why})" if not proof.namespaces else ""
    raise Refused(
        f"Pipelines' code would not be kept from the console's secrets ({means}{machine}). Let this user make user "
        "namespaces, or run the server in a container without secrets and set REPRISE_CONFINEMENT=container; "
        "REPRISE_CONFINEMENT=optional starts it all the same.",
        code="not_confined",
    )
