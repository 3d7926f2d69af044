"""The wheel: it holds what the command needs and nothing more, is the same each time, and runs on what it declares."""

import io
import json
import zipfile
from pathlib import Path

import pytest
from django.core.management import call_command

from devtools import wheel
from recovery.checkpoints import location_checks
from tests.checkpoint_builder import Built, put, sink_log
from tests.unit.diagnosis.public_texts import CAPTURED, IDS
from tests.wheels import ROOT, link_packages, run_bare, unpack_checkpoint, unpack_wheel

# Tests keep checkpoints below the temporary directory, where a real one draws a warning (tests/conftest.py).
RUN = (
    f"from recovery.checkpoints import location_checks; location_checks.TEMPORARY = {location_checks.TEMPORARY!r}; "
    "import io, json; from contextlib import redirect_stdout; from recovery.cli.main import main\n"
    "def run(words):\n"
    "    with redirect_stdout(io.StringIO()) as out:\n"
    "        return [main(words), out.getvalue()]\n"
    "print(json.dumps([run(words) for words in json.loads(sys.argv[1])]))"
)
"""All calls in one process, since its start takes longer than they do."""
IMPORT = (
    "import importlib, json; [importlib.import_module(n) for n in sys.argv[1:]]; "
    "print(json.dumps([*sys.modules]))"
)
COMMITTED = "1790000000"
FORBIDDEN = ("django", "celery", "pyspark", "requests", "confluent_kafka", "cryptography", "console")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheel's own modules, and the packages that it declares."""
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", COMMITTED)
        unpacked = unpack_wheel(folder)
    return [unpacked, link_packages(folder / "packages", wheel.read_project().dependencies)]


def managed(*words: str) -> tuple[int, str]:
    """What the management command ends with and prints."""
    out = io.StringIO()
    try:
        call_command(*words, stdout=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def test_it_holds_no_console_no_server_and_no_tests(paths: list[Path]) -> None:
    held = {str(file.relative_to(paths[0])) for file in paths[0].rglob("*.py")}
    rooms = {Path(name).parts[1] for name in held if name.count("/") > 1}
    assert {Path(name).parts[0] for name in held} == {"recovery"}
    assert rooms == {"audit", "checkpoints", "cli", "contracts", "diagnosis", "sinks", "sources"}
    assert {name for name in held if "/audit/" in name} == {
        "recovery/audit/__init__.py", "recovery/audit/chain.py", "recovery/audit/offline/__init__.py",
        "recovery/audit/offline/archive.py", "recovery/audit/offline/verify.py",
    }  # fmt: skip


def test_every_module_of_it_can_be_imported_with_what_it_declares_alone(paths: list[Path]) -> None:
    names = [
        ".".join(file.relative_to(paths[0]).with_suffix("").parts).removesuffix(".__init__")
        for file in sorted(paths[0].rglob("*.py"))
    ]
    ended, printed = run_bare(paths, IMPORT, *names)
    assert ended == 0, printed
    assert not {name.split(".")[0] for name in json.loads(printed)} & set(FORBIDDEN)


@pytest.mark.django_db
def test_it_answers_as_the_management_command_does(paths: list[Path], tmp_path: Path) -> None:
    sound, broken = unpack_checkpoint("rocksdb-changelog", tmp_path), tmp_path / "broken"
    Built(broken).write()
    put(broken / "sources/0/1", "v1")
    sink_log(tmp_path / "table", 2)
    log = tmp_path / "driver.log"
    log.write_text(CAPTURED.format(ids=IDS, reason="Partition a-0's offset was changed from 9 to 3."))
    calls = (
        ("inspect", str(sound), "--deep"),
        ("inspect", str(broken), "--sink", str(tmp_path / "table"), "--json"),
        ("inspect", str(sound), "--error", str(log), "--json"),
        ("inspect", str(tmp_path / "nowhere"), "--json"),
        ("diagnose", "--error", str(log), "--checkpoint", str(broken)),
    )
    ended, printed = run_bare(paths, RUN, json.dumps(calls))
    assert ended == 0, printed
    for words, answer in zip(calls, json.loads(printed), strict=True):
        assert tuple(answer) == managed(*words), words


def test_the_same_sources_give_the_same_bytes(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", COMMITTED)
    again = wheel.write_wheel(tmp_path)
    assert again.read_bytes() == next(paths[0].parent.glob("*.whl")).read_bytes()
    with zipfile.ZipFile(again) as zipped:
        assert {info.date_time for info in zipped.infolist()} == {(2026, 9, 21, 14, 13, 20)}
        assert zipped.namelist()[-1].endswith("RECORD")


def test_a_wheel_that_imports_what_it_does_not_declare_is_not_built(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    (tmp_path / "README.md").touch()
    (tmp_path / "recovery/cli").mkdir(parents=True)
    for name in ("__init__.py", "cli/__init__.py"):
        (tmp_path / "recovery" / name).touch()
    (tmp_path / "recovery/cli/main.py").write_text("def main():\n    from django.conf import settings\n")
    with pytest.raises(wheel.CannotBuild, match=r"recovery\.cli\.main imports django"):
        wheel.write_wheel(tmp_path / "dist", tmp_path)


def test_its_bounds_are_those_of_the_console(paths: list[Path]) -> None:
    locked = (ROOT / "requirements/web.in").read_text().splitlines()
    project = wheel.read_project()
    assert set(project.dependencies) <= set(locked)
    assert set(project.extras["s3"]) <= set(locked)
    metadata = next(paths[0].glob("*.dist-info/METADATA")).read_text()
    assert [line for line in metadata.splitlines() if line.startswith("Version")] == [
        f"Version: {project.version}"
    ]
