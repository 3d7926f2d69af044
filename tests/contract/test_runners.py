"""What a definition does to its own process reaches neither the next update nor the end of its own."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.contract.lab import Api, runner_pids, until

# Writes down what it finds, spoils all of it, and leaves two processes: one in its group, one in a session of its own.
SPOILING = """
import json, linecache, os, random, sys, time
import numpy
from pyspark import pipelines as dp

found = {
    "pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "cwd": os.getcwd(), "argv": sys.argv[1:],
    "environment": sorted(os.environ), "token": "TOKEN" in str(os.environ), "path": list(sys.path),
    "modules": "spoiled" in sys.modules, "lines": "spoiled" in linecache.cache,
    "random": [random.random(), float(numpy.random.rand())],
}
os.environ["SPOILED"] = "1"
os.environ.pop("PATH")
sys.modules["spoiled"] = sys
linecache.cache["spoiled"] = (0, None, [], "spoiled")
sys.path.insert(0, "/spoiled")
random.seed(1)
numpy.random.seed(1)
found["left"] = []
for own_session in (False, True):
    pid = os.fork()
    if pid == 0:
        with open("/proc/self/comm", "w") as name:  # its id is known in its jail only
            name.write("spoilt-session" if own_session else "spoilt-group")
        if own_session:
            os.setsid()
            os.chdir("/")
        time.sleep(600)
        os._exit(0)
    found["left"].append(pid)
with open("{file}", "a") as file:
    file.write(json.dumps(found) + "\\n")


@dp.materialized_view
def seen():
    return spark.range(3)
"""


@pytest.fixture(scope="module")
def found(api: Api) -> Iterator[list[dict[str, Any]]]:
    """What the same definition found in two updates, one after the other."""
    file = api.server.home / "incident" / "found.json"
    file.parent.mkdir(exist_ok=True)
    api.put_code("/Users/tester/spoiling.py", SPOILING.replace("{file}", str(file)))
    spec = {
        "name": "spoiling",
        "schema": "spoiling_db",
        "libraries": [{"file": {"path": "/Users/tester/spoiling.py"}}],
    }
    pipeline_id = str(api.call("POST", "/pipelines", json=spec)["pipeline_id"])
    try:
        for _ in range(2):
            update_id, state = api.run(pipeline_id)
            assert state == "COMPLETED", api.last_error(pipeline_id, update_id)
            wait_for_end_of_runner(update_id)
        yield read(file)
    finally:
        file.unlink(missing_ok=True)


def wait_for_end_of_runner(update_id: str) -> None:
    """Also of what it had started: that works in the same folder."""
    until(lambda: runner_pids(update_id) == [], "the end of the runner's processes", 10)


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_each_update_has_a_process_of_its_own_in_a_session_of_its_own(found: list[dict[str, Any]]) -> None:
    first, second = found
    assert first["pid"] != second["pid"]
    assert [entry["session"] for entry in found] == [first["pid"], second["pid"]]
    assert [entry["argv"] for entry in found] == [[], []]
    assert first["cwd"] != second["cwd"]


def test_what_a_definition_changes_in_its_process_is_gone_with_it(found: list[dict[str, Any]]) -> None:
    first, second = found
    assert first["environment"] == second["environment"]
    assert "PATH" in second["environment"]
    assert not any(name.startswith(("REPRISE_", "DJANGO_")) for name in second["environment"])
    of_the_parent = {name for name in second["environment"] if name.startswith(("OPENBLAS_", "JE_"))}
    assert of_the_parent <= set(os.environ)  # what the machine itself sets, everybody has
    assert not second["token"]
    assert (second["modules"], second["lines"]) == (False, False)
    assert "/spoiled" not in second["path"]
    assert [p for p in first["path"] if p != first["cwd"]] == [
        p for p in second["path"] if p != second["cwd"]
    ]


def test_no_two_updates_draw_the_same_random_numbers(found: list[dict[str, Any]]) -> None:
    first, second = found
    assert set(first["random"]).isdisjoint(second["random"])


def named(comm: str) -> list[int]:
    """Ids, as this process sees them, of the processes of that name."""
    places = []
    for place in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            places += [place.parent.name] * (place.read_text().strip() == comm)
    return [int(name) for name in places]


def test_what_a_definition_started_ends_with_its_update(found: list[dict[str, Any]]) -> None:
    """Also a process that has a session of its own."""
    assert named("spoilt-group") == named("spoilt-session") == []


def test_an_exit_and_a_signal_of_the_code_are_told(api: Api) -> None:
    for name, line, sentence in (
        ("exits", "os._exit(7)", "ended with exit code 7"),
        ("killed", "os.kill(os.getpid(), 6)", "was killed by signal 6"),
    ):
        api.put_code(f"/Users/tester/{name}.py", f"import os\n{line}\n")
        spec = {
            "name": name,
            "schema": "ends_db",
            "libraries": [{"file": {"path": f"/Users/tester/{name}.py"}}],
        }
        pipeline_id = str(api.call("POST", "/pipelines", json=spec)["pipeline_id"])
        update_id, state = api.run(pipeline_id)
        assert state == "FAILED"
        assert sentence in api.last_error(pipeline_id, update_id)
