"""The parent's side of a question: send it to a child that is warm or started for it, wait, clear up.

A child gets each question as one line on stdin and answers it in a fork of its own, so that imports (1 to
3 s) are paid once and no question sees what another did. Stdin stays open: when the parent dies, however it
dies, stdin closes, and the child cancels its work on Spark and ends. Its environment is a short list of
names: a pipeline's code runs in it and must not see the console's secrets.
"""

import atexit
import contextlib
import json
import logging
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from recovery.errors import Refused, Unreachable, WrongUse
from recovery.spark import warm

log = logging.getLogger(__name__)

KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
# A child forks: libraries that would start threads while they are imported must not.
NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
CONNECT_SECONDS = 3.0
GRACE_SECONDS = 5.0  # for the child to cancel its jobs on Spark
RUNS_CODE = ("study", "measure", "stage", "rehearse")
LOG = ".said"  # in a folder: what was printed while a question was answered


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
    folder = tempfile.mkdtemp(prefix="reprise-spark-")
    log_file = Path(folder) / LOG
    message = {
        "question": question,
        "remote": remote,
        "folder": folder,
        "log": str(log_file),
        "request": request,
    }
    try:
        line = _converse(child, json.dumps(message) + "\n", timeout)
        if line is None:
            child.stop()
            raise Unreachable(
                f"Spark did not finish the answer within {timeout:.0f} s; check its load, then try again."
            )
        said = redact(_tail(log_file) or _tail(Path(child.folder) / LOG), remote)
        if not line:
            child.end()
    finally:
        _keep_or_end(child)
        shutil.rmtree(folder, ignore_errors=True)
    if said:
        log.debug("Spark child (%s): %s", question, said)
    if not line.strip() and question in RUNS_CODE:
        log.warning("The Spark child ended without an answer: %s", said[-2000:])
        raise Refused(
            "The process that read the pipeline's code ended without an answer: the code may end its process, or "
            "the machine may be out of memory. The log has its last words."
        )
    return _answer_in(line, said, remote)


def _answer_in(line: str, said: str, remote: str) -> dict[str, Any]:
    """The answer, or the error that the child tells of, raised again."""
    try:
        answer: dict[str, Any] = json.loads(line)
    except ValueError:
        raise RuntimeError(f"the Spark child ended without an answer: {said[-2000:]}") from None
    if "answer" in answer:
        result: dict[str, Any] = answer["answer"]
        return result
    kinds = {"unreachable": Unreachable, "refused": Refused, "wrong_use": WrongUse}
    if answer.get("error") in kinds:
        raise kinds[answer["error"]](redact(answer["sentence"], remote))
    raise RuntimeError(redact(answer.get("sentence", "the Spark child failed"), remote))


def _tail(log_file: Path) -> str:
    """The end of what was said; "" where nothing was."""
    try:
        return log_file.read_text(errors="replace").strip()[-4000:]
    except OSError:
        return ""


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
    """A started child, and the folder that is its home and holds its log."""

    process: subprocess.Popen[bytes] | warm.Forked
    folder: str
    owner: int  # the process that started it: a fork of that one must not use it

    def usable(self) -> bool:
        return self.owner == os.getpid() and self.process.poll() is None

    def stop(self) -> None:
        """Closing stdin means: cancel the work on Spark and end. It gets a few seconds for that."""
        with contextlib.suppress(OSError):
            _pipe(self.process.stdin).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)

    def end(self) -> None:
        """However it stands: it leads a process group, and a fork of it dies with it."""
        if isinstance(self.process, warm.Forked):
            self.process.kill()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        if isinstance(self.process, warm.Forked):
            self.process.close()
        shutil.rmtree(self.folder, ignore_errors=True)


_lock = threading.Lock()
_spare: list[_Child] = []
shared = threading.Event()
_kept: list[subprocess.Popen[bytes]] = []  # the instance's warm process, where this process started it


def share() -> None:
    """This process lives as long as its instance does: let `prepare` start the instance's warm process from here."""
    shared.set()


def prepare() -> None:
    """Start a child ahead of the next question, so that nobody waits for its imports (1 to 3 s).

    For a caller that knows it will ask soon. The child ends by itself when it is not asked for half a
    minute, or when this process ends. In a worker it is a fork of the instance's warm process, which stays.
    """
    with _lock:
        if shared.is_set():
            for ended in [p for p in _kept if p.poll() is not None]:
                _pipe(ended.stdin).close()
                _kept.remove(ended)
            if (started := warm.keep(_environment(tempfile.gettempdir()))) is not None:
                _kept.append(started)
                return  # it imports now; a child that is begun beside it would import too
        _spare[:] = [c for c in _spare if c.usable()]
        if not _spare:
            _spare.append(_start())


def _take() -> _Child:
    with _lock:
        while _spare:
            child = _spare.pop()
            if child.usable():
                return child
            if child.owner == os.getpid():
                child.end()
    return _start()


def _keep_or_end(child: _Child) -> None:
    """One child stays warm for the next question; it is known to have cleared up after the last one."""
    with _lock:
        if child.usable() and not _spare:
            _spare.append(child)
            return
    child.end()


def _start() -> _Child:
    """A fork of the instance's warm process; without one a process of its own, which has to import first."""
    folder = tempfile.mkdtemp(prefix="reprise-spark-")
    process = warm.fork(folder) or _begin(folder)
    return _Child(process, folder, os.getpid())


def _begin(folder: str) -> subprocess.Popen[bytes]:
    with (Path(folder) / LOG).open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-m", "recovery.spark.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            cwd=folder,
            env=_environment(folder),
            bufsize=0,
            start_new_session=True,
        )


def _environment(home: str) -> dict[str, str]:
    """A short list of names: a pipeline's code runs there and must not see the console's secrets."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    room = str(Path(__file__).resolve().parents[2])
    environment |= {"PYTHONPATH": room, "HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
    return environment | NO_THREADS


def _converse(child: _Child, question: str, timeout: float) -> str | None:
    """Send the question and read one line; "" where the child ended first, None where time ran out."""
    deadline = time.monotonic() + timeout
    try:
        with contextlib.suppress(BrokenPipeError):
            _write(_pipe(child.process.stdin).fileno(), question.encode())
        return _read_line(_pipe(child.process.stdout).fileno(), deadline)
    except BaseException:
        child.end()  # interrupted between question and answer: what it says next would answer another question
        raise


def _write(to: int, data: bytes) -> None:
    while data:
        data = data[os.write(to, data) :]


def _read_line(source: int, deadline: float) -> str | None:
    read = bytearray()
    while not read.endswith(b"\n"):
        ready, _, _ = select.select([source], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        piece = os.read(source, 1 << 16)
        if not piece:
            return ""
        read += piece
    return read.decode()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("the Spark child has no such pipe")
    return pipe


@atexit.register
def _end_spare() -> None:
    with _lock:
        for child in _spare:
            if child.owner == os.getpid():
                child.end()
        _spare.clear()
        for process in _kept:  # it forks no more; the children that others have of it are theirs
            _pipe(process.stdin).close()
            process.kill()
            process.wait()
        _kept.clear()
