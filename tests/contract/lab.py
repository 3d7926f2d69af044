"""What the contract tests share: a running server as an outsider sees it, and pipelines small enough to wait for."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from recovery.server.storage_symlink import link_of

PROJECT = Path(__file__).resolve().parents[2]
FINAL = ("COMPLETED", "FAILED", "CANCELED")
NO_RETRY = {"spark.sql.pipelines.maxFlowRetryAttempts": "0"}


@dataclass(frozen=True)
class PipelinesServer:
    """A running server. `home` is its REPRISE_HOME; the others are told of one that the test started itself.

    That of the shared instance is killed and started again by tests of the demo: its pids and the address of its
    Spark change, and `Stack.demo` tells them.
    """

    url: str
    token: str
    home: Path
    pid: int = 0
    spark_pid: int = 0
    process: "subprocess.Popen[str] | None" = None


def until(condition: Callable[[], Any], what: str, seconds: float = 120.0) -> Any:
    """The first true value of `condition`; fails after `seconds`, saying what did not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds:.0f} s")


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def launch(home: Path, *arguments: str, environment: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    """`manage.py serve_pipelines --json` in a home of its own."""
    clean = {
        key: value for key, value in os.environ.items() if not key.startswith(("REPRISE_", "DATABRICKS_"))
    }
    with (home.parent / f"{home.name}.err").open("a") as errors:
        return subprocess.Popen(
            [sys.executable, str(PROJECT / "manage.py"), "serve_pipelines", "--json", *arguments],
            env=clean | {"REPRISE_HOME": str(home), "REPRISE_CONFINEMENT": "optional"} | (environment or {}),
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


def wait_ready(process: "subprocess.Popen[str]", home: Path) -> PipelinesServer:
    """The server once it says that it is ready."""
    assert process.stdout is not None
    line = process.stdout.readline()
    errors = (home.parent / f"{home.name}.err").read_text()
    assert line, f"the server ended with {process.wait(10)}: {errors}"
    ready = json.loads((home / "pipelines.json").read_text())
    assert ready["pid"] == process.pid
    return PipelinesServer(
        url=ready["url"],
        token=(home / "pipelines.token").read_text().strip(),
        home=home,
        pid=ready["pid"],
        spark_pid=ready["spark_pid"],
        process=process,
    )


@contextmanager
def running(
    home: Path, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[PipelinesServer]:
    """A server that is ended with the block."""
    process = launch(home, *arguments, environment=environment)
    try:
        yield wait_ready(process, home)
    finally:
        process.terminate()
        process.wait(60)
        link_of(home).unlink(missing_ok=True)
        assert process.stdout is not None
        process.stdout.close()


class Api:
    """Bare HTTP calls, as a client that is not the official SDK makes them."""

    def __init__(self, server: PipelinesServer) -> None:
        self.server = server
        self.made: set[str] = set()  # ids of the pipelines that were made through it
        self.lasting: set[str] = set()  # those of them that several modules, or parts of one, use
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {server.token}"

    def send(self, method: str, path: str, **more: Any) -> requests.Response:
        """The response, whatever its status."""
        response = self.session.request(method, f"{self.server.url}/api/2.0{path}", timeout=60, **more)
        if (method, path, response.status_code) == ("POST", "/pipelines", 200):
            self.made |= {response.json()["pipeline_id"]} if "pipeline_id" in response.json() else set()
        return response

    def call(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """The JSON of an answer that must be 200."""
        response = self.send(method, path, **more)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def put_code(self, path: str, code: str) -> None:
        """Store a definition file, its folder too."""
        self.call("POST", "/workspace/mkdirs", json={"path": path.rsplit("/", 1)[0]})
        body = {
            "path": path,
            "format": "RAW",
            "overwrite": True,
            "content": base64.b64encode(code.encode()).decode(),
        }
        self.call("POST", "/workspace/import", json=body)

    def start(self, pipeline_id: str, **options: Any) -> str:
        """Start an update; its id."""
        return str(self.call("POST", f"/pipelines/{pipeline_id}/updates", json=options)["update_id"])

    def update(self, pipeline_id: str, update_id: str) -> dict[str, Any]:
        """UpdateInfo."""
        answer: dict[str, Any] = self.call("GET", f"/pipelines/{pipeline_id}/updates/{update_id}")["update"]
        return answer

    def finish(self, pipeline_id: str, update_id: str) -> str:
        """The state that an update ends in."""

        def ended() -> str | None:
            state = str(self.update(pipeline_id, update_id)["state"])
            return state if state in FINAL else None

        return str(until(ended, f"the end of update {update_id}"))

    def run(self, pipeline_id: str, **options: Any) -> tuple[str, str]:
        """(update id, final state) of a whole update."""
        update_id = self.start(pipeline_id, **options)
        return update_id, self.finish(pipeline_id, update_id)

    def events(self, pipeline_id: str, update_id: str) -> list[dict[str, Any]]:
        """All events of an update, oldest first."""
        query = {"filter": f"update_id = '{update_id}'", "order_by": "timestamp asc", "max_results": 1000}
        found: list[dict[str, Any]] = self.call("GET", f"/pipelines/{pipeline_id}/events", params=query)[
            "events"
        ]
        return found

    def statuses(self, pipeline_id: str, update_id: str) -> dict[str, list[str]]:
        """The statuses of each flow (bare names), in order."""
        found: dict[str, list[str]] = {}
        for event in self.events(pipeline_id, update_id):
            if event["event_type"] == "flow_progress":
                name = event["origin"]["flow_name"].rsplit(".", 1)[-1]
                found.setdefault(name, []).append(event["details"]["flow_progress"]["status"])
        return found

    def last_error(self, pipeline_id: str, update_id: str) -> str:
        """The message of the update's end, with every exception of it."""
        event = self.events(pipeline_id, update_id)[-1]
        texts = [link["message"] for link in event.get("error", {}).get("exceptions", [])]
        return "\n".join([event["message"], *texts])


class Stream:
    """A pipeline with one streaming table `rows` (flow `rows_flow`) over a folder of JSON files."""

    flow = "rows_flow"

    def __init__(self, api: Api, name: str, *, one_by_one: bool = False, view: bool = True) -> None:
        self.api = api
        self.schema = f"{name}_db"
        self.inbox = (
            api.server.home / "incident" / "inbox" / name
        )  # of a home, where pipelines' code may read
        self.inbox.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.inbox.mkdir()
        self.path = f"/Users/tester/{name}/pipeline.py"
        self.one_by_one = one_by_one
        self.view = view
        self.written = 0
        self.write_code(deduplicate=True)
        spec = {
            "name": name,
            "schema": self.schema,
            "root_path": f"/Users/tester/{name}",
            "libraries": [{"file": {"path": self.path}}],
            "configuration": NO_RETRY,
            "tags": {"environment": "development"},
        }
        self.id = str(api.call("POST", "/pipelines", json=spec)["pipeline_id"])

    def write_code(self, *, deduplicate: bool) -> None:
        """Store the definition, with or without its stateful operator."""
        lines = [
            "from pyspark import pipelines as dp",
            'dp.create_streaming_table("rows")',
            f'@dp.append_flow(target="rows", name="{self.flow}")',
            "def feed():",
            '    reader = spark.readStream.schema("id INT, word STRING")',
            '    reader = reader.option("maxFilesPerTrigger", "1")' if self.one_by_one else "",
            f'    frame = reader.json("{self.inbox}")',
            '    return frame.dropDuplicates(["id"])' if deduplicate else "    return frame",
        ]
        if self.view:
            lines += [
                "@dp.materialized_view",
                "def counts():",
                '    return spark.read.table("rows").groupBy("word").count()',
            ]
        self.api.put_code(self.path, "\n".join(lines) + "\n")

    def arrive(self, *rows: dict[str, Any]) -> None:
        """One more input file, put into place whole."""
        draft = self.inbox.parent / f".{self.inbox.name}.draft"
        draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
        draft.rename(self.inbox / f"{self.written:05d}.json")
        self.written += 1

    @property
    def checkpoint(self) -> Path:
        """The flow's checkpoint folder, found through the API's answer alone."""
        storage = self.api.call("GET", f"/pipelines/{self.id}")["spec"]["storage"]
        root = Path(storage.removeprefix("file:"))
        return root / "_checkpoints" / "spark_catalog" / self.schema / "rows" / self.flow

    def batches(self, version: int = 0) -> list[int]:
        """Batches that were planned in a checkpoint version."""
        folder = self.checkpoint / str(version) / "offsets"
        return (
            sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())
            if folder.exists()
            else []
        )


def runner_pids(update_id: str) -> list[int]:
    """Runners that work in this update's folder."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
                works_in = str((folder / "cwd").readlink())
            except OSError:
                continue
            if "recovery.server.runner" in command and update_id in works_in and alive(int(folder.name)):
                found.append(int(folder.name))
    return found
