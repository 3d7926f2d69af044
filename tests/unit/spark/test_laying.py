"""A plain program finds its modules from its own folders, and its paths from there are the real ones. No Spark here."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recovery.spark import laying, programs
from recovery.spark.definitions import UNKNOWN_PLACE, BadCode
from recovery.spark.programs_words import ARGUMENTS, CHECKPOINT
from recovery.streams import imports

PROGRAM = "/srv/reprise-no-such/lake/src/gold/x.py"
LAKE = "/srv/reprise-no-such/lake"
HEAD = """\
import os, sys
from pathlib import Path
from pyspark.sql import SparkSession
ROOT = Path(__file__).resolve().parents[2]
spark = SparkSession.builder.getOrCreate()
"""
QUERY = """\
df = spark.readStream.schema("id int").json({source})
df.writeStream.format("parquet").option("checkpointLocation", {checkpoint}).start({sink})
"""
COMMON = {
    f"{LAKE}/src/__init__.py": "",
    f"{LAKE}/src/common/__init__.py": "",
    f"{LAKE}/src/common/paths.py": 'from pathlib import Path\nDATA = f"file://{Path(__file__).parents[2]}/data"\n',
    f"{LAKE}/src/gold/__init__.py": "",
    f"{LAKE}/src/gold/names.py": "NAME = 'gold'\n",
}


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session of Spark Connect that nobody answers: plans are made, and nothing is asked."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:9")
    monkeypatch.setattr("pyspark.errors.utils.is_debugging_enabled", lambda: False)
    monkeypatch.setattr(programs, "_set", lambda *_: None)
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection="sc://127.0.0.1:9")
    yield session
    session.client._channel.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a question; what a study does to the process is undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def read(
    spark: Any, folder: Path, code: str, checkpoint: str, arguments: tuple[str, ...] = ()
) -> tuple[list[str], str]:
    """(places that are read, place that is written) of the program's one query."""
    files = {PROGRAM: HEAD + code, **COMMON}
    laid = laying.lay_down(files, f"{LAKE}/src", (PROGRAM,), folder)
    configuration = {CHECKPOINT: checkpoint, ARGUMENTS: json.dumps(arguments)}
    request = {"libraries": [PROGRAM], "flow": "x", "configuration": configuration}
    found = programs.load(spark, laid, request)
    paths = found.flows[0].func()._plan.plan(spark.client).read.data_source.paths
    return list(paths), found.sinks["x"].options["path"]


def test_imports_resolve_from_as_many_folders_as_files_are_gathered_from() -> None:
    assert laying.MOST_PARENTS == imports.MOST_PARENTS


@pytest.mark.parametrize("program", ["/x.py", "/jobs/x.py", "/opt/jobs/x.py", "/a/b/c/d/x.py"])
def test_a_program_of_any_depth_is_laid_down_with_its_own_folder_first(program: str, folder: Path) -> None:
    laid = laying.lay_down({program: ""}, str(Path(program).parent), (program,), folder)
    assert laid.roots[0] == f"{laid.tree}{str(Path(program).parent).rstrip('/')}"


@pytest.mark.parametrize(
    "imports",
    [
        "sys.path.insert(0, str(ROOT))\nfrom src.common.paths import DATA\n",
        "sys.path.insert(0, str(Path(__file__).parents[1]))\nfrom common.paths import DATA\n",
        "from src.common.paths import DATA\n",  # started with PYTHONPATH, or as a module
        "import names\nfrom src.gold.names import NAME\nfrom src.common.paths import DATA\n",
    ],
)
def test_a_program_in_a_package_imports_from_the_folder_above_its_package(
    spark: Any, folder: Path, imports: str
) -> None:
    code = imports + QUERY.format(source='"/in"', checkpoint='"/ck"', sink='"/out"')
    assert read(spark, folder, code, "/ck") == (["/in"], "/out")


@pytest.mark.parametrize(
    ("source", "checkpoint", "sink"),
    [
        ('str(ROOT / "data/in")', 'str(ROOT / "data/ck")', 'str(ROOT / "data/out")'),
        ('f"{ROOT}/data/in"', 'f"file://{ROOT}/data/ck"', 'ROOT / "data/out"'),
        (
            'os.path.dirname(__file__) + "/../../data/in"',
            'os.path.join(os.path.dirname(__file__), "..", "..", "data", "ck")',
            'str(ROOT.parent / "lake/data/out")',
        ),
        ('str(Path.cwd() / "data/in")', 'os.path.abspath("data/ck")', '"data/out"'),
    ],
)
def test_paths_from_the_folder_of_a_program_are_the_real_ones(
    spark: Any, folder: Path, source: str, checkpoint: str, sink: str
) -> None:
    code = QUERY.format(source=source, checkpoint=checkpoint, sink=sink)
    assert read(spark, folder, code, f"{LAKE}/data/ck") == ([f"{LAKE}/data/in"], f"{LAKE}/data/out")


def test_paths_that_a_module_of_it_makes_are_the_real_ones_in_their_own_spelling(
    spark: Any, folder: Path
) -> None:
    code = "from src.common.paths import DATA\n" + QUERY.format(
        source='DATA + "/in"', checkpoint='DATA + "/ck"', sink='DATA + "/out"'
    )
    whole = f"file://{LAKE}/data"
    assert read(spark, folder, code, f"{LAKE}/data/ck") == ([f"{whole}/in"], f"{whole}/out")


@pytest.mark.parametrize(
    ("source", "checkpoint", "sink"),
    [
        ('"/in"', 'str(Path.home() / "ck")', '"/out"'),
        ('"/in"', '"/ck"', 'os.path.expanduser("~/out")'),
        ('os.path.expanduser("~/in")', '"/ck"', '"/out"'),
    ],
)
def test_a_path_that_only_the_programs_own_run_has_is_refused_without_the_place_of_the_question(
    spark: Any, folder: Path, source: str, checkpoint: str, sink: str
) -> None:
    code = QUERY.format(source=source, checkpoint=checkpoint, sink=sink)
    with pytest.raises(BadCode) as raised:
        read(spark, folder, code, "/ck")
    assert raised.value.code == UNKNOWN_PLACE
    assert str(folder) not in str(raised.value)


def test_an_error_about_a_file_that_a_study_does_not_have_names_the_real_one(
    spark: Any, folder: Path
) -> None:
    with pytest.raises(BadCode) as raised:
        read(spark, folder, 'open(ROOT / "data/x.csv")\n', "/ck")
    assert f"'{LAKE}/data/x.csv'" in str(raised.value)
    assert str(folder) not in str(raised.value)


def test_settings_are_opened_from_the_folder_of_the_start_and_of_the_program(
    spark: Any, folder: Path
) -> None:
    files = {PROGRAM: "", f"{LAKE}/src/conf/a.json": "{}"}
    laid = laying.lay_down(files, f"{LAKE}/src", (PROGRAM,), folder)
    assert [file.name for file in Path(f"{laid.started}/conf").iterdir()] == ["a.json"]
    assert [file.name for file in Path(f"{laid.tree}{LAKE}/src/conf").iterdir()] == ["a.json"]


def test_of_a_program_behind_a_link_the_real_folder_is_not_certain(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to(folder / "real")
    program = f"{folder}/link/x.py"
    (folder / "q").mkdir()
    laid = laying.lay_down({program: ""}, f"{folder}/link", (program,), folder / "q")
    assert laid.tree == ""
    assert laid.is_elsewhere(str(laid.files[program].parent.parent / "data"))
