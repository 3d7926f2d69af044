"""What runs inside the jail at the server's start: reaches for things, and prints those that it got hold of."""

import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from recovery.server.confinement import load_grants
from recovery.server.landlock import restrict_to


def reaches_file(place: Path) -> bool:
    """Reads the canary's secret."""
    return bool((place / "secret").read_text())


def reaches_socket(place: Path) -> bool:
    """Connects to the canary's Unix socket."""
    os.chdir(place)  # the address is short from there
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect("socket")
    return True


def is_the_server(pid: int, started: str) -> bool:
    """Whether a process id means the server here too: another namespace has the same numbers for others."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19] == started


def reaches_environment(pid: int, started: str) -> bool:
    """Reads the server's environment."""
    return is_the_server(pid, started) and bool(Path(f"/proc/{pid}/environ").read_bytes())


def reaches_by_signal(pid: int, started: str) -> bool:
    """May signal the server."""
    os.kill(pid, 0)
    return is_the_server(pid, started)


def reaches_any(paths: list[str]) -> bool:
    """Opens one of these files."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            return True
    return False


def reaches_neighbour(folder: Path, grants: list[list[Any]] | None) -> bool:
    """Confined as an update is, reads what belongs to another."""
    if grants is not None:
        restrict_to(load_grants(grants))
    return bool((folder / "source").read_text())


@contextlib.contextmanager
def another_process() -> Iterator[int]:
    """A process of the same place that is not below this one's later confinement, as the runner of another update."""
    wait, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)
        os.read(wait, 1)
        os._exit(0)
    try:
        yield pid
    finally:
        os.close(go)
        os.waitpid(pid, 0)
        os.close(wait)


def reaches_process(pid: int) -> bool:
    """Confined as an update is, may signal the process of another. Landlock holds that from ABI 6 on."""
    os.kill(pid, 0)
    return True


def main() -> None:
    """Arguments: folder of the canary, the server's process id and start, another update's folder, files of servers of
    other environments. Input: grants."""
    place, pid, started, other, *apart = sys.argv[1:]
    grants = json.load(sys.stdin)
    tries: dict[str, Callable[[], bool]] = {
        "file": lambda: reaches_file(Path(place)),
        "socket": lambda: reaches_socket(Path(place)),
        "environment": lambda: reaches_environment(int(pid), started),
        "signal": lambda: reaches_by_signal(int(pid), started),
        "apart": lambda: reaches_any(apart),
        "neighbour": lambda: reaches_neighbour(Path(other), grants),  # it cannot be undone
    }
    reached = []
    with another_process() as process:
        tries["process"] = lambda: reaches_process(process)  # confined by the try before it
        for name, reach in tries.items():
            with contextlib.suppress(OSError):
                reached += [name] * reach()
    print(json.dumps(reached))  # noqa: T201
