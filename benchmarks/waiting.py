"""Whether anything waits while eight updates run for a long time: how long a task of `control` takes, sent to ended.

    .venv/bin/python -m benchmarks.waiting [--reruns 8] [--seconds 120] [--answer 0.08]

Starts a broker, the three workers and beat as the demo does, on SQLite, and a stub of the Pipelines API whose updates
say RUNNING all the time and whose answers take `--answer` seconds. Eight recoveries stand in their rerun. Every quarter
of a second a `notify.sweep` (paging) is sent and followed to its end in the worker's log; meanwhile beat polls, signs,
reaps and expires, and a ninth flow is diagnosed. Then every update completes, and each rerun must be read back. No
Spark: what the ninth diagnosis asks of it ends as not answered, which is an end too. Prints one JSON object.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from console import workers
from console.supervisor import broker

EVERY: Final = 0.25  # seconds between two tasks that are followed
SWEEP: Final = "recovery.notify.tasks.sweep"
ENDED: Final = re.compile(r"Task (?P<name>[\w.]+)\[(?P<id>[\w-]+)\] succeeded")


class Stub(ThreadingHTTPServer):
    """A workspace with one pipeline a recovery; `ended`: its updates are COMPLETED now."""

    daemon_threads = True

    def __init__(self, answer: float, pipelines: int) -> None:
        self.answer, self.pipelines, self.ended, self.calls = answer, pipelines, False, Counter[str]()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """Answers every GET as a workspace would, late."""

    server: Stub

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        time.sleep(self.server.answer)
        self.server.calls["updates" if re.search(r"/updates/.", path) else "others"] += 1
        body = json.dumps(self.said(path)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def said(self, path: str) -> dict[str, Any]:
        state = "COMPLETED" if self.server.ended else "RUNNING"
        parts = path.removeprefix("/api/2.0/pipelines").strip("/").split("/")
        update = {"update_id": "u-1", "state": state, "creation_time": "2026-11-23T00:00:00Z"}
        if parts == [""]:
            return {"statuses": [self.pipeline(f"p-{n}", update) for n in range(self.server.pipelines)]}
        if "events" in parts:
            return {"events": []}
        if "updates" in parts:
            return {"update": update} if parts[-1] != "updates" else {"updates": [update]}
        return self.pipeline(parts[0], update) | {
            "spec": {"id": parts[0], "storage": "/nowhere", "libraries": []}
        }

    def pipeline(self, pipeline_id: str, update: dict[str, Any]) -> dict[str, Any]:
        state = "IDLE" if self.server.ended else "RUNNING"
        return {"pipeline_id": pipeline_id, "name": pipeline_id, "state": state, "latest_updates": [update]}

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Followed:
    """Tasks that were sent and when they ended, by the lines of a worker's log."""

    def __init__(self, log: Path) -> None:
        self.log, self.sent = log, dict[str, float]()
        self.took, self.names = list[float](), Counter[str]()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with self.log.open() as lines:
            while not (self.over.is_set() and not self.sent):
                line = lines.readline()
                if not line:
                    time.sleep(0.01)
                elif found := ENDED.search(line):
                    self.names[found["name"].removeprefix("recovery.")] += 1
                    if began := self.sent.pop(found["id"], None):
                        self.took.append(time.monotonic() - began)


def wait_for(condition: Callable[[], bool], says: str, seconds: float = 180) -> None:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise SystemExit(f"{says}: not within {seconds:.0f} s")
        time.sleep(0.1)


def set_up(home: Path) -> None:
    """Environment, broker's address and tables of an instance in `home`."""
    for name in [n for n in os.environ if n.startswith(("REPRISE_", "DJANGO_"))]:
        del os.environ[name]
    os.environ |= {
        "REPRISE_HOME": str(home), "REPRISE_SECRET_KEY": "k" * 50, "REPRISE_OUTBOUND_ALLOW": "127.0.0.1",
        "REPRISE_BROKER_URL": broker.broker_url(broker.socket_path(home)), "REPRISE_WORKSPACE_STUB": "t",
        "REPRISE_STUDY_SECONDS": "0", "DJANGO_SETTINGS_MODULE": "console.settings", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    call_command("migrate", database="pipelines", verbosity=0)


def stand_in_rerun(url: str, number: int) -> list[int]:
    """So many recoveries whose rerun has started its update and was woken; and a further flow. Ids of the steps."""
    from django.utils import timezone

    from recovery.models import Flow, Pipeline, Plan, Recovery, Step, Workspace

    now = timezone.now()
    workspace = Workspace.objects.create(name="stub", url=url, token_ref="env:REPRISE_WORKSPACE_STUB")
    steps = []
    for n in range(number + 1):
        pipeline = Pipeline.objects.create(
            workspace=workspace, pipeline_id=f"p-{n}", name=f"p-{n}", environment="development", state="RUNNING",
            seen_at=now, spec={"storage": "/nowhere"},
        )  # fmt: skip
        flow = Flow.objects.create(
            pipeline=pipeline,
            name=f"c.s.f{n}",
            short=f"f{n}",
            dataset=f"c.s.t{n}",
            state="failed",
            updated_at=now,
        )
        state = "running" if n < number else "diagnosing"
        row = Recovery.objects.create(
            flow=flow, state=state, created_by="b", owner="b", facts={"status": "none"}
        )
        if n < number:
            plan = Plan.objects.create(recovery=row, hash=f"{n:064d}", body={"patch": []}, sealed_by="b")
            step = Step.objects.create(
                recovery=row, plan=plan, ordinal=1, kind="rerun", idempotency_key=f"r{n}",
                args={"refresh": [f"c.s.t{n}"]}, result={"update_id": "u-1"},
            )  # fmt: skip
            steps.append(step.pk)
    return steps


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--reruns", type=int, default=8)
    options.add_argument("--seconds", type=float, default=120)
    options.add_argument("--answer", type=float, default=0.08)
    asked = options.parse_args()
    home = Path(tempfile.mkdtemp(prefix="rb-"))
    processes: dict[str, subprocess.Popen[bytes]] = {}
    stub = Stub(asked.answer, asked.reruns + 1)

    def start(name: str, command: list[str]) -> None:
        with (home / f"{name}.log").open("wb") as out:
            processes[name] = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)

    try:
        start("broker", broker.server_command(broker.socket_path(home), home / "broker"))
        set_up(home)
        steps = stand_in_rerun(stub.url, asked.reruns)
        for name in workers.WORKERS:
            start(name, [*workers.CELERY, *workers.worker_command(name)])
        start("beat", [*workers.CELERY, "beat", "-l", "INFO", "-s", str(home / "beat"), "--pidfile="])
        for name in workers.WORKERS:
            wait_for(lambda name=name: " ready." in (home / f"{name}.log").read_text(), f"{name} to be ready")
        print(json.dumps(measure(asked, home, stub, steps), indent=2))
    finally:
        for process in reversed(processes.values()):
            process.terminate()
        for process in processes.values():
            process.wait(30)
        stub.shutdown()
        shutil.rmtree(home, ignore_errors=True)


def measure(asked: argparse.Namespace, home: Path, stub: Stub, steps: list[int]) -> dict[str, Any]:
    from recovery.models import Recovery, Step, Workspace
    from recovery.notify.tasks import sweep
    from recovery.workflow import broker as sender
    from recovery.workflow import engine, studies, tasks

    followed = Followed(home / "control.log")
    for pk in steps:
        engine.wake(Step.objects.get(pk=pk))
    wait_for(lambda: Step.objects.filter(look_at__isnull=False).count() == len(steps), "every rerun to wait")
    load, began, diagnosed = os.getloadavg()[0], time.monotonic(), 0.0
    ninth = Recovery.objects.get(state="diagnosing")
    sender.send_on_commit(tasks.gather_facts, ninth.pk, studies.begin(ninth, "facts"))
    oldest = 0.0
    while time.monotonic() - began < asked.seconds:
        name = str(uuid.uuid4())
        followed.sent[name] = time.monotonic()
        sweep.apply_async(task_id=name)
        time.sleep(EVERY)
        ninth.refresh_from_db()
        if not diagnosed and ninth.facts["status"] != "working":
            diagnosed = time.monotonic() - began
        polled = Workspace.objects.values_list("polled_at", flat=True).get()
        if polled:
            from django.utils import timezone

            oldest = max(oldest, (timezone.now() - polled).total_seconds())
    waiting = Step.objects.filter(state="running", look_at__isnull=False).count()
    stub.ended, ended = True, time.monotonic()
    wait_for(lambda: Step.objects.filter(state="done").count() == len(steps), "every rerun to be read back")
    read_back = time.monotonic() - ended
    followed.over.set()
    followed.thread.join(30)
    took = sorted(followed.took)
    return {
        "reruns": len(steps), "seconds": asked.seconds, "answer_s": asked.answer, "load": [load, os.getloadavg()[0]],
        "still_waiting_at_the_end": waiting,
        "control_tasks_followed": len(took), "not_ended": len(followed.sent),
        "control_p50_s": round(statistics.median(took), 3), "control_p95_s": round(took[int(len(took) * 0.95)], 3),
        "control_worst_s": round(took[-1], 3), "ninth_diagnosis_ended_after_s": round(diagnosed, 1),
        "oldest_poll_s": round(oldest, 1), "read_back_all_after_s": round(read_back, 1),
        "calls_of_looks": stub.calls["updates"], "control_tasks_ended": dict(followed.names.most_common()),
    }  # fmt: skip


if __name__ == "__main__":
    main()
