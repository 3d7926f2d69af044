"""`reprise` as a stranger gets it: installed by pip into a fresh environment, it answers as the console does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.audit_files import write_archive
from tests.checkpoint_builder import Built, put, sink_log
from tests.unit.diagnosis.public_texts import CAPTURED, IDS
from tests.wheels import ROOT, run_manage, unpack_checkpoint

HEAVY = {"django", "celery", "pyspark", "requests", "confluent-kafka", "cryptography"}
# One of each way in which Spark keeps state: every further one would ask the same code again.
CHECKPOINTS = (
    "hdfs-join",
    "hdfs-zstd",
    "rocksdb-2-transform",
    "rocksdb-changelog-snapshots",
    "rocksdb-sst-6",
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the commands of a new environment, in which the wheel was installed by pip."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    bin_of = folder / "venv" / "bin"
    released = subprocess.run([ROOT / "bin" / "release"], capture_output=True, text=True, check=True)
    wheel = ROOT / released.stdout.split()[0]
    pip = [bin_of / "python", "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", wheel], check=True, cwd=folder)
    subprocess.run([*pip, "check"], check=True)
    return bin_of


def run(environment: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run([environment / "reprise", *words], capture_output=True, text=True, cwd="/")
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def test_it_brings_no_heavy_package(environment: Path) -> None:
    pip = [environment / "python", "-m", "pip", "--disable-pip-version-check", "list", "--format=freeze"]
    listed = subprocess.run(pip, capture_output=True, text=True, check=True).stdout
    names = {line.partition("==")[0].lower() for line in listed.splitlines()}
    assert "reprise" in names
    assert not names & HEAVY


def test_pip_installs_the_checkout_too(environment: Path, tmp_path: Path) -> None:
    subprocess.run(
        [environment / "python", "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-deps", "-w",
         tmp_path, ROOT], check=True, cwd=tmp_path,
    )  # fmt: skip
    assert [file.name for file in tmp_path.glob("*.whl")] == [
        file.name for file in (ROOT / "dist").glob("*.whl")
    ]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_that_spark_wrote_is_judged_as_by_the_management_command(
    environment: Path, tmp_path: Path, name: str
) -> None:
    place = unpack_checkpoint(name, tmp_path)
    answer = run(environment, "inspect", str(place), "--deep", "--json")
    assert answer == run_manage(tmp_path / "home", "inspect", str(place), "--deep", "--json")
    assert json.loads(answer[1])["last_committed"] >= 3


def test_a_damage_and_an_error_are_judged_as_by_the_management_command(
    environment: Path, tmp_path: Path
) -> None:
    Built(tmp_path / "broken").write()
    put(tmp_path / "broken/sources/0/1", "v1")
    sink_log(tmp_path / "table", 2)
    log, broken = tmp_path / "driver.log", str(tmp_path / "broken")
    log.write_text(CAPTURED.format(ids=IDS, reason="Partition a-0's offset was changed from 9 to 3."))
    for words in (
        ("inspect", broken, "--sink", str(tmp_path / "table")),
        ("inspect", broken, "--error", str(log)),
        ("diagnose", "--error", str(log), "--checkpoint", broken),
    ):
        answer = run(environment, *words)
        assert answer == run_manage(tmp_path / "home", *words), words
        assert answer[0] == 1


def test_an_archive_is_checked_without_a_console(environment: Path, tmp_path: Path) -> None:
    file, key = write_archive(tmp_path)
    assert run(environment, "evidence", "verify", str(file), "--key", key)[0] == 0
    file.write_text(file.read_text().replace("Ran", "Run", 1))
    assert run(environment, "evidence", "verify", str(file), "--key", key)[0] == 1
