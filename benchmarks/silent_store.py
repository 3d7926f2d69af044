"""Ten readers of a flow whose storage accepts connections and never answers: what the sign-in page takes meanwhile.

`python -m benchmarks.silent_store`: a web process of its own (gunicorn, one process, eight threads, as in the demo) on
SQLite, and a TCP server that says nothing as its S3 endpoint. The sign-in page is timed alone and beside the readers.
"""

import json
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import requests

READERS: Final = 10
ALONE: Final = 30
SECONDS: Final = 15.0
START_SECONDS: Final = 120.0
SEED: Final = """
import json
from django.contrib.auth.models import User
from django.utils import timezone
from django.test import Client
from recovery.models import Flow, Person, Pipeline, Workspace
user = User.objects.create_user("vera", password="none")
Person.objects.create(user=user, role="viewer")
now = timezone.now()
home = Workspace.objects.create(name="main", url="http://127.0.0.1:9", token_ref="env:REPRISE_WORKSPACE_X")
pipeline = Pipeline.objects.create(workspace=home, pipeline_id="p1", name="customers", environment="development",
    state="IDLE", spec={"storage": "s3://bucket/streams"}, seen_at=now)
flow = Flow.objects.create(pipeline=pipeline, name="customers", short="customers", dataset="main.s.customers",
    last_batch=41, updated_at=now)
client = Client()
client.force_login(user)
print(json.dumps({"flow": flow.pk, "session": client.session.session_key}))
"""


@dataclass(frozen=True)
class Measured:
    """Seconds of the sign-in page: medians, and the longest beside the readers. `codes`: what readers were told."""

    alone: float
    beside: float
    longest: float
    pages: int
    statuses: frozenset[int]

    @property
    def ratio(self) -> float:
        return self.beside / self.alone


@contextmanager
def silent_server() -> Iterator[tuple[int, list[socket.socket]]]:
    """(port, connections) of a server that accepts and says nothing."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:

        def accept() -> None:
            try:
                while True:
                    held.append(server.accept()[0])
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server.getsockname()[1], held
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for connection in held:
                connection.close()


@contextmanager
def web(home: Path, endpoint: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(address, {flow, session}) of a web process on an empty database with one flow."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "REPRISE_HOME": str(home), "REPRISE_SECRET_KEY": secrets.token_urlsafe(40),
        "REPRISE_OUTBOUND_ALLOW": "127.0.0.1", "REPRISE_WORKSPACE_X": "x",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{endpoint}", "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1", "DJANGO_SETTINGS_MODULE": "console.settings",
    }  # fmt: skip
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("REPRISE_", "AWS_"))}
    env = {**clean, **settings}
    manage = [sys.executable, "manage.py"]
    for act in (["migrate", "-v0"], ["collectstatic", "--noinput", "-v0"]):
        subprocess.run([*manage, *act], env=env, check=True)
    seed = subprocess.run(
        [*manage, "shell", "-v0", "-c", SEED], env=env, check=True, stdout=subprocess.PIPE, text=True
    )
    facts: dict[str, Any] = json.loads(seed.stdout.strip().splitlines()[-1])
    command = [sys.executable, "-m", "gunicorn", "-c", "python:console.gunicorn", "console.wsgi:application"]
    command += ["--bind", f"127.0.0.1:{port}", "--workers", "1", "--threads", "8", "--log-level", "error"]
    with (home / "web.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + START_SECONDS
        while not _answers(f"{address}/sign-in") and time.monotonic() < end:
            time.sleep(0.2)
        yield address, facts
    finally:
        process.terminate()
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).status_code == 200
    except requests.RequestException:
        return False


def timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def measure(seconds: float = SECONDS) -> Measured:
    """Raises subprocess.CalledProcessError where the web process cannot be set up."""
    with (
        tempfile.TemporaryDirectory(prefix="reprise-silent-") as folder,
        silent_server() as (endpoint, _),
        web(Path(folder), endpoint) as (address, facts),
    ):
        sign_in = f"{address}/sign-in"
        alone = [timed(lambda: requests.get(sign_in, timeout=60)) for _ in range(ALONE)]
        over, statuses = threading.Event(), list[int]()

        def read() -> None:
            cookies = {"sessionid": facts["session"]}
            while not over.is_set():
                page = requests.get(
                    f"{address}/flows/{facts['flow']}/checkpoint", cookies=cookies, timeout=60
                )
                statuses.append(page.status_code)
                over.wait(0.5)

        readers = [threading.Thread(target=read) for _ in range(READERS)]
        for reader in readers:
            reader.start()
        beside = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            beside.append(timed(lambda: requests.get(sign_in, timeout=60)))
            time.sleep(0.1)
        over.set()
        for reader in readers:
            reader.join()
    return Measured(
        statistics.median(alone), statistics.median(beside), max(beside), len(statuses), frozenset(statuses)
    )


if __name__ == "__main__":
    found = measure()
    print(f"alone {found.alone:.3f} s, beside {found.beside:.3f} s (longest {found.longest:.3f} s), "
          f"ratio {found.ratio:.2f}, {found.pages} pages read, load {os.getloadavg()[0]:.0f}")  # fmt: skip
