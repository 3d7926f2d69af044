"""A Spark driver for each environment: code of development reaches nothing of production's, on a running instance.

What it must not reach is tried from each place in which such code runs, as in test_hostile_code; what it may reach of
its own is among the tries, so that each of them can fail.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from console.incident.updates import WantedPipeline, ensure_pipeline, run_update
from console.supervisor.home import read_json
from recovery.errors import Refused
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.errors import ApiDenied, ApiError
from recovery.spark.api import whereabouts
from recovery.spark.asking import Service
from tests.integration.test_hostile_code import ATTACK, BEGIN, GOOD, Attack, command_of, reached
from tests.stack import Stack, instance

pytestmark = [pytest.mark.spark, pytest.mark.alone]

READS_A_FOLDER = """from pyspark import pipelines as dp


@dp.table
def treasure():
    return spark.readStream.format("text").load("{folder}")
"""
BY_SPARK = """
import json
from pyspark import pipelines as dp

reached = []
for table in json.loads('''{tables}'''):
    try:
        spark.sql(f"SELECT count(*) FROM {{table}}").collect()
        reached.append(table)
    except Exception:
        pass
for path in json.loads('''{paths}'''):
    try:
        spark.read.format("binaryFile").load(path).select("path").collect()
        reached.append(path)
    except Exception:
        pass
for folder in json.loads('''{folders}'''):
    try:
        spark.range(1).write.mode("append").parquet(folder + "/planted")
        reached.append(folder)
    except Exception:
        pass
raise RuntimeError("REACHED " + json.dumps(reached))
"""
CONNECT = """
import sys
from pyspark.sql import SparkSession

print(SparkSession.builder.remote(sys.argv[1]).create().sql("SELECT 41 + 1 AS n").collect()[0].n)
"""


@dataclass(frozen=True)
class Production:
    """The server of production beside an instance's own, and what a pipeline of it has: all that is to be kept."""

    home: Path
    data: Path
    pid: int
    pipeline: str

    @property
    def ready(self) -> dict[str, Any]:
        return read_json(self.home / "pipelines.json")

    @property
    def token(self) -> str:
        return (self.home / "pipelines.token").read_text().strip()

    @property
    def client(self) -> PipelinesClient:
        return PipelinesClient(url=self.ready["url"], token=self.token, timeout=60)

    def files(self) -> list[Path]:
        """One of each kind: secrets, databases, source, checkpoint, table, input."""
        named = ["pipelines.token", "spark.token", "spark.remote", "pipelines.sqlite3", "instance.env"]
        found = [self.home / name for name in named]
        found += [next((self.home / "spark/metastore").rglob("*.dat")), next(self.data.rglob("*.txt"))]
        found += [
            next((self.home / "storage").rglob("offsets/0")),
            next((self.home / "warehouse").rglob("part-*")),
        ]
        return [*found, next((self.home / "workspace").rglob("*.py"))]

    def folders(self) -> list[Path]:
        """Where its pipelines write."""
        return [self.data, *[self.home / name for name in ("storage", "warehouse", "updates", "workspace")]]


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="reprise-production-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def apart(data: Path) -> Iterator[Stack]:
    with instance(REPRISE_OWN_DRIVERS=f"production={data}") as running:
        yield running


@pytest.fixture(scope="module")
def production(apart: Stack, data: Path) -> Production:
    """Its pipeline has run, on its own driver, over a folder that is production's alone."""
    home = apart.home / "environments/production"
    (home / "instance.env").write_text("REPRISE_SPARK_CONF='spark.hadoop.fs.s3a.secret.key s'\n")
    (data / "in").mkdir()
    (data / "in/one.txt").write_text("a\nb\n")
    made = Production(home, data, apart.demo["pids"]["pipelines-production"], "")
    wanted = WantedPipeline("treasure", "treasury", "production")
    pipeline = ensure_pipeline(made.client, wanted, READS_A_FOLDER.format(folder=data / "in"))
    assert run_update(made.client, pipeline)[0] == "COMPLETED"
    return Production(home, data, made.pid, pipeline)


def reached_in(text: str) -> list[str]:
    """What an attack says that it reached; the events of an update are JSON."""
    return reached(text.replace('\\"', '"'))


def attack_on(apart: Stack, production: Production) -> Attack:
    of_console = [apart.home / name for name in ("instance.env", "people.json")]
    paths = [*production.files(), *of_console]
    assert [path for path in paths if not path.is_file()] == []
    pids = [production.pid, production.ready["spark_pid"]]
    targets: list[tuple[str, Any]] = [(act, str(path)) for path in paths for act in ("read", "write")]
    targets += [("write", str(folder / "planted")) for folder in production.folders()]
    targets += [(act, (pid, command_of(pid))) for pid in pids for act in ("process", "kill")]
    targets += [("read", str(apart.home / "storage/own"))]  # what it may: the tries do find something
    (apart.home / "storage/own").write_text("of development")
    return Attack(apart, ATTACK + BEGIN.replace("{targets}", json.dumps(targets)))


def test_each_environment_has_a_driver_and_both_hold_pipelines_code(
    apart: Stack, production: Production
) -> None:
    first, own = apart.api.get("/api/2.0/x-reprise/health")[1], production.ready
    assert first["environments"] == ["development", "staging"]
    assert own["environments"] == ["production"]
    assert first["spark_pid"] != own["spark_pid"]
    assert (first["confinement"]["level"], own["confinement"]["level"]) == ("full", "full")


@pytest.mark.parametrize(
    "place",
    ["from_definition", "from_function", "from_each_batch", "from_sink", "from_study", "from_rehearsal"],
)
def test_code_of_development_reaches_no_file_and_no_process_of_production(
    apart: Stack, production: Production, place: str
) -> None:
    found = reached_in(getattr(attack_on(apart, production), place)())
    held = place in (
        "from_definition",
        "from_study",
        "from_rehearsal",
    )  # Landlock keeps those to their own pipeline as well
    assert found == ([] if held else [f"read {apart.home / 'storage/own'}"])


def test_through_spark_it_reaches_its_own_tables_and_none_of_production(
    apart: Stack, production: Production
) -> None:
    own = ensure_pipeline(apart.client, WantedPipeline("own", "own_db", "development"), GOOD)
    assert run_update(apart.client, own)[0] == "COMPLETED"
    ours = next((apart.home / "warehouse/own_db.db").rglob("part-*"))
    code = BY_SPARK.format(
        tables=json.dumps(["own_db.treasure", "treasury.treasure"]),
        paths=json.dumps([str(ours), *map(str, production.files())]),
        folders=json.dumps([str(apart.home / "storage"), *map(str, production.folders())]),
    )
    assert reached_in(Attack(apart, "").from_update("through_spark", code)) == [
        "own_db.treasure", str(ours), str(apart.home / "storage"),
    ]  # fmt: skip
    assert [folder for folder in production.folders() if (folder / "planted").exists()] == []


def test_no_token_of_development_opens_anything_of_production(apart: Stack, production: Production) -> None:
    with pytest.raises(ApiDenied):
        PipelinesClient(url=production.ready["url"], token=apart.demo["pipelines_token"]).list_pipelines()

    remote = (production.home / "spark.remote").read_text().strip()
    with_ours = remote.partition(";token=")[0] + ";token=" + apart.demo["spark_remote"].partition("token=")[2]
    answers = {address: connect(address) for address in (remote, with_ours)}
    assert answers == {remote: "42", with_ours: ""}


def connect(remote: str) -> str:
    """What a client of Spark Connect is answered; "" where it is not let in."""
    command = [sys.executable, "-c", CONNECT, remote]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout.strip()


def test_neither_server_runs_or_answers_for_the_other(apart: Stack, production: Production) -> None:
    for tags, storage in (
        ({"environment": "production"}, ""),
        ({"environment": "development"}, f"file:{production.data}/stolen"),
        ({"environment": "development"}, f"file:{production.home}/storage/{production.pipeline}"),
    ):
        body = {"name": "led astray", "tags": tags, "storage": storage, "libraries": []}
        assert apart.api.post("/api/2.0/pipelines", body)[0] == 400
    with pytest.raises(ApiError) as refused:
        ensure_pipeline(production.client, WantedPipeline("intruder", "intruder", "development"), GOOD)
    assert refused.value.status == 400

    demo = apart.demo
    first = Service(demo["pipelines_url"], demo["pipelines_token"], environment="development")
    own = Service(production.ready["url"], production.token, environment="production")
    assert whereabouts(own, []).driver
    assert whereabouts(first, []).driver
    for service in (
        Service(own.url, own.token, environment="development"),
        Service(first.url, first.token, environment="production"),
    ):
        with pytest.raises(Refused):
            whereabouts(service, [])
