"""A definition file as an attacker, on a running instance: it tries everything, and reports what it reached."""

import json
import os
import textwrap
from pathlib import Path

import pytest

from console.incident.updates import Wanted, ensure, run_update
from tests.stack import Stack

pytestmark = pytest.mark.spark

ATTACK = """
def make_attack(targets):
    def attack():
        import os, socket
        from pathlib import Path

        def read(path):
            with open(path, "rb") as file:
                return bool(file.read(1))

        def write(path):
            with open(path, "ab"):
                return True

        def connect(path):
            os.chdir(os.path.dirname(path))
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(os.path.basename(path))
                return True

        def process(pid):
            return bool(Path(f"/proc/{pid}/environ").read_bytes()) or bool(Path(f"/proc/{pid}/cmdline").read_bytes())

        def kill(pid):
            os.kill(pid, 0)
            return True

        def environments():
            for place in Path("/proc").glob("[0-9]*/environ"):
                try:
                    if b"REPRISE_HOME" in place.read_bytes():
                        return True
                except OSError:
                    pass
            return False

        reached = []
        tries = {"read": read, "write": write, "connect": connect, "process": process, "kill": kill}
        place = os.getcwd()
        for name, target in targets:
            try:
                if tries[name](target):
                    reached.append(f"{name} {target}")
            except OSError:
                pass
            os.chdir(place)
        return reached + ["environments"] * environments()

    return attack
"""
PIPELINE = """
import json
from pyspark import pipelines as dp

attack = make_attack(json.loads('''{targets}'''))
print("REACHED " + json.dumps(attack()), flush=True)


@dp.materialized_view
def loot():
    return spark.range(1)
"""
GOOD = """from pyspark import pipelines as dp


@dp.materialized_view
def treasure():
    return spark.range(3)
"""


def targets_in(stack: Stack, victim: str, update: str) -> list[tuple[str, str | int]]:
    """What an attacker wants, as (try, path or process id); every path is there."""
    home, demo = stack.home, stack.demo
    files = ["instance.env", "audit.key", "people.json", "demo.json", "pipelines.token", "spark.token"]
    files += ["pipelines.sqlite3", "reprise.sqlite3"]
    of_others = [home / "updates" / update / "arguments.json", home / "workspace" / victim.lstrip("/")]
    paths = [path for path in [*[home / name for name in files], *of_others] if path.exists()]
    assert len(paths) >= len(files) - 1 + len(of_others)  # on PostgreSQL there is no reprise.sqlite3
    server = [pid for name, pid in demo["pids"].items() if name != "spark"]
    return [
        *[(act, str(path)) for path in paths for act in ("read", "write")],
        ("write", str(home / "planted")),
        ("write", str(Path(__file__).resolve().parents[2] / "recovery" / "planted.py")),
        ("write", "/etc/planted"),
        ("connect", str(home / "broker.sock")),
        *[(act, pid) for pid in [*server, os.getpid()] for act in ("process", "kill")],
    ]


def test_a_hostile_definition_reaches_nothing_of_the_console_or_of_another_pipeline(stack: Stack) -> None:
    health = stack.api.get("/api/2.0/x-reprise/health")[1]
    assert health["confinement"]["level"] == "full"
    victim = Wanted("victim_of_code", "victim_of_code", "staging")
    owner = ensure(stack.client, victim, GOOD)
    assert run_update(stack.client, owner)[0] == "COMPLETED"
    update = stack.client.list_updates(owner)[0]["update_id"]
    targets = targets_in(stack, victim.source, update)
    code = ATTACK + PIPELINE.replace("{targets}", json.dumps(targets))

    hostile = ensure(stack.client, Wanted("hostile_code", "hostile_code", "staging"), code)
    assert run_update(stack.client, hostile)[0] == "COMPLETED"
    run = stack.client.list_updates(hostile)[0]["update_id"]
    log = (stack.home / "updates" / run / "runner.log").read_text()
    from_definition = [line for line in log.splitlines() if line.startswith("REACHED ")]
    assert from_definition == ["REACHED []"]


def test_a_file_out_of_reach_fails_the_update_where_the_code_reads_it(stack: Stack) -> None:
    secret = stack.home / "audit.key"
    code = textwrap.dedent(
        f"""
        from pyspark import pipelines as dp

        key = open({str(secret)!r}).read()
        """
    )
    hostile = ensure(stack.client, Wanted("key_reader", "key_reader", "staging"), code)
    state, _ = run_update(stack.client, hostile)
    assert state == "FAILED"
    events = stack.client.events(hostile)
    errors = [event["error"] for event in events if event.get("error")]
    assert errors[0]["exceptions"][0]["class_name"] == "FileNotFoundError"
    assert errors[0]["exceptions"][0]["stack"][0]["line_number"] == 4
