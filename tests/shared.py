"""What all workers of one test run share: started by the first that needs it, ended when the run ends.

Each thing (`THINGS`) has a keeper, a process of its own: `python -m tests.shared NAME PLACE FOLDER`. It starts the
thing, says in `NAME.json` how to reach it, and waits for the lock that the run holds. The kernel frees that lock
however the run ends, so nothing outlives a run that was interrupted or killed.
"""

import contextlib
import fcntl
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.order import ALONE

ROOT = Path(__file__).resolve().parents[1]
# Name -> where the function lies that keeps it while a `with` lasts, and gives how to reach it, as JSON.
THINGS = {
    "instance": "tests.stack:kept",
    "spark": "tests.connected_spark:kept",
    "kafka": "tests.kafka:kept",
}
RUN, USE, ENDED = "run.lock", "use.lock", "ended"
FOLDER = pytest.StashKey[Path]()
OURS = pytest.StashKey[int]()  # the run's lock, in the process that made the folder


# -- the run -----------------------------------------------------------------------------------------------


def begin(config: pytest.Config) -> None:
    """In the first process of a run: a folder for its workers, and the lock that tells keepers that it lasts."""
    given = getattr(config, "workerinput", {}).get("shared")
    if given:
        config.stash[FOLDER] = Path(given)
        return
    folder = Path(tempfile.mkdtemp(prefix="reprise-run-"))
    held = os.open(folder / RUN, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    config.stash[FOLDER], config.stash[OURS] = folder, held


def finish(config: pytest.Config) -> None:
    """End what was started for the run, and wait until it is gone."""
    held = config.stash.get(OURS, None)
    if held is None:
        return
    folder = config.stash[FOLDER]
    (folder / ENDED).touch()
    os.close(held)
    for name in THINGS:
        if (folder / f"{name}.alive").exists():
            with locked(folder / f"{name}.alive"):
                pass
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def locked(file: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """The lock of a file while this lasts; waits for it."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)


def reach(config: pytest.Config, name: str) -> dict[str, Any]:
    """How to reach a thing of the run; starts it when nobody has. Raises AssertionError when it does not start."""
    folder = config.stash[FOLDER]
    told = folder / f"{name}.json"
    with locked(folder / f"{name}.start"):
        if not told.exists():
            _keep(folder, name)
    says: dict[str, Any] = json.loads(told.read_text())
    assert "problem" not in says, says["problem"]
    return says


def _keep(folder: Path, name: str) -> None:
    """Start a keeper and wait until it has said how its thing is reached, or why it did not start."""
    command = [sys.executable, "-m", "tests.shared", name, THINGS[name], str(folder)]
    with (folder / f"{name}.log").open("w") as out:
        keeper = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=out,
            start_new_session=True, text=True,
        )  # fmt: skip
    assert keeper.stdout
    with keeper.stdout:
        line = keeper.stdout.readline()
    if not line:
        problem = {"problem": f"{name} did not start: {(folder / f'{name}.log').read_text()[-3000:]}"}
        (folder / f"{name}.json").write_text(json.dumps(problem))
    keeper.returncode = 0  # it lives as long as the run: nobody waits for it here


# -- who uses the instance ---------------------------------------------------------------------------------


@contextlib.contextmanager
def using(item: pytest.Item) -> Iterator[None]:
    """While a test runs that uses the instance, none runs that strikes it; one that does waits for all others."""
    if "stack" not in getattr(item, "fixturenames", ()):
        yield
        return
    with locked(
        item.config.stash[FOLDER] / USE, fcntl.LOCK_EX if item.get_closest_marker(ALONE) else fcntl.LOCK_SH
    ):
        yield


# -- a keeper ----------------------------------------------------------------------------------------------


def keep(name: str, place: str, folder: Path) -> None:
    """Keep a thing until the run has ended, or only wait for the keeper whose worker was killed in between."""
    with contextlib.ExitStack() as ends:
        while not _is_mine(ends, folder / f"{name}.alive"):
            if (folder / f"{name}.json").exists():
                _answer()
                return
            time.sleep(0.1)
        module, _, function = place.partition(":")
        keeping: AbstractContextManager[dict[str, Any]] = getattr(importlib.import_module(module), function)()
        with keeping as says:
            draft = folder / f".{name}.json"
            draft.write_text(json.dumps(says))
            draft.rename(folder / f"{name}.json")
            _answer()
            with locked(folder / RUN):
                pass
    if not (folder / ENDED).exists():  # the run was killed: nobody else takes its folder away
        shutil.rmtree(folder, ignore_errors=True)


def _answer() -> None:
    """Let the worker go on that waits in `_keep`; it may have been killed."""
    with contextlib.suppress(BrokenPipeError):
        os.write(1, b"ready\n")


def _is_mine(ends: contextlib.ExitStack, alive: Path) -> bool:
    """Whether no other keeper holds the thing; it is ours from now on."""
    try:
        ends.enter_context(locked(alive, fcntl.LOCK_EX | fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    try:
        keep(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    except Exception:
        traceback.print_exc()
        raise
