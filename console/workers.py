"""The Celery workers of an instance: which queues each serves, with what pool. One table for the demo, the images and
the question whether each lives.

`worker` runs the steps of recoveries. `control` does what is short and must never wait: polls, notifications, signing,
clearing up, looking at updates that run; it waits for networks most of the time, so it has threads. `probes` reads for
a long time: plans, studies, probes of steps, checks of the log. A kind of work that is slow, or hangs, delays no other.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class Worker:
    """`queues` that it serves, how many tasks `at_once`, in processes (`prefork`) or `threads`."""

    queues: tuple[str, ...]
    pool: str
    at_once: int


WORKERS: Final[Mapping[str, Worker]] = MappingProxyType(
    {
        "worker": Worker(("steps",), "prefork", 2),
        "control": Worker(("control",), "threads", 8),
        "probes": Worker(("probes",), "prefork", 3),
    }
)


def worker_command(name: str) -> list[str]:
    """The words after `celery -A console.celery`, as in the Dockerfile and in docker-compose.yml."""
    worker = WORKERS[name]
    how = ["-n", f"{name}@%h", "-Q", ",".join(worker.queues), "-P", worker.pool, "-c", str(worker.at_once)]
    return ["worker", *how, "-l", "INFO", "--without-gossip", "--without-mingle"]


def part_of(hostname: str) -> str:
    """Which worker a Celery host name is of (`control@host`); one with a name of its own counts as `worker`."""
    name = hostname.partition("@")[0]
    return name if name in WORKERS else "worker"


CELERY: Final = (sys.executable, "-m", "celery", "-A", "console.celery")
