"""The folder of one instance: who may use it, what is in it, and how its files are written.

Crash order: `supervisor.json` names this run's mark before the first child is started, so whatever a
crash leaves behind can be found; `demo.json` is written last and removed first.
"""

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from console.supervisor import processes
from console.supervisor.bootstrap import CannotStart, os_sentence

KNOWN_FILES = frozenset(
    {
        "instance.env", "demo.json", "people.json", "supervisor.json", "pipelines.json",
        "pipelines.token", "pipelines.lock", "pipelines.pids", "spark.token", "spark.remote", "broker.sock",
        "audit.key", "audit.key.turn", "audit.key.new", "audit.keys",
    }
)  # fmt: skip
KNOWN_FOLDERS = frozenset(
    {
        "broker", "workspace", "warehouse", "storage", "eventlog", "logs", "static", "incident", "java",
        "jars", "metastore", "updates", "spark", "driver", "questions", "tmp", "kafka", "environments",
    }
)  # fmt: skip
KNOWN_PATTERNS = (  # a database's -wal and -shm, a schedule's .dat, the audit chain's anchor, a poller's lock
    "reprise.sqlite3*", "pipelines.sqlite3*", "beat-schedule*", "audit-*.head", "audit-*.anchors",
    "poll-*.lock", "look-*.lock", "*.upload*",
)  # fmt: skip
LOCK = "supervisor.lock"  # stays: removing a locked file would let a second supervisor in
SOCKET_LIMIT = 100  # bytes that a Unix socket's path may have, with some air


def is_known(entry: Path) -> bool:
    """Whether this is something that an instance writes into its home."""
    if entry.is_dir() and not entry.is_symlink():
        return entry.name in KNOWN_FOLDERS
    if entry.name in KNOWN_FILES or entry.name == LOCK:
        return True
    return any(fnmatchcase(entry.name, pattern) for pattern in KNOWN_PATTERNS)


def make_home(home: Path) -> None:
    """Make the folder, private, and prove that it can be written. Raises CannotStart."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
        probe = home / f".write-{secrets.token_hex(4)}"
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as problem:
        if problem.errno in (13, 1, 30, 2, 20, 17):
            raise CannotStart(
                f"The folder {home} cannot be written ({problem.strerror}); set REPRISE_HOME to a folder "
                "of your own.",
                code="home_unwritable",
            ) from problem
        raise CannotStart(os_sentence(problem, f"writing into {home}")) from problem


@contextmanager
def claim_home(home: Path) -> Iterator[None]:
    """Hold the home for this process alone; the lock ends with the process, however it ends."""
    with (home / LOCK).open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            url = read_json(home / "demo.json").get("console_url")
            where = f"at {url}" if url else "and is just starting"
            raise CannotStart(
                f"Reprise already runs in {home} {where}; end it with Ctrl-C in its terminal, or set "
                "REPRISE_HOME to another folder for a second one.",
                code="already_runs",
            ) from taken
        yield


def reset_home(home: Path) -> list[str]:
    """Delete what an instance wrote, and nothing else. Returns the names that were left alone.

    Raises CannotStart when the folder holds other things and no instance: it is not ours to empty.
    """
    entries = sorted(home.iterdir())
    strangers = [e.name for e in entries if not is_known(e)]
    if strangers and not (home / "instance.env").exists():
        raise CannotStart(
            f"{home} was not made by bin/demo (it holds {strangers[0]!r}), so --reset does not touch it; set "
            "REPRISE_HOME to the right folder.",
            code="not_ours",
        )
    # instance.env goes last: a reset that was interrupted can still be distinguished from a stranger's folder.
    for entry in sorted(entries, key=lambda e: e.name == "instance.env"):
        if is_known(entry) and entry.name != LOCK:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    return strangers


def sweep_leftovers(home: Path) -> int:
    """End what an earlier run left running and remove its traces. Returns how many processes it ended.

    Only called with the home claimed: a run that still lives holds the lock.
    """
    (home / "demo.json").unlink(missing_ok=True)
    instance = str(read_json(home / "supervisor.json").get("instance", ""))
    ended = processes.end_marked(f"{instance}:", grace=5) if len(instance) >= 16 else 0
    for name in ("broker.sock", "pipelines.json"):
        (home / name).unlink(missing_ok=True)
    return ended


def write_private(path: Path, text: str) -> None:
    """Write a whole file that only its owner reads; readers see the old one or the new one, never a half."""
    half = path.with_name(f".{path.name}.new")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    half.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty when there is none or only a half one."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def read_env(path: Path) -> dict[str, str]:
    """`NAME='value'` lines, as `write_env` makes them; empty when there is no such file."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name: value.strip("'") for name, _, value in pairs}


def write_env(path: Path, values: dict[str, str]) -> None:
    write_private(path, "".join(f"{name}='{value}'\n" for name, value in values.items()))
