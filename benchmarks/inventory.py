"""The list with ten thousand flows: each filter of the page, its poll, and the metrics, on SQLite and PostgreSQL.

    python -m benchmarks.inventory [--pipelines 1000] [--flows 10] [--times 20]

Each database is made for the run and removed after it. A line is a request through Django's test client: wall time of
the middle one and of the 95th of a hundred, how many times its limit that is, CPU of the console's process, queries,
size.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from console.supervisor import postgres

ENVIRONMENTS = ("production",) * 4 + ("staging", "development")
STATES = ("ok",) * 14 + ("failed", "failed", "running", "stopped", "stale", "empty")
ERROR = (
    "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema.\n"
    "Please check number and type of fields.\n" + "\tat org.apache.spark.sql.execution.streaming.state\n" * 40
)


def fill(pipelines: int, flows: int) -> None:
    """A company's pipelines: a fifth of the flows is not as it should be, one in twenty has a source at risk."""
    from django.utils import timezone

    from recovery.models import Flow, FlowInput, Pipeline, Recovery, Workspace

    pick, now = random.Random(7), timezone.now()  # noqa: S311  (the same inventory each time)
    places = [
        Workspace.objects.create(name=f"workspace-{n}", url=f"http://127.0.0.1:{n}", polled_at=now)
        for n in (1, 2, 3)
    ]
    update = {"update_id": "u-1", "state": "COMPLETED", "read": True, "flows": {}, "emptied": {}}
    update |= {"file_batches": {}, "error": [], "failure": None, "ended_at": now.isoformat()}
    spec = {"libraries": [{"file": {"path": f"/Users/team/{n}.py"}} for n in range(10)], "storage": "/data/p"}
    rows = Pipeline.objects.bulk_create(
        Pipeline(
            workspace=places[n % 3], pipeline_id=f"p-{n:05}", name=f"pipeline_{n:05}", state="IDLE", spec=spec,
            environment=pick.choice(ENVIRONMENTS), updates=[update] * 5, seen_at=now, judged="ok",
            judged_since=now,
        )
        for n in range(pipelines)
    )  # fmt: skip
    made = Flow.objects.bulk_create(
        [_flow(pick, pipeline, n, now) for pipeline in rows for n in range(flows)], batch_size=500
    )
    FlowInput.objects.bulk_create(
        [
            FlowInput(
                flow=flow, index=0, kind="kafka", place=f"topic_{flow.pk} at broker:9092", reader="x" * 400,
                noted_at=now, seen_at=now, asked_at=now, position='{"t":{"0":5}}', stands_since=now,
                readable=True, unread={"rows": {"value": 5, "exact": True, "why": ""}},
                until=now + timedelta(hours=pick.choice((3,) + (200,) * 19)),
            )
            for flow in made
        ],
        batch_size=500,
    )  # fmt: skip
    Recovery.objects.bulk_create(
        Recovery(
            flow=flow, state="planned" if n % 2 else "needs_attention", reason="It waits.", created_by="x"
        )
        for n, flow in enumerate([f for f in made if f.state == "failed"][:60])
    )

    from recovery.pipelines import listing

    listing.keep_all_lists()


def _flow(pick: random.Random, pipeline: Any, n: int, now: Any) -> Any:
    from recovery.models import Flow

    state = pick.choice(STATES)
    failed = state == "failed"
    behind = {"stale": "not_reached", "empty": "emptied"}.get(state, "")
    since = now - timedelta(minutes=pick.randrange(9000))
    progress = {"timestamp": since.isoformat(), "sources": [{"description": "x" * 1500}] * 2, "batchId": n}
    return Flow(
        pipeline=pipeline, name=f"main.shop.{pipeline.name}_flow_{n}", short=f"{pipeline.name}_flow_{n}",
        dataset=f"main.shop.{pipeline.name}_{n}", state=state, failing_since=since if failed else None,
        behind_since=since if behind else None, behind_why=behind, streaming=n % 7 != 0,
        condition="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" if failed else "",
        error=[{"class_name": "org.apache.spark.SparkException", "message": ERROR}] * 2 if failed else [],
        last_batch=pick.randrange(100_000), last_progress=progress, history=["ok"] * 4 + [state],
        updated_at=since,
    )  # fmt: skip


PAGES = {
    "needs attention (default)": "/",
    "all": "/?show=all",
    "all, last page": "/?show=all&page=100",
    "recovering": "/?show=recovering",
    "input at risk": "/?show=at-risk",
    "not running": "/?show=not-running",
    "all, by name": "/?show=all&sort=name",
    "all, by since": "/?show=all&sort=since",
    "all, by commit": "/?show=all&sort=commit",
    "all, by readable until": "/?show=all&sort=until",
    "production": "/?show=all&env=production",
    "class of failure": "/?show=all&class=STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "text, few fit": "/?show=all&q=pipeline_00077",
    "text of errors": "/?show=all&q=schema+does+not+match",
    "text that is nowhere": "/?show=all&q=nowhere-at-all",
}


LIMITS: Final = {"page": 100.0, "poll": 5.0, "kb": 100.0}
"""Milliseconds of a page at p95, of a poll that finds nothing new, and thousands of bytes of a page."""


def measure(act: Callable[[], Any], times: int) -> dict[str, Any]:
    """Milliseconds, wall and CPU of this process, over `times` runs after one that warms up; queries and bytes."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    act()
    walls, cpus = [], []
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        act()
        walls.append((time.perf_counter() - wall) * 1000)
        cpus.append((time.process_time() - cpu) * 1000)
    with CaptureQueriesContext(connection) as asked:
        response = act()
    walls.sort()
    return {
        "p50": round(statistics.median(walls), 1),
        "p95": round(walls[min(len(walls) - 1, round(len(walls) * 0.95))], 1),
        "cpu": round(statistics.mean(cpus), 1),
        "queries": len(asked),
        "kb": round(len(getattr(response, "content", b"")) / 1000, 1),
        "status": getattr(response, "status_code", 0),
    }


def worker(options: argparse.Namespace) -> None:
    """Measure on one database, and print a JSON object a line."""
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client

    from recovery.health import metrics
    from recovery.people import actions
    from recovery.people.roles import SYSTEM

    settings.ALLOWED_HOSTS = ["testserver"]
    settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
    call_command("migrate", verbosity=0)
    fill(options.pipelines, options.flows)
    actions.create_person(name="viewer", password="a long password it is", role="viewer", by=SYSTEM)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    client, times = Client(), options.times
    user = User.objects.get(username="viewer")
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    for name, address in PAGES.items():
        found = measure(partial(client.get, address), times)
        print(json.dumps({"what": name, "limit": LIMITS["page"], **found}), flush=True)
    part = client.get("/?part=list").content.decode()
    again = part.split('hx-get="')[1].split('"')[0].replace("&amp;", "&")
    found = measure(partial(client.get, again), times * 5)
    print(json.dumps({"what": "a poll that finds nothing new", "limit": LIMITS["poll"], **found}), flush=True)
    print(json.dumps({"what": "the foot of the rail", **measure(partial(client.get, "/polled"), times * 5)}))
    print(json.dumps({"what": "/metrics", **measure(metrics.metrics_text, 3)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=1000)
    parser.add_argument("--flows", type=int, default=10)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return
    with postgres.running_server(Path(sys.executable)) as url:
        for name, database in (("SQLite", ""), ("PostgreSQL", url)):
            if database:
                _create(database)
            print(f"\n{name}; load {os.getloadavg()[0]:.0f} at the start\n")
            print(
                "| | p50 ms | p95 ms | x limit | CPU ms | queries | KB |\n|---|---|---|---|---|---|---|",
                flush=True,
            )
            for line in _lines(database):
                found = json.loads(line)
                ratio = f"{found['p95'] / found['limit']:.2f}" if "limit" in found else ""
                cells = (
                    found["what"],
                    found["p50"],
                    found["p95"],
                    ratio,
                    found["cpu"],
                    found["queries"],
                    found["kb"],
                )
                print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def _create(url: str) -> None:
    import psycopg

    parts = urlsplit(url)
    with psycopg.connect(parts._replace(path="/postgres").geturl(), autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{parts.path.lstrip("/")}"')


def _lines(database: str) -> Iterator[str]:
    home = tempfile.mkdtemp(prefix="reprise-benchmark-")
    environment = os.environ | {"REPRISE_HOME": home, "DJANGO_SETTINGS_MODULE": "console.settings"}
    environment |= {"REPRISE_DATABASE_URL": database} if database else {}
    try:
        command = [sys.executable, "-m", "benchmarks.inventory", "--worker", *sys.argv[1:]]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            yield from (line for line in child.stdout if line.startswith("{"))
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
