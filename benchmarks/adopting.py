"""Streams by the thousand: how long a scan of checkpoints and event logs takes, what a poll costs then, and how soon a
batch that has ended is seen.

    python -m benchmarks.adopting [--applications 10000] [--checkpoints 1000]

The database, the logs and the checkpoints are made for the run and removed after it. A log is one that Spark 3.5.9
wrote (tests/fixtures/event_logs), with ids of its own; those of applications without a stream lack its events.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

LISTENER: Final = b'{"Event":"org.apache.spark.sql.streaming'
TIMES: Final = 20


def main(applications: int, checkpoints: int) -> None:
    home = Path(tempfile.mkdtemp(prefix="adopting-"))
    os.environ |= {"REPRISE_HOME": str(home / "home"), "SECRET_KEY": "x" * 50}
    os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
    (home / "home").mkdir()
    try:
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        queries = [str(uuid.uuid4()) for _ in range(checkpoints)]
        size = make(home, applications, queries)
        say(f"{applications:,} applications, {size / 1024**2:,.0f} MB of logs; {checkpoints:,} checkpoints")
        measure(home, queries)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def make(home: Path, applications: int, queries: list[str]) -> int:
    """Bytes of the logs."""
    from tests.checkpoint_builder import Built
    from tests.recorded_logs import unpack

    folder, seen = unpack("spark-3.5.9", "completed", home / "recorded")
    query, app = seen[0]["queries"][0], seen[0]["application"]
    lines = next(folder.iterdir()).read_bytes().splitlines(keepends=True)
    plain = b"".join(line for line in lines if not line.startswith(LISTENER))
    whole, events = b"".join(lines), home / "events"
    events.mkdir()
    written = 0
    for number in range(applications):
        mine = f"app-{number:05}"
        text = plain
        if number < len(queries):
            text = whole.replace(query["id"].encode(), queries[number].encode())
            text = text.replace(query["run"].encode(), str(uuid.uuid4()).encode())
        written += (events / mine).write_bytes(text.replace(app.encode(), mine.encode()))
    first = Built(home / "checkpoints" / "team-0" / "orders-0", query_id=queries[0]).write().root
    for number, query_id in enumerate(queries[1:], start=1):
        place = home / "checkpoints" / f"team-{number % 20}" / f"orders-{number}"
        shutil.copytree(first, place)
        text = (place / "metadata").read_text().replace(queries[0], query_id)
        (place / "metadata").write_text(text)
    return written


def measure(home: Path, queries: list[str]) -> None:
    from recovery.models import Workspace
    from recovery.people.roles import Actor, Role
    from recovery.pipelines.inventory import refresh
    from recovery.streams import tailing
    from recovery.streams.actions import StreamDetails
    from recovery.streams.candidates import adopt_candidates, list_candidates

    by, said = (
        Actor("ada", Role.ADMIN),
        StreamDetails(event_log=str(home / "events"), environment="development"),
    )
    roots = [str(home / "checkpoints")]
    with timed("first scan, every log read"):
        listing = list_candidates(roots=roots, said=said, by=by)
    assert (len(listing.candidates), listing.logs_are_whole) == (len(queries), True)
    with timed("scan again, no log new"):
        listing = list_candidates(roots=roots, said=said, by=by)
    with timed("adopt all"):
        adopt_candidates(listing=listing, said=said, by=by)
    workspace = Workspace.objects.get().pk
    with timed("first poll of all"):
        refresh(workspace_id=workspace)
    with timed("poll, nothing new"):
        refresh(workspace_id=workspace)
    (home / "events" / "app-00000").rename(home / "events" / "app-running.inprogress")
    took = [tail(home, n) for n in range(TIMES)]
    middle, most = statistics.median(took), max(took)
    say(f"batch written to seen in its row, by one look: median {middle:.2f} s, most {most:.2f} s")
    assert tailing.runs_of(str(home / "events"), queries[:1])


def tail(home: Path, number: int) -> float:
    """Seconds from the line of a batch to the row that has it."""
    from recovery.streams import tailing

    log = home / "events" / "app-running.inprogress"
    lines = log.read_bytes().splitlines(keepends=True)
    progress = next(line for line in reversed(lines) if b"QueryProgressEvent" in line)
    event: dict[str, Any] = json.loads(progress)
    event["progress"]["batchId"] = 100 + number
    began = time.monotonic()
    with log.open("ab") as opened:
        opened.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
    assert tailing.catch_up(str(home / "events"))
    return time.monotonic() - began


@contextmanager
def timed(what: str) -> Iterator[None]:
    began, cpu = time.monotonic(), time.process_time()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wall, used = time.monotonic() - began, time.process_time() - cpu
    say(f"{what}: {wall:.1f} s, CPU {used:.1f} s, peak memory so far {peak:,.0f} MB")


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=10_000)
    parser.add_argument("--checkpoints", type=int, default=1_000)
    given = parser.parse_args()
    main(given.applications, given.checkpoints)
