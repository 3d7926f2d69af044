"""The audit log with a million entries: how long a check takes, what memory it needs, how fast the list is.

    python -m benchmarks.audit [--entries 1000000] [--pages 200]

Works on a database of its own: SQLite in a temporary folder, or the one that REPRISE_DATABASE_URL names (its audit
log must be empty; it is emptied again at the end). Each measurement is a process of its own, so that memory is its own.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

BATCH = 5_000
PEOPLE = [f"person-{n}" for n in range(40)]
ACTS = ("step.run",) * 6 + (
    "recovery.open",
    "recovery.strategy",
    "recovery.execute",
    "session.sign_in",
    "token.use",
)
FIRST = datetime(2023, 1, 1, tzinfo=UTC)


def entries(count: int) -> Iterator[dict[str, Any]]:
    """A chain as years of use leave it: 40 people, a worker, 12 entries a recovery, 2 % denied, 1 % failed."""
    from recovery.audit import chain, entry_hmac

    pick = random.Random(7)  # noqa: S311  (the same log each time)
    prev = chain.GENESIS
    for seq in range(1, count + 1):
        act = pick.choice(ACTS)
        is_task = act == "step.run"
        who = pick.choice(PEOPLE)
        recovery = "" if act in ("session.sign_in", "token.use") else f"R-{1 + seq // 12}"
        fields = {
            "seq": seq, "format": chain.FORMAT, "at": FIRST + timedelta(seconds=90 * seq), "prev_hash": prev,
            "actor": "reprise" if is_task else who, "role": "system" if is_task else "responder",
            "behalf": who if is_task else "", "via": "system" if is_task else "page",
            "request_id": f"req-{seq // 3:012x}",
            "task_id": f"{seq:032x}" if is_task else "", "session": "" if is_task else "0123456789abcdef",
            "address": "" if is_task else "192.0.2.7", "action": act,
            "outcome": pick.choices(("done", "denied", "failed", "unknown"), (96, 2, 1, 1))[0],
            "target_kind": "flow", "target": f"spark_catalog.crm.flow_{seq % 500}", "recovery": recovery,
            "environment": ("production", "staging", "development")[seq % 3] if recovery else "",
            "says": f"Step {seq} of flow_{seq % 500} is done.", "reason": "",
            "before": {"state": "planned", "version": 0}, "after": {"state": "running", "version": 1, "batch": seq},
        }  # fmt: skip
        prev = chain.entry_hash(fields)
        yield {**fields, "hash": prev, "seal": entry_hmac.seal_entry(seq, prev)}


def fill(count: int) -> dict[str, Any]:
    """The entries, past the models (executemany, COPY), with a signature at each BATCH of them."""
    from django.db import connection, transaction

    from recovery.audit import anchoring
    from recovery.audit.exporting import COLUMNS
    from recovery.models import AuditEntry

    assert not AuditEntry.objects.exists(), "this audit log is not empty"
    begun, batch, columns = time.monotonic(), [], (*COLUMNS, "seal")
    for entry in entries(count):
        at = entry["at"].replace(tzinfo=None) if connection.vendor == "sqlite" else entry["at"]
        values = {
            **entry,
            "at": str(at),
            "before": json.dumps(entry["before"]),
            "after": json.dumps(entry["after"]),
        }
        batch.append(tuple(values[name] for name in columns))
        if len(batch) == BATCH or entry["seq"] == count:
            with transaction.atomic():
                _insert(columns, batch)
                anchoring.sign_statement(anchoring.MARK, entry["seq"], entry["hash"])
            batch = []
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return {"seconds": time.monotonic() - begun}


def _insert(columns: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
    from django.db import connection

    names = ", ".join(f'"{name}"' for name in columns)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            marks = ", ".join(["%s"] * len(columns))
            cursor.executemany(f"INSERT INTO recovery_auditentry ({names}) VALUES ({marks})", rows)  # noqa: S608
            return
        with cursor.copy(f"COPY recovery_auditentry ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def verify(_: int) -> dict[str, Any]:
    from recovery.audit.verifying import check_chain

    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun, cpu = time.monotonic(), time.process_time()
    found = check_chain()
    took, cpu = time.monotonic() - begun, time.process_time() - cpu
    assert found["ok"], found["problems"][:3]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": took, "cpu_seconds": cpu, "entries": found["entries"], "anchors": found["anchors"],
            "peak_mb": peak / 1024, "idle_mb": idle / 1024}  # fmt: skip


def pages(count: int) -> dict[str, Any]:
    """The list page through Django's client: templates, rights and middleware are real."""
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from recovery.audit.listing import SEARCHED
    from recovery.models import AuditEntry, Person

    call_command("collectstatic", interactive=False, verbosity=0)
    user, _ = User.objects.get_or_create(username="auditor-of-the-benchmark")
    Person.objects.get_or_create(user=user, role="auditor")
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    last = AuditEntry.objects.order_by("-seq").values_list("seq", flat=True).first() or 0
    day = (FIRST + timedelta(seconds=90 * last // 2)).strftime("%Y-%m-%d")
    asked = {
        "newest": "", "deep": f"?before={last // 2}", "one recovery": f"?recovery=R-{last // 24}",
        "a person": "?who=person-7", "act": "?act=recovery.execute", "outcome": "?outcome=unknown",
        "environment": "?env=production", "a day": f"?from={day}&to={day}",
        "person, act, outcome": "?who=person-7&act=recovery.execute&outcome=denied",
        "text, found at once": "?q=flow_7", "text that is nowhere": "?q=nowhere-at-all",
    }  # fmt: skip
    client.get("/audit")
    found: dict[str, Any] = {"searched": SEARCHED}
    for name, query in asked.items():
        times, cpu = [], time.process_time()
        for _ in range(max(5, count // len(asked))):
            begun = time.perf_counter()
            answer = client.get(f"/audit{query}")
            times.append(1000 * (time.perf_counter() - begun))
            assert answer.status_code == 200
        cpu = 1000 * (time.process_time() - cpu) / len(times)
        with CaptureQueriesContext(connection) as queries:
            client.get(f"/audit{query}")
        p95 = statistics.quantiles(times, n=20)[-1]
        found[name] = {"median": statistics.median(times), "p95": p95, "cpu": cpu, "queries": len(queries)}
    return found


def empty(_: int) -> dict[str, Any]:
    from django.db import connection

    from recovery.audit import guard

    guard.remove_triggers(connection)
    with connection.cursor() as cursor:
        for table in (*guard.TABLES, "recovery_auditcheck"):
            cursor.execute(f"DELETE FROM {table}")  # noqa: S608  (our own names)
    guard.install_triggers(connection)
    return {}


STAGES = {"fill": fill, "verify": verify, "pages": pages, "empty": empty}


def stage(name: str, number: int, env: dict[str, str]) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.audit", "--stage", name, "--number", str(number)]
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(name, json.dumps(answer, indent=1), flush=True)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--stage", choices=list(STAGES))
    parser.add_argument("--number", type=int, default=0)
    given = parser.parse_args()
    if given.stage:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
        import django

        django.setup()
        print(json.dumps(STAGES[given.stage](given.number)))
        return
    home = tempfile.mkdtemp(prefix="reprise-audit-bench-")
    env = {**os.environ, "REPRISE_HOME": home, "REPRISE_SECRET_KEY": "benchmark-" + "x" * 40}
    try:
        subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], env=env, check=True)
        stage("fill", given.entries, env)
        stage("verify", 0, env)
        stage("pages", given.pages, env)
        if "REPRISE_DATABASE_URL" in env:
            stage("empty", 0, env)
        else:
            size = sum(f.stat().st_size for f in Path(home).glob("reprise.sqlite3*")) / 1e6
            print(f"database {size:.0f} MB")
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
