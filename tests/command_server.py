"""Runs `manage.py` commands in forks of processes that have imported already what a command imports.

    done = command_server.run(["flows", "--json"], environment, seconds=60)   # a CompletedProcess

A Python of its own spends seconds of CPU on imports before a command begins. Here the same file runs, `manage.py` as
`__main__`, in a process of its own with the environment of the call alone. What differs: libraries are there already,
and, for an environment that asks again, Django with its settings. Three kinds of processes, each a fork of the one
before:

- the *server*, one a test process: libraries alone, which read no setting of ours;
- *prepared*, one for each environment that asked twice: settings read, applications loaded;
- the *command*: its variables, its output, its exit code.

The first two have no thread and no open connection, and end when the test process does.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

ROOT: Final = Path(__file__).resolve().parents[1]
MANAGE: Final = str(ROOT / "manage.py")
LARGEST_REQUEST: Final = 128 * 1024
PREPARED: Final = 4
"""How many environments are kept ready; the one that waited longest makes room."""
LIBRARIES: Final = (
    "celery.app.task", "celery.beat", "cryptography.hazmat.primitives.serialization", "django.core.management",
    "django.core.cache.backends.redis", "django.db.backends.postgresql.base", "django.db.backends.sqlite3.base",
    "django.db.migrations.executor", "django.db.models", "django.forms", "django.template", "django.views.generic",
    "fsspec.implementations.local", "numpy", "psycopg", "pydantic_settings", "requests", "structlog",
    "yaml",
)  # fmt: skip
WHILE_RUNNING: Final = ("REPRISE_TOKEN", "REPRISE_TOKEN_FILE", "PYTEST_CURRENT_TEST")
"""Variables that no import and no setting reads: a command that differs in these alone needs no other preparation."""
AT_THE_START: Final = ("PYTHON", "LD_", "MALLOC_")
"""Variables that an interpreter reads as it starts: with another one of these a command needs one of its own."""


@dataclass(frozen=True)
class Request:
    """One command. `key` names everything that its settings are read from."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    key: str

    @classmethod
    def of(cls, arguments: Sequence[str], environment: Mapping[str, str]) -> "Request":
        return cls(tuple(arguments), dict(environment), settings_key(environment))

    @classmethod
    def read(cls, message: bytes) -> "Request":
        fields = json.loads(message)
        return cls(tuple(fields["arguments"]), fields["environment"], fields["key"])

    def written(self) -> bytes:
        return json.dumps(vars(self)).encode()


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """For the server: a library that read a setting there would fail. numpy would start a thread a core."""
    kept = {k: v for k, v in environment.items() if not k.startswith(("REPRISE_", "DJANGO_"))}
    return {**kept, "OPENBLAS_NUM_THREADS": "1"}


def settings_key(environment: Mapping[str, str]) -> str:
    """The variables, and the content of each file, that settings are read from."""
    variables = {name: value for name, value in environment.items() if name not in WHILE_RUNNING}
    files = [
        value for name, value in variables.items() if name.startswith("REPRISE_") and name.endswith("_FILE")
    ]
    files.append(os.path.join(environment.get("REPRISE_HOME", ""), "instance.env"))  # noqa: PTH118
    return json.dumps([sorted(variables.items()), [content(name) for name in files]])


def content(name: str) -> str:
    """The text of a file; empty where there is none."""
    with contextlib.suppress(OSError):
        return Path(name).read_text()
    return ""


# The test's side


class CommandServer:
    """The server as the tests see it. Several threads may ask at once."""

    def __init__(self) -> None:
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.command_server", str(theirs.fileno())],
                cwd=ROOT,
                env=without_settings(os.environ),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def close(self) -> None:
        """End it and what it has prepared; a command that runs ends by itself."""
        self.requests.close()
        self.process.wait(30)

    def begin(self, request: Request, out: int | None = None) -> "Running":
        """Begin one command; what it prints goes into the file `out` where one is given."""
        return Running(self.requests, request, out)

    def run(self, request: Request, seconds: float) -> "subprocess.CompletedProcess[str]":
        """Run one command to its end. Raises TimeoutExpired, then it was killed."""
        return self.begin(request).wait(seconds)


class Running:
    """A command that has begun."""

    def __init__(self, requests: socket.socket, request: Request, out: int | None) -> None:
        self.arguments = request.arguments
        self.held = contextlib.ExitStack()
        self.files = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 (`wait` closes them)
        for file in self.files:
            self.held.enter_context(file)
        self.answer, theirs = socket.socketpair()
        self.lines = self.held.enter_context(self.answer.makefile())
        self.held.enter_context(self.answer)
        self._pid = 0
        with theirs:
            stdout, stderr = (file.fileno() for file in self.files)
            fds = [stdout if out is None else out, stderr, theirs.fileno()]
            socket.send_fds(requests, [request.written()], fds)

    @property
    def pid(self) -> int:
        """Its process; 0 where the server ended before it began one."""
        if not self._pid:
            self._pid = int(self.lines.readline() or 0)
        return self._pid

    def kill(self) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, seconds: float = 300) -> "subprocess.CompletedProcess[str]":
        """Its end, and what it printed. Raises TimeoutExpired, then it was killed."""
        with self.held:
            code = self._wait_for_code(seconds)
            for file in self.files:
                file.seek(0)
            out, err = (file.read().decode() for file in self.files)
        return subprocess.CompletedProcess([MANAGE, *self.arguments], code, out, err)

    def _wait_for_code(self, seconds: float) -> int:
        """The exit code; a signal that ended it is negative, as with `subprocess`."""
        self.answer.settimeout(seconds)
        try:
            code = self.lines.readline() if self.pid else ""
        except BaseException as interruption:
            if self._pid:
                self.kill()
            if isinstance(interruption, TimeoutError):
                raise subprocess.TimeoutExpired([MANAGE, *self.arguments], seconds) from None
            raise
        if not code:
            raise RuntimeError("The command server ended; its output is on stderr.")
        return int(code)


_lock = threading.Lock()
_servers: list[CommandServer] = []


def server() -> CommandServer:
    """The server of this test process, started where none lives."""
    with _lock:
        if not _servers or _servers[-1].process.poll() is not None:
            made = CommandServer()
            atexit.register(made.close)
            _servers.append(made)
        return _servers[-1]


def run(
    arguments: Sequence[str], environment: Mapping[str, str], *, seconds: float = 300
) -> "subprocess.CompletedProcess[str]":
    """`manage.py ARGUMENTS` with exactly this environment, in the project's folder. Raises TimeoutExpired."""
    if needs_own_python(environment):
        return run_alone(arguments, environment, seconds=seconds)
    return server().run(Request.of(arguments, environment), seconds)


def begin(arguments: Sequence[str], environment: Mapping[str, str], out: int | None = None) -> Running:
    """`manage.py ARGUMENTS` with this environment, as soon as it has a process. Prints into `out` where it is given."""
    assert not needs_own_python(environment), (
        "a fork would ignore these variables: only `run` starts a Python"
    )
    running = server().begin(Request.of(arguments, environment), out)
    assert running.pid, "the command server ended"
    return running


def needs_own_python(environment: Mapping[str, str]) -> bool:
    """Whether a variable that an interpreter reads as it starts differs from the one of this process."""
    names = {name for name in (*environment, *os.environ) if name.startswith(AT_THE_START)}
    return any(environment.get(name) != os.environ.get(name) for name in names)


def run_alone(
    arguments: Sequence[str], environment: Mapping[str, str], *, seconds: float = 300
) -> "subprocess.CompletedProcess[str]":
    """The same by a Python of its own, as `bin/manage` starts it."""
    return subprocess.run(
        [sys.executable, MANAGE, *arguments], cwd=ROOT, env=dict(environment), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip


# The server's side


def main(number: int) -> None:
    """Serve until the tests' end of the socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the tests' affair
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what is forked here
    for name in LIBRARIES:
        importlib.import_module(name)
    prepared: dict[str, socket.socket] = {}
    asked: set[str] = set()
    with socket.socket(fileno=number) as requests:
        os.set_inheritable(number, False)

        def leave() -> None:
            for held in (requests, *prepared.values()):
                held.close()

        for request, message, fds in received(requests):
            if request.key in asked and request.key not in prepared:
                if len(prepared) >= PREPARED:
                    prepared.pop(next(iter(prepared))).close()
                prepared[request.key] = prepare(request, leave)
            if request.key in prepared:
                prepared[request.key] = prepared.pop(request.key)  # the last to be given up now
                socket.send_fds(prepared[request.key], [message], fds)
            else:
                fork(request, fds, leave)
            asked.add(request.key)
            for fd in fds:
                os.close(fd)


def received(requests: socket.socket) -> Iterator[tuple[Request, bytes, list[int]]]:
    """Every request with its output, its errors and the socket for its answer, until the other end closes."""
    while True:
        message, fds, _, _ = socket.recv_fds(requests, LARGEST_REQUEST, 3, socket.MSG_CMSG_CLOEXEC)
        if not message:
            return
        yield Request.read(message), message, fds


def fork_clean() -> int:
    """os.fork, where nothing is that a fork would break. Raises RuntimeError."""
    gc.freeze()
    if (threads := len(os.listdir("/proc/self/task"))) > 1:  # noqa: PTH208
        raise RuntimeError(f"{threads} threads run in a process that forks commands.")
    return os.fork()


def prepare(request: Request, leave: Callable[[], None]) -> socket.socket:
    """A process with the settings of this request, and what all commands import; gives the socket to ask it by."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if fork_clean():
        theirs.close()
        return ours
    try:
        leave()
        ours.close()
        take_environment(request)
        run_in = fork if is_set_up() else fork_alone
        for asked, _, fds in received(theirs):
            run_in(asked, fds, theirs.close)
            for fd in fds:
                os.close(fd)
    finally:
        os._exit(0)


def is_set_up() -> bool:
    """Read the settings, load the applications and the commands. False where that fails: so must each command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    try:
        import django

        django.setup()
        from django.db import connections

        from recovery.management import commands

        for module in pkgutil.iter_modules(commands.__path__):
            importlib.import_module(f"{commands.__name__}.{module.name}")
    except Exception:
        return False
    if any(held.connection for held in connections.all(initialized_only=True)):
        raise RuntimeError("A connection to the database is open that all commands would share.")
    return True


def fork(request: Request, fds: Sequence[int], leave: Callable[[], None]) -> None:
    """Run a command in a fork of this process, and answer its pid, then its exit code."""
    if fork_clean():
        return
    answer_of(fds, leave, lambda: run_command(request))


def fork_alone(request: Request, fds: Sequence[int], leave: Callable[[], None]) -> None:
    """The same by a Python of its own."""
    if fork_clean():
        return
    command = [sys.executable, MANAGE, *request.arguments]
    answer_of(fds, leave, lambda: os.execve(sys.executable, command, request.environment))  # noqa: S606


def answer_of(fds: Sequence[int], leave: Callable[[], None], command: Callable[[], NoReturn]) -> NoReturn:
    """In a process of its own: fork the command, wait for it, answer."""
    out, err, answer = fds
    try:
        leave()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if (pid := os.fork()) == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.close(answer)
            os.dup2(out, 1)
            os.dup2(err, 2)
            command()
        try:
            os.write(answer, f"{pid}\n".encode())
        except OSError:  # who asked waits no longer
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.write(answer, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    finally:
        os._exit(0)


def take_environment(request: Request) -> None:
    os.environ.clear()
    os.environ.update(request.environment)


def run_command(request: Request) -> NoReturn:
    """Run manage.py as `python manage.py` does, and end as Python ends."""
    code = 1
    try:
        take_environment(request)
        os.chdir(ROOT)
        sys.argv = [MANAGE, *request.arguments]
        code = exit_code()
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def exit_code() -> int:
    """What the command ends with; what it does not catch is shown as Python shows it."""
    try:
        runpy.run_path(MANAGE, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as problem:
        trace = problem.__traceback__
        while trace and trace.tb_frame.f_code.co_filename != MANAGE:  # ours and runpy's
            trace = trace.tb_next
        sys.excepthook(type(problem), problem.with_traceback(trace), trace)
        return 1
    return 0


if __name__ == "__main__":
    main(int(sys.argv[1]))
