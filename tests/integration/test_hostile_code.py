"""Pipelines' code as an attacker, on a running instance: it tries everything, from each place in which it runs.

What it reached it raises as an exception, so each place also shows that a failure of such code is seen.
"""

import hashlib
import json
import os
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.incident.updates import WantedPipeline, ensure_pipeline, run_update
from recovery.server.events import BAD_REPORT
from recovery.spark.api import RehearsalRequest, StudyRequest, rehearse, study
from tests.answering import service
from tests.stack import Stack

pytestmark = pytest.mark.spark

ATTACK = """
def make_attack(targets):
    def attack():
        import hashlib, os, socket
        from pathlib import Path

        def is_same(pid, command):
            # a thread of the attacker's own may have the same number where it lives
            return hashlib.sha256(Path(f"/proc/{pid}/cmdline").read_bytes()).hexdigest() == command

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

        def process(target):
            return is_same(*target)

        def kill(target):
            os.kill(target[0], 0)
            try:
                return is_same(*target)
            except OSError:
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
BEGIN = """
import json
from pyspark import pipelines as dp


def make_fail(attack):
    def fail(*arguments):
        raise RuntimeError("REACHED " + json.dumps(attack()))

    return fail  # no function of this module by name, which Spark's Python workers do not have


fail = make_fail(make_attack(json.loads('''{targets}''')))
"""
DEFINITION = """

@dp.materialized_view
def loot():
    fail()
"""
FUNCTION = """

@dp.materialized_view
def loot():
    from pyspark.sql.functions import udf
    from pyspark.sql.types import StringType

    return spark.range(1).select(udf(fail, StringType())("id").alias("reached"))
"""
EACH_BATCH = """

query = spark.readStream.format("rate").load().writeStream.foreachBatch(fail).start()
try:
    query.awaitTermination()
except Exception as error:  # a study says the first line of an exception
    said = str(error)
    raise RuntimeError(said[said.index("REACHED") :].splitlines()[0]) from None
"""
SINK = """

def make_source(attack):
    from pyspark.sql.datasource import DataSource

    class Loot(DataSource):
        @classmethod
        def name(cls):
            return "loot"

        def streamWriter(self, schema, overwrite):
            attack()

    return Loot


spark.dataSource.register(make_source(fail))
dp.create_sink("loot", "loot")


@dp.append_flow(target="loot")
def into_loot():
    return spark.readStream.format("rate").load()
"""
GOOD = """from pyspark import pipelines as dp


@dp.materialized_view
def treasure():
    return spark.range(3)
"""


def targets_in(stack: Stack, victim: str, update: str) -> list[tuple[str, str | tuple[int, str]]]:
    """What an attacker wants, as (try, path, or process id and its command); every path is there."""
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
        *[(act, (pid, command_of(pid))) for pid in [*server, os.getpid()] for act in ("process", "kill")],
    ]


def command_of(pid: int) -> str:
    """A digest of the words that a process was started by."""
    return hashlib.sha256(Path(f"/proc/{pid}/cmdline").read_bytes()).hexdigest()


def reached(text: str) -> list[str]:
    """What the attack in a place says that it reached; fails where it says nothing."""
    found = re.search(r"REACHED (\[.*?\])", text)
    assert found, text
    said: list[str] = json.loads(found[1])
    return said


@dataclass(frozen=True)
class Attack:
    """The instance, the code of an attack on it, and whose question it may be."""

    stack: Stack
    code: str

    def from_update(self, name: str, text: str) -> str:
        """All that the events of an update with this code say."""
        hostile = ensure_pipeline(self.stack.client, WantedPipeline(name, name, "staging"), self.code + text)
        assert run_update(self.stack.client, hostile)[0] == "FAILED"
        return json.dumps(
            [event["error"] for event in self.stack.client.events(hostile) if event.get("error")]
        )

    def from_definition(self) -> str:
        return self.from_update("hostile_code", DEFINITION)

    def from_function(self) -> str:
        """In a Python worker of Spark's driver."""
        return self.from_update("hostile_function", FUNCTION)

    def from_each_batch(self) -> str:
        """In the Python worker that Spark's driver keeps for a query of its own that a definition starts."""
        return self.from_update("hostile_batches", EACH_BATCH)

    def from_sink(self) -> str:
        """In the Python worker that plans the writes of a sink's format."""
        return self.from_update("hostile_sink", SINK)

    def request(self, text: str = DEFINITION) -> StudyRequest:
        path = "/Users/ann/p/flow.py"
        return StudyRequest(
            answers=service(self.stack), files={path: self.code + text}, root="/Users/ann/p",
            libraries=(path,), configuration={}, catalog="spark_catalog", schema="default",
            flow="spark_catalog.default.loot",
        )  # fmt: skip

    def from_study(self) -> str:
        return str(study(self.request()).problem)

    def from_each_batch_of_a_study(self) -> str:
        return str(study(self.request(EACH_BATCH)).problem)

    def from_rehearsal(self, text: str = DEFINITION) -> str:
        scratch = self.stack.home / "storage" / "hostile_rehearsal"
        return str(rehearse(RehearsalRequest(self.request(text), str(scratch))).problem)

    def from_each_batch_of_a_rehearsal(self) -> str:
        return self.from_rehearsal(EACH_BATCH)


@pytest.fixture
def victim(worker_id: str) -> WantedPipeline:
    """A pipeline of this worker alone: two that start an update of one at once refuse each other."""
    return WantedPipeline(f"victim_of_code_{worker_id}", f"victim_of_code_{worker_id}", "staging")


@pytest.fixture
def attack(stack: Stack, victim: WantedPipeline) -> Attack:
    owner = ensure_pipeline(stack.client, victim, GOOD)
    assert run_update(stack.client, owner)[0] == "COMPLETED"
    update = stack.client.list_updates(owner)[0]["update_id"]
    targets = json.dumps(targets_in(stack, victim.source, update))
    return Attack(stack, ATTACK + BEGIN.replace("{targets}", targets))


@pytest.mark.parametrize(
    "place",
    [
        "from_definition",
        "from_function",
        "from_each_batch",
        "from_sink",
        "from_study",
        "from_each_batch_of_a_study",
        "from_rehearsal",
        "from_each_batch_of_a_rehearsal",
    ],
)
def test_hostile_code_reaches_nothing_of_the_console_or_of_another_pipelines_source(
    attack: Attack, place: str
) -> None:
    assert attack.stack.api.get("/api/2.0/x-reprise/health")[1]["confinement"]["level"] == "full"
    assert reached(getattr(attack, place)()) == []


FORGES = """
import os
from pathlib import Path
from pyspark import pipelines as dp

for file in Path.cwd().rglob("*.py"):
    file.chmod(0o600)
    file.write_text("# nothing to see here")


@dp.materialized_view
def loot():
    return spark.range(1)
"""
FLOODS = """
import os
from pyspark import pipelines as dp

for number in range(3, 64):
    try:
        os.write(number, b"[" * 60_000 + b"\\n")
    except OSError:
        pass


@dp.materialized_view
def loot():
    return spark.range(1)
"""


def test_code_cannot_rewrite_the_record_of_what_ran(stack: Stack) -> None:
    wanted = WantedPipeline("forger", "forger", "staging")
    hostile = ensure_pipeline(stack.client, wanted, FORGES)
    assert run_update(stack.client, hostile)[0] == "FAILED"
    update = stack.client.list_updates(hostile)[0]["update_id"]
    kept = stack.home / "updates" / update / "source" / wanted.source.lstrip("/")
    assert kept.read_text() == FORGES


def test_code_that_writes_into_the_pipe_of_its_runner_ends_its_own_update_alone(
    stack: Stack, victim: WantedPipeline
) -> None:
    hostile = ensure_pipeline(stack.client, WantedPipeline("flooder", "flooder", "staging"), FLOODS)
    assert run_update(stack.client, hostile)[0] == "FAILED"
    errors = [event["error"] for event in stack.client.events(hostile) if event.get("error")]
    assert errors[0]["exceptions"][0]["class_name"] == BAD_REPORT
    owner = ensure_pipeline(stack.client, victim, GOOD)
    assert run_update(stack.client, owner)[0] == "COMPLETED"


def test_a_file_out_of_reach_fails_the_update_where_the_code_reads_it(stack: Stack) -> None:
    secret = stack.home / "audit.key"
    code = textwrap.dedent(
        f"""
        from pyspark import pipelines as dp

        key = open({str(secret)!r}).read()
        """
    )
    hostile = ensure_pipeline(stack.client, WantedPipeline("key_reader", "key_reader", "staging"), code)
    state, _ = run_update(stack.client, hostile)
    assert state == "FAILED"
    events = stack.client.events(hostile)
    errors = [event["error"] for event in events if event.get("error")]
    assert errors[0]["exceptions"][0]["class_name"] == "FileNotFoundError"
    assert errors[0]["exceptions"][0]["stack"][0]["line_number"] == 4


FROM_SPARK = """
import json
from pyspark import pipelines as dp
from pyspark.sql.functions import udf


@udf("string")
def plant(row):
    import os

    reached = []
    for target in json.loads('''{targets}'''):
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "ab"):
                reached.append(target)
        except OSError:
            pass
    for link, target in json.loads('''{links}'''):
        try:
            os.symlink(target, link)
        except OSError as error:
            reached.append(str(error))
    with open('{report}', "w") as report:
        json.dump(reached, report)
    return "done"


@dp.materialized_view
def {name}():
    return spark.range(1).select(plant("id").alias("said"))
"""


def test_what_spark_runs_reaches_nothing_that_the_next_start_runs_and_stops_nobody_by_links(
    stack: Stack,
) -> None:
    report = stack.home / "storage" / "planted.json"
    targets = [
        stack.home / "driver/conf" / name for name in ("spark-env.sh", "spark-defaults.conf", "planted")
    ]
    links = {stack.home / "eventlog/planted": "nowhere", stack.home / "spark/conf": str(stack.home)}
    code = FROM_SPARK.format(
        targets=json.dumps([str(target) for target in targets]),
        links=json.dumps([[str(link), target] for link, target in links.items()]),
        report=report, name="hostile_udf",
    )  # fmt: skip
    before = (stack.home / "driver/conf/spark-defaults.conf").read_text()
    try:
        hostile = ensure_pipeline(stack.client, WantedPipeline("hostile_udf", "hostile_udf", "staging"), code)
        assert run_update(stack.client, hostile)[0] == "COMPLETED"
        assert json.loads(report.read_text()) == []
        assert (stack.home / "eventlog/planted").is_symlink()

        good = ensure_pipeline(
            stack.client, WantedPipeline("beside_planted", "beside_planted", "staging"), GOOD
        )
        assert run_update(stack.client, good)[0] == "COMPLETED"
    finally:
        for link in links:
            link.unlink(missing_ok=True)
    assert (stack.home / "driver/conf/spark-defaults.conf").read_text() == before
    assert {path.name for path in (stack.home / "driver/conf").iterdir()} == {
        "spark-defaults.conf",
        "log4j2.properties",
    }


def test_a_storage_root_in_the_home_is_refused(stack: Stack) -> None:
    status, answer = stack.api.post(
        "/api/2.0/pipelines", {"name": "greedy", "storage": f"file:{stack.home}/updates", "libraries": []}
    )
    assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
