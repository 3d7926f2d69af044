"""A whole running instance, one for all tests of a run: broker, Kafka, Spark, API, web, worker, beat.

Several workers use it at once, so each test has a pipeline, a schema and a topic of its own, and looks at nothing else.
A test that kills or stops a part of it is marked `alone`.

def test_something(stack: Stack) -> None:
    made = stack.incident("orders")
    code, out, err = stack.manage("flows", "--json", token="viewer")
    page = stack.console("responder").get("/")
"""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from console.incident.clicks_making import ClicksIncident, make_clicks
from console.incident.making import Incident, make_incident
from console.supervisor.home import read_env, read_json
from console.supervisor.postgres import end_with_parent
from recovery.pipelines.client import PipelinesClient
from tests import command_server, databases, shared
from tests.spark_child import QUICK

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 240
END_SECONDS = 60
SPARK_CONF = f"spark.driver.defaultJavaOptions {QUICK}"


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """The caller's environment without anything that points at another instance."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("REPRISE_", "DJANGO_"))}
    return {**kept, "REPRISE_HOME": str(home), **more}


def wait_for(condition: Callable[[], Any], says: str, seconds: float = 60) -> Any:
    """The first true answer of `condition`; fails the test with `says` when none came in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := condition():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"{says}: not within {seconds:.0f} s")


class Api:
    """The Pipelines API over plain HTTP: every call gives (status, JSON body)."""

    def __init__(self, stack: "Stack") -> None:
        self.stack = stack

    def __call__(self, method: str, path: str, **how: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.stack.demo['pipelines_token']}", **how.pop("headers", {})}
        address = f"{self.stack.demo['pipelines_url']}{path}"
        answer = requests.request(method, address, headers=headers, timeout=60, **how)
        return answer.status_code, answer.json() if answer.content else None

    def get(self, path: str, **params: Any) -> tuple[int, Any]:
        return self("GET", path, params=params)

    def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        return self("POST", path, json=body)


class Console(requests.Session):
    """A browser's session without the browser: addresses are paths, POST brings the CSRF token."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def request(self, method: Any, url: Any, **how: Any) -> requests.Response:  # type: ignore[override]
        how.setdefault("timeout", 60)
        if method.upper() == "POST":
            headers = {"X-CSRFToken": self.cookies.get("csrftoken", ""), "Referer": self.url}
            how["headers"] = {**headers, **(how.get("headers") or {})}
        return super().request(method, url if "://" in url else f"{self.url}{url}", **how)

    def sign_in(self, name: str, password: str) -> None:
        page = self.get("/sign-in")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        form = {"name": name, "password": password, "csrfmiddlewaretoken": token[1] if token else ""}
        answer = self.post("/sign-in", data=form, allow_redirects=False)
        assert answer.status_code == 302, f"{name} could not sign in: {answer.status_code}"


@dataclass
class Stack:
    """One running instance. `demo` is read anew each time: pids change when a child is started again.

    `pid` is its supervisor's; `process` is there where this process started it.
    """

    home: Path
    output: Path
    pid: int
    process: subprocess.Popen[str] | None = None

    @property
    def demo(self) -> dict[str, Any]:
        """The content of demo.json."""
        found: dict[str, Any] = json.loads((self.home / "demo.json").read_text())
        return found

    def is_ready(self) -> bool:
        """Whether demo.json is there and is this run's: one that was killed leaves its own behind."""
        return bool(read_json(self.home / "demo.json").get("pids", {}).get("supervisor") == self.pid)

    @property
    def api(self) -> Api:
        return Api(self)

    @property
    def client(self) -> PipelinesClient:
        return PipelinesClient(url=self.demo["pipelines_url"], token=self.demo["pipelines_token"], timeout=60)

    def environment(self, **more: str) -> dict[str, str]:
        return clean_environment(self.home, **more)

    @property
    def database_url(self) -> str:
        """The instance's own PostgreSQL database; "": SQLite in its home."""
        return read_env(self.home / "instance.env").get("REPRISE_DATABASE_URL", "")

    def execute(self, statement: str) -> None:
        """One SQL statement behind the instance's back, committed."""
        if self.database_url:
            with databases.administrator(self.database_url, own=True) as connection:
                connection.execute(statement.encode())
            return
        with contextlib.closing(sqlite3.connect(self.home / "reprise.sqlite3", timeout=20)) as held, held:
            held.execute(statement)

    @contextlib.contextmanager
    def locked(self) -> Iterator[dict[str, str]]:
        """Another process holds the database; gives the variables with which a command waits half a second for it."""
        if self.database_url:
            with databases.administrator(self.database_url, own=True) as connection, connection.transaction():
                connection.execute("LOCK TABLE recovery_token, recovery_auditentry IN ACCESS EXCLUSIVE MODE")
                more = "&" if "?" in self.database_url else "?"
                yield {"REPRISE_DATABASE_URL": f"{self.database_url}{more}options=-c%20lock_timeout%3D500"}
            return
        with contextlib.closing(sqlite3.connect(self.home / "reprise.sqlite3", isolation_level=None)) as held:
            held.execute("BEGIN IMMEDIATE")
            yield {"REPRISE_DATABASE_TIMEOUT": "0.5"}
            held.execute("ROLLBACK")

    def manage(
        self,
        *arguments: str,
        token: str | None = None,
        seconds: float = 300,
        alone: bool = False,
        **more: str,
    ) -> tuple[int, str, str]:
        """`bin/manage ARGUMENTS` against this instance: (exit code, stdout, stderr).

        `token` is the name of one of the demo's people, or a token itself. `more` are variables. `alone`: by a Python
        of its own, as people start it, in place of a fork that has its libraries already (tests/command_server.py).
        """
        if token is not None:
            more["REPRISE_TOKEN"] = self.demo["users"].get(token, {}).get("token", token)
        run = command_server.run_alone if alone else command_server.run
        done = run(arguments, self.environment(**more), seconds=seconds)
        return done.returncode, done.stdout, done.stderr

    def console(self, name: str) -> Console:
        """A signed-in session of one of the demo's people."""
        session = Console(self.demo["console_url"])
        session.sign_in(name, self.demo["users"][name]["password"])
        return session

    def incident(self, name: str, *, schema: str | None = None, **variant: Any) -> Incident:
        """A pipeline of its own that has failed as the demo's does; see `make_incident` for the variants."""
        base = self.home / "incident" / name
        return make_incident(self.client, base=base, name=name, schema=schema or f"db_{name}", **variant)

    def clicks(self, name: str, **variant: Any) -> ClicksIncident:
        """The same for the second incident: a topic and a pipeline of this name. Only where there are connectors."""
        base = self.home / "incident" / name
        variant = {"schema": f"db_{name}", "topic": name, **variant}
        return make_clicks(self.client, servers=self.demo["kafka"], base=base, name=name, **variant)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Ask it to end, as Ctrl-C does, and give its exit code. Only who started it may."""
        assert self.process, "another process started this instance, for others too"
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(END_SECONDS)

    def log(self) -> str:
        return self.output.read_text(errors="replace")


def start(home: Path, *arguments: str, command: tuple[str, ...] = (), **more: str) -> Stack:
    """Start an instance in `home` and wait until it is ready."""
    output = home.parent / f"{home.name}.out"
    with output.open("w") as out:
        process = subprocess.Popen(
            [*(command or (sys.executable, "-m", "console.supervisor")), "--port", "0", *arguments],
            cwd=ROOT, env=clean_environment(home, **more), stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, text=True, preexec_fn=end_with_parent,
        )  # fmt: skip
    stack = Stack(home, output, process.pid, process)
    try:
        wait_for(
            lambda: stack.is_ready() or process.poll() is not None,
            "the demo's start",
            START_SECONDS,
        )
        assert process.poll() is None, f"the demo ended while starting:\n{stack.log()}"
    except BaseException:
        stack.end()
        raise
    return stack


@contextlib.contextmanager
def kept() -> Iterator[dict[str, Any]]:
    """The shared instance, for its keeper: with connectors, without the demo's incidents.

    Spark Connect keeps what a stopped query held for an hour (SparkConnectStreamingQueryCache), some 1.3 MB each: the
    hundreds of streams of all tests would fill a driver of the usual size, and it would end.
    """
    with instance("--connectors", REPRISE_SPARK_CONF=f"{SPARK_CONF}\nspark.driver.memory 3g") as running:
        yield {"home": str(running.home), "output": str(running.output), "pid": running.pid}


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Stack:
    """The instance that all workers share; it reads Kafka and writes Delta tables too."""
    says = shared.reach(request.config, "instance")
    return Stack(Path(says["home"]), Path(says["output"]), says["pid"])


@contextlib.contextmanager
def instance(*arguments: str, **more: str) -> Iterator[Stack]:
    """A running instance, without incidents, while this lasts; `more` are variables."""
    home = Path(tempfile.mkdtemp(prefix="reprise-stack-"))
    # a silent step is found out after seconds, not minutes: the kill tests wait for it
    quick = {"REPRISE_HEARTBEAT_SECONDS": "0.5", "REPRISE_SILENCE_SECONDS": "4"}
    unasked = {"REPRISE_STUDY_SECONDS": "0"}  # nothing is studied that no test asked for
    made = databases.fresh(os.environ.get(databases.VARIABLE, ""))
    spark = {"REPRISE_SPARK_CONF": SPARK_CONF}
    running = start(home, "--no-incident", *arguments, **{**quick, **unasked, **spark, **made, **more})
    try:
        yield running
    finally:
        running.end()
        databases.drop(made.values())
        shutil.rmtree(home, ignore_errors=True)
        running.output.unlink(missing_ok=True)
