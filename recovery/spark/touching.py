"""What a pipeline's code touches while it is defined, beside the streams that its plan names (child process only).

Such code may read a file, ask a server, or run a query of its own and build the answer into its plan: what Spark says
of it then rests on more than the code. Time and chance are not seen here; who keeps an answer bounds its age.
"""

import ast
import os
import sys
from collections.abc import Iterator, Mapping
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
def watching(spark: Any, folder: Path, touched: set[str]) -> Iterator[None]:
    """Note in `touched` what code reaches for meanwhile: a file outside `folder` and Python's own, the network, another
    process, and any question to Spark."""
    if not _hooked:
        sys.addaudithook(_note)
        _hooked.append(True)
    client = spark.client
    stub = client._stub
    client._stub = _Noting(stub, touched)
    # Not sys.path as a whole: the project's folder is on it, and below that an instance may keep its storage.
    own: tuple[str | Path, ...] = (folder, Path(__file__).parents[1], sys.prefix, sys.base_prefix)
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
    if event == "os.listdir" and str(place) in sys.path:
        return  # an import looks for a module there
    if not any(path.is_relative_to(root) for root in own):
        touched.add(f"{event} {path}")


def imports_beside(files: Mapping[str, str]) -> set[str]:
    """`import NAME` for each library beside Python's own, pyspark and the files themselves that Python files import.

    Native libraries (pyarrow, psycopg2) reach files and servers without an event of Python's, and an installed package
    may change while the code stays the same. A file that does not parse is named too.
    """
    own = {Path(part).stem for path in files for part in Path(path).parts} | {"pyspark"}
    own |= sys.stdlib_module_names - {"ctypes", "importlib"}  # by these, code reaches what it does not name
    names: set[str] = set()
    for path, text in files.items():
        if not path.endswith(".py"):
            continue
        try:
            nodes = list(ast.walk(ast.parse(text)))
        except (SyntaxError, ValueError):
            names.add(path)
            continue
        names |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
        names |= {"__import__" for node in nodes if isinstance(node, ast.Name) and node.id == "__import__"}
    return {f"import {name}" for name in names if name.split(".")[0] not in own}


class _Noting:
    """Spark Connect's own stub; every question that goes through it is noted."""

    def __init__(self, stub: Any, touched: set[str]) -> None:
        self._stub = stub
        self._touched = touched

    def __getattr__(self, name: str) -> Any:
        if name != "Config":  # settings of the session: the request's and those of this run of Spark
            self._touched.add(f"Spark {name}")
        return getattr(self._stub, name)
