"""What a pipeline's code touches while it is defined, beside the streams that its plan names (child process only).

Such code may read a file, ask a server, or run a query of its own and build the answer into its plan: what Spark says
of it then rests on more than the code. Time and chance are not seen here; who keeps an answer bounds its age.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Events of Python's audit hooks by which code reaches beyond its process.
_EVENTS = {
    "open",
    "os.listdir",
    "os.scandir",
    "os.system",
    "os.posix_spawn",
    "os.exec",
    "os.spawn",
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "sqlite3.connect",
    "subprocess.Popen",
    "urllib.Request",
}
_OF_FILES = {"open", "os.listdir", "os.scandir"}
_armed: list[
    tuple[set[str], tuple[str, ...]]
] = []  # the names noted, and the folders whose files do not count
_hooked: list[bool] = []


@contextmanager
def watched(spark: Any, folder: Path, touched: set[str]) -> Iterator[None]:
    """Note in `touched` what code reaches for meanwhile: a file outside `folder` and Python's own, the network, another
    process, and any question to Spark."""
    if not _hooked:
        sys.addaudithook(_note)
        _hooked.append(True)
    client = spark.client
    stub = client._stub
    client._stub = _Noting(stub, touched)
    own: tuple[str | Path, ...] = (folder, sys.prefix, sys.base_prefix, *filter(None, sys.path))
    _armed.append((touched, tuple(str(Path(root).resolve()) for root in own)))
    try:
        yield
    finally:
        _armed.pop()
        client._stub = stub


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if not _armed or event not in _EVENTS:
        return
    touched, own = _armed[-1]
    if event not in _OF_FILES:
        touched.add(event)
        return
    place = arguments[0] if arguments else None
    if isinstance(place, int) or place is None:
        return  # an open descriptor, or the folder that the code itself lies in
    path = Path(os.fsdecode(place)).resolve()
    if not any(path.is_relative_to(root) for root in own):
        touched.add(f"{event} {path}")


class _Noting:
    """Spark Connect's own stub; every question that goes through it is noted."""

    def __init__(self, stub: Any, touched: set[str]) -> None:
        self._stub = stub
        self._touched = touched

    def __getattr__(self, name: str) -> Any:
        if name != "Config":  # settings of the session: the request's and those of this run of Spark
            self._touched.add(f"Spark {name}")
        return getattr(self._stub, name)
