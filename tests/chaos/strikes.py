"""What may strike an instance: SIGKILL and SIGSTOP of each of its processes, a flushed broker, a full disk."""

import contextlib
import errno
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import redis

from tests.stack import Stack

VICTIMS: Final = ("worker", "worker", "worker", "web", "beat", "broker", "pipelines", "spark", "database")
FREEZES: Final = (0.5, 9.0)  # seconds; the longer ones outlast the silence after which a step is taken away
FULL: Final = (0.5, 4.0)  # seconds
PAUSES: Final = (0.2, 7.0)  # seconds between two strikes


@dataclass(frozen=True)
class Strike:
    """One strike as it was done; `how` is `kill`, `freeze`, `flush` or `full`."""

    at: float
    victim: str
    how: str
    seconds: float = 0.0


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += family(int(child))
    return found


def send(pids: list[int], number: signal.Signals) -> int:
    """How many of them got the signal."""
    sent = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            sent += 1
    return sent


@dataclass
class Striker:
    """Strikes one instance on its own thread, `budget` times from each call of `more`; repeatable by its seed."""

    stack: Stack
    seed: int
    can_fill: bool
    log: Callable[[str], None]
    done: list[Strike] = field(default_factory=list)
    budget: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.turn = threading.Condition()
        self.striking = threading.Lock()
        self.ended = False
        self.thread = threading.Thread(target=self._run, name="striker")
        self.thread.start()

    def more(self, strikes: int) -> None:
        with self.turn:
            self.budget += strikes
            self.turn.notify()

    def calm(self) -> None:
        """No further strike; returns when the one that is under way has ended."""
        with self.turn:
            self.budget = 0
        with self.striking:
            return

    def end(self) -> None:
        with self.turn:
            self.ended, self.budget = True, 0
            self.turn.notify()
        self.thread.join()

    def _run(self) -> None:
        while True:
            with self.turn:
                self.turn.wait_for(lambda: self.budget or self.ended)
                if self.ended:
                    return
            time.sleep(self.dice.uniform(*PAUSES))
            with self.striking:
                strike = self._next()
            if strike is not None:
                self.done.append(strike)
                self.log(
                    f"strike {len(self.done)}: {strike.how} {strike.victim} {strike.seconds:.1f} s".rstrip()
                )

    def _next(self) -> Strike | None:
        """One strike of the budget; none when peace was asked for during the pause."""
        with self.turn:
            if not self.budget:
                return None
            self.budget -= 1
        return self._strike()

    def _strike(self) -> Strike | None:
        roll = self.dice.random()
        if roll < 0.05:
            return self._flush()
        if roll < 0.10 and self.can_fill:
            return self._fill()
        victim = self.dice.choice(VICTIMS)
        pids = self._pids(victim)
        if not pids:
            return None
        return self._freeze(victim, pids) if self.dice.random() < 0.3 else self._kill(victim, pids)

    def _pids(self, victim: str) -> list[int]:
        """Empty for a part that this instance has not, or that is just being started."""
        try:
            pid = int(self.stack.demo["pids"].get(victim) or 0)
        except (OSError, ValueError):
            return []
        return family(pid) if pid > 1 else []

    def _kill(self, victim: str, pids: list[int]) -> Strike | None:
        """The whole part at once, or (of a worker, a web server) one process of its pool."""
        whole = victim not in ("worker", "web") or self.dice.random() < 0.6
        chosen = pids if whole else [self.dice.choice(pids)]
        at = time.monotonic()
        return Strike(at, victim, "kill") if send(chosen, signal.SIGKILL) else None

    def _freeze(self, victim: str, pids: list[int]) -> Strike | None:
        at, seconds = time.monotonic(), self.dice.uniform(*FREEZES)
        if not send(pids, signal.SIGSTOP):
            return None
        time.sleep(seconds)
        send(pids, signal.SIGCONT)
        return Strike(at, victim, "freeze", seconds)

    def _flush(self) -> Strike | None:
        """Every message that waits in the broker is gone."""
        at = time.monotonic()
        try:
            with redis.Redis(
                unix_socket_path=str(self.stack.home / "broker.sock"), socket_timeout=2
            ) as broker:
                broker.flushall()
        except redis.RedisError:
            return None
        return Strike(at, "broker", "flush")

    def _fill(self) -> Strike:
        """The file system under everything that the instance writes has no byte left, for some seconds."""
        at, seconds, ballast = time.monotonic(), self.dice.uniform(*FULL), self.stack.home.parent / "ballast"
        try:
            with ballast.open("wb") as out:
                for size in (1 << 22, 1 << 12):
                    with contextlib.suppress(OSError):
                        while True:
                            out.write(b"\0" * size)
                            out.flush()
            time.sleep(seconds)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            ballast.unlink(missing_ok=True)
        return Strike(at, "disk", "full", seconds)
