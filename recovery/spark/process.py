"""The parent's side of a question: start the child, send it, wait, and always end it.

The child gets its request as one line on stdin and keeps stdin open: when the parent dies, however
it dies, stdin closes and the child cancels its work on Spark and ends. Its environment is a short
list of names: a pipeline's code runs in it and must not see the console's secrets.
"""

import atexit
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from recovery.errors import Refused, Unreachable, WrongUse

log = logging.getLogger(__name__)

KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
CONNECT_SECONDS = 3.0
GRACE_SECONDS = 3.0  # for the child to cancel its jobs on Spark


def redact(text: str, remote: str = "") -> str:
    """Take the token out of any text."""
    token = re.search(r"token=([^;&\s]+)", remote)
    if token:
        text = text.replace(token.group(1), "***")
    return re.sub(r"(token=)[^;&\s'\"]+", r"\1***", text)


def ask(question: str, remote: str, request: dict[str, Any], *, timeout: float) -> dict[str, Any]:
    """Answer of one child. Raises `Unreachable`, `Refused`; RuntimeError where the child has a bug."""
    _knock(remote)
    child = _take()
    message = {"question": question, "remote": remote, "folder": child.folder, "request": request}
    try:
        out, err, code = _converse(child.process, json.dumps(message) + "\n", timeout, remote)
    finally:
        _end(child)
    if err.strip():
        log.debug("Spark child (%s): %s", question, err.strip()[-4000:])
    try:
        answer: dict[str, Any] = json.loads(out)
    except ValueError:
        raise RuntimeError(
            f"the Spark child ended with {code} and no answer: {err.strip()[-2000:]}"
        ) from None
    if "answer" in answer:
        result: dict[str, Any] = answer["answer"]
        return result
    kinds = {"unreachable": Unreachable, "refused": Refused, "wrong_use": WrongUse}
    if answer.get("error") in kinds:
        raise kinds[answer["error"]](redact(answer["sentence"], remote))
    raise RuntimeError(redact(answer.get("sentence", "the Spark child failed"), remote))


def _knock(remote: str) -> None:
    """Is anybody there? Asked before a process is started for it."""
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname:
        raise WrongUse(
            "The Spark address must begin with sc:// and name a host; correct the workspace's settings."
        )
    host, port = parts.hostname, parts.port or 15002
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise Unreachable(
            f"Spark Connect at {host}:{port} does not answer ({why}); check that the Spark driver runs."
        ) from error


@dataclass(frozen=True)
class _Child:
    """A started child and the folder that is its whole world."""

    process: subprocess.Popen[str]
    folder: str
    owner: int  # the process that started it: a fork of that one must not use it


_lock = threading.Lock()
_spare: list[_Child] = []


def prepare() -> None:
    """Start a child ahead of the next question, so that nobody waits for its imports (1 to 2 s).

    For a caller that knows it will ask soon. The child ends by itself when it is not asked for
    five minutes, or when this process ends.
    """
    with _lock:
        _spare[:] = [c for c in _spare if c.owner == os.getpid() and c.process.poll() is None]
        if not _spare:
            _spare.append(_start())


def _take() -> _Child:
    with _lock:
        while _spare:
            child = _spare.pop()
            if child.owner == os.getpid() and child.process.poll() is None:
                return child
            if child.owner == os.getpid():
                _end(child)
    return _start()


def _start() -> _Child:
    folder = tempfile.mkdtemp(prefix="reprise-spark-")
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    room = str(Path(__file__).resolve().parents[2])
    environment |= {"PYTHONPATH": room, "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", "-m", "recovery.spark.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
        text=True,
        start_new_session=True,
    )
    return _Child(process, folder, os.getpid())


def _converse(child: subprocess.Popen[str], line: str, timeout: float, remote: str) -> tuple[str, str, int]:
    """Write the line, keep stdin open, read both outputs until the child closes them."""
    stdin, child.stdin = child.stdin, None  # communicate() would close it, and closing means "stop"
    if stdin is None:
        raise RuntimeError("the Spark child has no stdin")
    try:
        with contextlib.suppress(BrokenPipeError):
            stdin.write(line)
            stdin.flush()
        out, err = child.communicate(timeout=timeout)
        return out, redact(err, remote), child.returncode
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=GRACE_SECONDS)
        raise Unreachable(
            f"Spark did not finish the answer within {timeout:.0f} s; check its load, then try again."
        ) from None
    finally:
        with contextlib.suppress(OSError):
            stdin.close()


def _end(child: _Child) -> None:
    """Whatever the child started goes with it: it leads its own process group."""
    process = child.process
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()
    shutil.rmtree(child.folder, ignore_errors=True)


@atexit.register
def _end_spare() -> None:
    with _lock:
        for child in _spare:
            if child.owner == os.getpid():
                _end(child)
        _spare.clear()
