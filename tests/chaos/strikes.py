"""What may strike an instance: SIGKILL and SIGSTOP of each of its processes, a flushed broker, a full disk."""

import contextlib
import errno
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import redis

from console.supervisor.processes import is_alive
from tests.chaos.database import Server
from tests.stack import Stack

Deal = tuple[str, str]  # victim, how
DECK: Final[
    tuple[tuple[Deal, int], ...]
] = (  # how often each lies in one deck; the worker does the recoveries
    (("worker", "kill"), 5),
    (("web", "kill"), 2),
    (("beat", "kill"), 1),
    (("broker", "kill"), 2),
    (("pipelines", "kill"), 2),
    (("spark", "kill"), 2),
    (("worker", "freeze"), 2),
    (("web", "freeze"), 1),
    (("beat", "freeze"), 1),
    (("broker", "freeze"), 1),
    (("pipelines", "freeze"), 1),
    (("spark", "freeze"), 1),
    (("broker", "flush"), 1),
    (("disk", "full"), 1),
    (("database", "kill"), 3),
    (("database", "freeze"), 1),
)
POOLS: Final = ("worker", "web", "database")  # of these, one process may be killed alone
FREEZES: Final = (0.5, 9.0)  # seconds; the longer ones outlast the silence after which a step is taken away
FULL: Final = (0.5, 4.0)  # seconds
PAUSES: Final = (0.2, 4.0)  # seconds between two strikes
AGAIN: Final = 0.2  # seconds until a part that was away is looked for again
LEAST: Final = 4096  # bytes, a page of the file system


@dataclass(frozen=True)
class Strike:
    """One strike as it was done; `how` is `kill`, `freeze`, `flush` or `full`."""

    at: float
    victim: str
    how: str
    seconds: float = 0.0


class Deck:
    """Every kind of strike, shuffled; made anew when it is empty. What cannot be struck now goes under it.

    The order goes by the dice alone: what an instance has not is dealt out of it, so that the rest stays as it is.
    """

    def __init__(self, dice: random.Random, *, without: Collection[str] = ()) -> None:
        self.dice, self.without, self.left = dice, without, list[Deal]()

    def deal(self) -> Deal:
        while not self.left:
            whole = [deal for deal, times in DECK for _ in range(times)]
            self.dice.shuffle(whole)
            self.left = [deal for deal in whole if deal[0] not in self.without]
        return self.left.pop(0)

    def put_under(self, deal: Deal) -> None:
        self.left.append(deal)


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
    """Strikes one instance on its own thread, `budget` times from each call of `more`.

    The seed settles the order of the strikes; which part is away when its turn comes is a matter of time.
    """

    stack: Stack
    seed: int
    can_fill: bool
    log: Callable[[str], None]
    database: Server | None = None
    done: list[Strike] = field(default_factory=list)
    budget: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # of pauses and lengths; the deck has its own
        here = {"disk": self.can_fill, "database": self.database is not None}
        self.deck = Deck(
            random.Random(self.seed), without=[victim for victim, has in here.items() if not has]
        )
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
        pause = self.dice.uniform(*PAUSES)
        while True:
            with self.turn:
                self.turn.wait_for(lambda: self.budget or self.ended)
                if self.ended:
                    return
            time.sleep(pause)
            with self.striking:
                strike = self._next()
            pause = self.dice.uniform(*PAUSES) if strike else AGAIN

    def _next(self) -> Strike | None:
        """The strike that was dealt; none when peace was asked for during the pause, or its part is away."""
        with self.turn:
            if not self.budget:
                return None
        deal = self.deck.deal()
        strike = self._strike(*deal)
        if strike is None:
            self.deck.put_under(deal)
            return None
        self.done.append(strike)
        self.log(f"strike {len(self.done)}: {strike.how} {strike.victim} {strike.seconds:.1f} s")
        with self.turn:
            self.budget = max(0, self.budget - 1)
        return strike

    def _strike(self, victim: str, how: str) -> Strike | None:
        if how == "flush":
            return self._flush()
        if how == "full":
            return self._fill()
        pids = self._pids(victim)
        if not pids:
            return None
        return self._freeze(victim, pids) if how == "freeze" else self._kill(victim, pids)

    def _pids(self, victim: str) -> list[int]:
        """Empty for a part that is just being started."""
        if victim == "database":
            pid = self.database.pid if self.database else 0
            return family(pid) if pid else []
        try:
            pid = int(self.stack.demo["pids"].get(victim) or 0)
        except (OSError, ValueError):
            return []
        return family(pid) if pid > 1 and is_alive(pid) else []

    def _kill(self, victim: str, pids: list[int]) -> Strike | None:
        """The whole part at once, or (of a worker, a web server, a database) one process of its pool."""
        whole = victim not in POOLS or self.dice.random() < 0.6
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
        """The file system under everything that the instance writes has no byte left, for some seconds.

        What others free meanwhile is taken too. In half of the cases a part dies while the disk is full.
        """
        at, seconds, ballast = time.monotonic(), self.dice.uniform(*FULL), self.stack.home.parent / "ballast"
        dies = self.dice.choice(("worker", "web", "pipelines", ""))
        try:
            with ballast.open("wb") as out:
                take_all(out.fileno())
                if pids := self._pids(dies):
                    self.done += filter(None, [self._kill(dies, pids)])
                while time.monotonic() < at + seconds:
                    time.sleep(0.05)
                    take_all(out.fileno())
        finally:
            ballast.unlink(missing_ok=True)
        return Strike(at, "disk", "full", seconds)


def take_all(file: int) -> None:
    """Let `file` take every byte that is left on its file system."""
    while (free := (held := os.fstatvfs(file)).f_bavail * held.f_frsize) >= LEAST:
        try:
            os.posix_fallocate(file, os.fstat(file).st_size, free)
        except OSError as error:  # somebody was quicker: what is left now is asked anew
            if error.errno != errno.ENOSPC:
                raise
