"""What may strike an instance: SIGKILL and SIGSTOP of each of its processes, a flushed broker, a full disk."""

import contextlib
import errno
import math
import os
import random
import signal
import threading
import time
from collections import Counter
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
] = (  # how often each lies in one deck; worker and control do the recoveries, probes the plans
    (("worker", "kill"), 5),
    (("control", "kill"), 3),
    (("probes", "kill"), 2),
    (("web", "kill"), 2),
    (("beat", "kill"), 1),
    (("broker", "kill"), 2),
    (("pipelines", "kill"), 2),
    (("spark", "kill"), 2),
    (("worker", "freeze"), 2),
    (("control", "freeze"), 1),
    (("probes", "freeze"), 1),
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
POOLS: Final = ("worker", "probes", "web", "database")  # of these, one process may be killed alone
FREEZES: Final = (0.5, 6.0)  # seconds; the longer ones outlast the silence after which a step is taken away
FULL: Final = (0.5, 4.0)  # seconds
PAUSES: Final = (0.1, 1.0)  # seconds between two strikes
REST: Final = 8.0  # seconds that a part lives before it is struck again: one that never works loses nothing
DISK_REST: Final = 45.0  # seconds with room between two full disks: nothing starts while it is full
AGAIN: Final = 0.2  # seconds until somebody looks again whether there is anything to strike
LEAST: Final = 4096  # bytes, a page of the file system
PIECE: Final = 1 << 25  # bytes


@dataclass(frozen=True)
class Strike:
    """One strike as it was done; `how` is `kill`, `freeze`, `flush` or `full`."""

    at: float
    victim: str
    how: str
    seconds: float = 0.0


class Deck:
    """Every kind of strike, shuffled, and again when it is used up. What does not fit now keeps its place.

    The order goes by the dice alone: what an instance has not is dealt out of it, so that the rest stays as it is.
    """

    def __init__(self, dice: random.Random, *, without: Collection[str] = ()) -> None:
        self.dice, self.left = dice, list[Deal]()
        self.without = without

    def deal(self, fits: Callable[[Deal], bool]) -> Deal | None:
        """The first that fits. Where none does, another deck is laid under what is left: of each kind no more
        than lies in one deck, so that what seldom fits neither piles up nor keeps the rest from its turn.
        """
        found = next(filter(fits, self.left), None)
        if found is None:
            self._lay_under()
            found = next(filter(fits, self.left), None)
        if found is not None:
            self.left.remove(found)
        return found

    def _lay_under(self) -> None:
        whole = [deal for deal, times in DECK for _ in range(times)]
        self.dice.shuffle(whole)
        most, held = dict(DECK), Counter(self.left)
        for deal in whole:
            if deal[0] not in self.without and held[deal] < most[deal]:
                held[deal] += 1
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

    The seed settles the order of the strikes; which part is away or rests when its turn comes is a matter of time.
    """

    stack: Stack
    seed: int
    can_fill: bool
    log: Callable[[str], None]
    database: Server | None = None
    done: list[Strike] = field(default_factory=list)
    budget: int = 0
    filled: float = -math.inf  # when the disk was last full
    rests: dict[str, tuple[int, float]] = field(default_factory=dict)  # of each part: its pid, since when

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
        """The next strike; none when peace was asked for during the pause, or nothing is there to be struck."""
        with self.turn:
            if not self.budget:
                return None
        deal = self.deck.deal(self._fits)
        strike = self._strike(*deal) if deal else None
        if deal is None or strike is None:
            return None
        self.done.append(strike)
        self.log(f"strike {len(self.done)}: {strike.how} {strike.victim} {strike.seconds:.1f} s")
        with self.turn:
            self.budget = max(0, self.budget - 1)
        return strike

    def _fits(self, deal: Deal) -> bool:
        """Whether the part lives, and has lived for long enough since it was struck or started again."""
        victim, now = deal[0], time.monotonic()
        if victim == "disk":
            return self.filled + DISK_REST <= now
        pid = self._pid(victim)
        last, since = self.rests.get(victim, (pid, now - REST))
        self.rests[victim] = (pid, since if pid == last else now)
        return pid > 1 and self.rests[victim][1] + REST <= now

    def _strike(self, victim: str, how: str) -> Strike | None:
        if how == "full":
            return self._fill()
        pid = self._pid(victim)
        if not pid:
            return None
        if how == "flush":
            strike = self._flush()
        elif how == "freeze":
            strike = self._freeze(victim, family(pid))
        else:
            strike = self._kill(victim, family(pid))
        self.rests[victim] = (pid, time.monotonic())
        return strike

    def _pid(self, victim: str) -> int:
        """0 for a part that is just being started."""
        if victim == "database":
            return self.database.pid if self.database else 0
        try:
            pid = int(self.stack.demo["pids"].get(victim) or 0)
        except (OSError, ValueError):
            return 0
        return pid if pid > 1 and is_alive(pid) else 0

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
                if pid := self._pid(dies):
                    self.done += filter(None, [self._kill(dies, family(pid))])
                while time.monotonic() < at + seconds:
                    time.sleep(0.05)
                    take_all(out.fileno())
        finally:
            ballast.unlink(missing_ok=True)
            self.filled = time.monotonic()
        return Strike(at, "disk", "full", seconds)


def take_all(file: int) -> None:
    """Let `file` take every byte that is left on its file system, in pieces: what fails is not given back whole."""
    while (free := (held := os.fstatvfs(file)).f_bavail * held.f_frsize) >= LEAST:
        try:
            os.posix_fallocate(file, os.fstat(file).st_size, min(free, PIECE))
        except OSError as error:  # somebody was quicker: what is left now is asked anew
            if error.errno != errno.ENOSPC:
                raise
