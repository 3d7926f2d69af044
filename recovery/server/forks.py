"""The server's side of the process that forks runners (`runner_parent`): starts it, asks it, renews it.

A fork is no child of this process. Its handle (a pidfd) says when it ended and can never mean another process; how it
ended is what its parent reports. The parent lives in a jail, with process ids of its own: what it calls a fork and
what the machine calls it are two numbers, and only the handle means the same to both.
"""

import contextlib
import json
import logging
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any

from recovery.server.children import Children
from recovery.server.confinement import Confinement
from recovery.server.gateway import last_lines, open_log
from recovery.server.jail import ProcessEnding, child_environment, start_jailed
from recovery.server.reports import LONGEST_LINE, BadReport

LOG = logging.getLogger(__name__)
PROJECT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "recovery.server.runner_parent")
ANSWER_SECONDS = 120.0  # for its imports on a busy machine, and a fork
REPORT_SECONDS = 10.0  # from the end of a runner until its parent has said how
END_SECONDS = 5.0
PIECE = 1 << 16  # bytes read of a report at once
MOST_FORKS = 500
MOST_SECONDS = 12 * 3600.0
MOST_GROWTH = 64_000_000
LIVED_SECONDS = 10.0


class NoRunner(Exception):
    """No runner could be started; the sentence says why."""


class ParentEnded(Exception):
    """The parent of runners ended before it had answered."""


class BadMessage(Exception):
    """The parent of runners sent what is none of its messages."""


#: Fields of the parent's messages, by kind.
MESSAGES: Mapping[str, Mapping[str, type | UnionType]] = {
    "ready": {"resident": int},
    "forked": {"pid": int, "resident": int},
    "refused": {"why": str},
    "ended": {"pid": int, "code": int | None},
}


class Fork:
    """A runner process as its parent forked it, and our ends of its two pipes. Any thread may call."""

    def __init__(self, pid: int, handle: int, report: int, control: int) -> None:
        self.pid = pid
        self.handle = handle
        self.report = report
        self.control = control
        self.turn = threading.Lock()
        self.open_control = self.open_handle = True
        self.code: int | None = None
        self.settled = threading.Event()

    def lines(self) -> Iterator[bytes]:
        """Each line that it reports, until it has ended. Raises BadReport for one that is longer than LONGEST_LINE.

        Not up to the end of the pipe: its parent or the code's own process may hold it open.
        """
        os.set_blocking(self.report, False)
        poll = select.poll()
        for number in (self.report, self.handle):
            poll.register(number, select.POLLIN)
        rest, left = bytearray(), LONGEST_LINE  # bytes taken after its end: no one writes any more
        while left > 0:
            ended = self.handle in [number for number, _ in poll.poll()]
            piece = self.available()
            if piece:
                *lines, tail = piece.split(b"\n")
                for line in lines:
                    yield bytes(rest + line)
                    rest.clear()
                rest += tail
                if len(rest) > LONGEST_LINE:
                    raise BadReport("too_long")
                left -= len(piece) if ended else 0
            elif ended:
                return
            elif piece is not None:
                poll.unregister(
                    self.report
                )  # the code closed it: only the end of the process is left to wait for

    def available(self) -> bytes | None:
        """What can be read of its reports without waiting, a piece of it; b"" at the pipe's end, None for nothing."""
        try:
            return os.read(self.report, PIECE)
        except BlockingIOError:
            return None

    def send(self, line: bytes) -> None:
        """Write to its control pipe; nothing where it has ended."""
        with self.turn, contextlib.suppress(OSError):
            if self.open_control:
                os.write(self.control, line)

    def kill(self) -> None:
        """End the process and all that it started, and wait for that; nothing where it has ended.

        The process above the code (`recovery.server.reaper`) does it; it is ended itself where it does not answer.
        """
        with self.turn, contextlib.suppress(ProcessLookupError):
            if self.open_handle:
                signal.pidfd_send_signal(self.handle, signal.SIGTERM)
                if not select.select([self.handle], [], [], END_SECONDS)[0]:
                    signal.pidfd_send_signal(self.handle, signal.SIGKILL)

    def kill_group(self) -> None:
        """End what is left of its session where no one above it does."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def settle(self, code: int | None) -> None:
        """Its parent says how it ended, or is gone and never will (None)."""
        self.code = code
        self.settled.set()

    def bury(self) -> int | None:
        """Exit code of a process that has ended, negative for a signal; None where only its parent had known."""
        if not self.settled.wait(REPORT_SECONDS) or self.code is None:
            self.kill_group()  # its parent does this otherwise
        with self.turn:
            self.open_handle = False
            os.close(self.report)
            os.close(self.handle)
        return self.code

    def close_control(self) -> None:
        """Let go of the control pipe, which also tells the runner to end."""
        with self.turn:
            if self.open_control:
                self.open_control = False
                os.close(self.control)


class WarmParent:
    """One running `runner_parent`, in a jail. `on_end` is called once, from a thread of its own, when it has ended.

    `process` is the jail: a signal that ends it ends the parent and every fork.
    """

    def __init__(self, log: Path, confinement: Confinement, environment: dict[str, str]) -> None:
        self.log = log
        self.turn = threading.Lock()
        self.answers: queue.SimpleQueue[Fork | str | None] = queue.SimpleQueue()
        self.pipes = (-1, -1)
        self.forks: dict[int, Fork] = {}  # by the parent's own number
        self.forked = 0
        self.began = time.monotonic()
        self.resident_at_first = self.resident = 0
        self.ready = threading.Event()
        self.retired = False
        self.ended = threading.Event()
        self.socket, their_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        output = open_log(log)
        try:
            self.process = start_jailed(
                [*COMMAND, str(their_socket.fileno())],
                confinement=confinement,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=PROJECT,
                env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
                pass_fds=(their_socket.fileno(),),
                start_new_session=True,
            )
        finally:
            their_socket.close()
            os.close(output)

    def start(self, on_end: Callable[["WarmParent"], None]) -> None:
        """Begin to hear it."""
        name = f"runners-{self.process.pid}"
        self.listener = threading.Thread(target=self.listen, args=(on_end,), name=name, daemon=True)
        self.listener.start()

    def fork(self, trade: str) -> Fork:
        """A new runner; `trade` as in `runner_parent.TRADES`. Raises ParentEnded, NoRunner."""
        with self.turn:
            report, report_theirs = os.pipe()
            control_theirs, control = os.pipe()
            self.pipes = (report, control)
            try:
                socket.send_fds(self.socket, [b"fork " + trade.encode()], [report_theirs, control_theirs])
                answer = self.answers.get(timeout=ANSWER_SECONDS)
            except (OSError, queue.Empty):
                answer = None
            finally:
                os.close(report_theirs)
                os.close(control_theirs)
            if isinstance(answer, Fork):
                self.forked += 1
                return answer
            os.close(report)
            os.close(control)  # a fork whose answer was lost ends by this
            if answer is None:
                self.process.kill()  # it ended, or is stuck and its answer could be confused with the next one's
                raise ParentEnded
            raise NoRunner(f"No process could be started for this {trade}: {answer}.")

    def is_worn(self) -> bool:
        """Whether another one should take over: old, much used, or grown."""
        age = time.monotonic() - self.began
        grown = self.resident - self.resident_at_first
        return self.forked >= MOST_FORKS or age >= MOST_SECONDS or grown >= MOST_GROWTH

    def listen(self, on_end: Callable[["WarmParent"], None]) -> None:
        """Hear it until it has ended; then its runners that still run are without a witness of their end.

        What makes no sense ends it: nothing that it says after that could be believed.
        """
        try:
            while message := self.receive():
                self.hear(*message)
        except OSError:
            pass
        except BadMessage as bad:
            LOG.error("The process that starts runners sent what is no message (%s); it is ended.", bad)
            self.process.kill()
        self.process.wait()
        self.ended.set()
        for fork in list(self.forks.values()):
            fork.settle(None)
        self.answers.put(None)
        self.socket.close()
        on_end(self)

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """Its next message, with a handle where it brings one; None where it is gone. Raises BadMessage, OSError.

        Where it ended with words of ours that it had not read, a reset comes first, once, and then what it had said.
        """
        try:
            raw, handles, _, _ = self.next_message()
        except ConnectionResetError:
            raw, handles, _, _ = self.next_message()
        if not raw:
            return None
        try:
            return check_message(raw, handles), handles
        except BadMessage:
            for handle in handles:
                os.close(handle)
            raise

    def next_message(self) -> tuple[bytes, list[int], int, Any]:
        return socket.recv_fds(self.socket, 4096, 1, socket.MSG_CMSG_CLOEXEC)

    def hear(self, message: dict[str, Any], handles: list[int]) -> None:
        """One message of it. Raises BadMessage."""
        kind = message["kind"]
        if kind == "ended":
            if (fork := self.forks.pop(message["pid"], None)) is None:
                raise BadMessage("of a runner that it does not have")
            fork.settle(message["code"])
        elif kind == "refused":
            self.answers.put(message["why"])
        else:
            self.resident = message["resident"]
            if kind == "ready":
                self.resident_at_first = self.resident
                self.ready.set()
                return
            fork = Fork(pid_of(handles[0]), handles[0], *self.pipes)
            self.forks[message["pid"]] = fork
            self.answers.put(fork)

    def retire(self) -> None:
        """No further fork is asked of it; it ends when its last runner has."""
        if not self.retired:
            self.retired = True
            with contextlib.suppress(OSError):
                self.socket.send(b"retire")

    def end(self) -> None:
        """End it, and with it its runners."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        if not self.ended.wait(END_SECONDS):
            self.process.kill()
        self.listener.join()


def check_message(raw: bytes, handles: list[int]) -> dict[str, Any]:
    """A message of the parent with the fields of its kind. Raises BadMessage."""
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadMessage("unreadable") from error
    fields = MESSAGES.get(str(message.get("kind"))) if isinstance(message, dict) else None
    if fields is None:
        raise BadMessage("of no kind that there is")
    if any(not isinstance(message.get(name), kind) for name, kind in fields.items()):
        raise BadMessage("without a field of its kind")
    if len(handles) != (message["kind"] == "forked"):
        raise BadMessage("with another number of handles than its kind has")
    checked: dict[str, Any] = message
    return checked


def pid_of(handle: int) -> int:
    """What this process's own namespace calls the process of a handle; 0 or less where it has ended.

    Raises BadMessage for a handle of something else.
    """
    lines = Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines()
    pids = [int(line.split()[1]) for line in lines if line.startswith("Pid:")]
    if not pids:
        raise BadMessage("with a handle of no process")
    return pids[0]


class Runners:
    """Forks of a parent that is kept ready, so that no update waits for imports.

    `confinement` is what all of them may see; `environment` is theirs.
    """

    def __init__(
        self,
        log: Path,
        children: Children,
        *,
        confinement: Confinement,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.log = log
        self.children = children
        self.confinement = confinement
        self.environment = child_environment() if environment is None else environment
        self.turn = threading.Lock()
        self.parents: list[WarmParent] = []
        self.ended = False

    def start(self) -> None:
        """Have a parent ready for the next update."""
        with self.turn:
            if not self.ended and not self.list_usable():
                self.add_parent()

    def fork(self, trade: str = "update") -> Fork:
        """A runner for one update, or for one question. Raises NoRunner."""
        with self.turn:
            for _ in range(2):
                with contextlib.suppress(ParentEnded):
                    parent = self.parent()
                    fork = parent.fork(trade)
                    self.children.add(fork.pid)
                    if parent.is_worn() and self.list_usable() == [parent]:
                        self.add_parent()
                    return fork
        raise NoRunner(f"The process that starts runners ends by itself: {last_lines(self.log, 3)}")

    def end(self) -> None:
        """End every parent and every runner; none comes after. Not in turn: a fork that waits for imports gives up."""
        self.ended = True
        while parents := list(self.parents):  # one that ends by itself leaves the list meanwhile
            parents[-1].end()

    def list_usable(self) -> list[WarmParent]:
        """Parents that take orders, oldest first."""
        return [p for p in self.parents if not p.retired and not p.ended.is_set()]

    def parent(self) -> WarmParent:
        """The newest that is ready, upon which the ones before it retire; else one that soon will be."""
        if self.ended:
            raise NoRunner("The server is ending.")
        usable = self.list_usable() or [self.add_parent()]
        ready = [parent for parent in usable if parent.ready.is_set()]
        chosen = ready[-1] if ready else usable[0]
        for parent in usable[: usable.index(chosen)]:
            parent.retire()
        return chosen

    def add_parent(self) -> WarmParent:
        """Start one. It is on record before anything else can fail."""
        parent = WarmParent(self.log, self.confinement, self.environment)
        self.children.add(parent.process.pid)
        self.parents.append(parent)
        parent.start(self.on_end)
        return parent

    def on_end(self, parent: WarmParent) -> None:
        """Forget a parent. One that was killed in the middle of its life is replaced at once.

        One that ends young would end so for ever: only an update starts the next.
        """
        self.children.remove(parent.process.pid)
        with self.turn:
            self.parents.remove(parent)
        if parent.ready.is_set() and time.monotonic() - parent.began > LIVED_SECONDS:
            with contextlib.suppress(ProcessEnding):
                self.start()
