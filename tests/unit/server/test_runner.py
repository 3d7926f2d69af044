"""A pipeline's code finds what it finds under `spark-pipelines run`: its session by the builder, its environment."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recovery.server.problems import ApiProblem
from tests.unit.server.test_specs import read

PROJECT = Path(__file__).resolve().parents[3]
ARGUMENTS = {
    "remote": "sc://localhost:9/",  # nobody is there: nothing here asks Spark
    "session_id": "00000000-0000-0000-0000-000000000001",
    "configuration": {},
}
HARNESS = """
import json, os, sys
from pathlib import Path
from recovery.server import runner
runner.import_ahead()
spark = runner.open_session(json.loads(sys.argv[1]), "the-token")
runner.load_python("/Users/x/a.py", Path(sys.argv[2]), sys.argv[2], spark, "graph")
import a
print(json.dumps([a.session is spark, a.active is spark, "the-token" in repr(dict(os.environ))]), flush=True)
os._exit(0)  # the session asks its server to forget it, and nobody is there
"""
PUBLIC = """
from pyspark.sql import SparkSession

session = SparkSession.builder.getOrCreate()
active = SparkSession.active()
"""


def test_the_builder_of_a_public_program_finds_the_session_and_no_token_with_it(tmp_path: Path) -> None:
    code = tmp_path / "a.py"
    code.write_text(PUBLIC)
    done = subprocess.run(
        [sys.executable, "-c", HARNESS, json.dumps(ARGUMENTS), str(code)],
        capture_output=True, text=True, cwd=PROJECT, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [True, True, False]


NOTEBOOKS_HARNESS = """
import json, os, sys
from pathlib import Path
from recovery.server import runner
runner.import_ahead()
spark = runner.open_session(json.loads(sys.argv[1]), "the-token")
folder, told = Path(sys.argv[2]), []
for name in sys.argv[3:]:
    try:
        runner.load_python(f"/p/{name}.py", folder / f"p/{name}.py", "/real", spark, "graph", folder / "p")
        told.append(sys.modules[name].seen)
    except Exception as error:
        told.append(runner.describe_error(error))
print(json.dumps(told), flush=True)
os._exit(0)
"""


def load_notebooks(folder: Path, files: dict[str, str], *names: str) -> list[Any]:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOKS_HARNESS, json.dumps(ARGUMENTS), str(folder), *names],
        capture_output=True, text=True, cwd=PROJECT, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answer: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_a_pipelines_notebook_runs_others_of_its_folder_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "p/lib").mkdir(parents=True)
    (tmp_path / "secret.py").write_text("seen = 'not mine'\n")
    (tmp_path / "p/linked.py").symlink_to(tmp_path / "secret.py")
    (tmp_path / "p/away").symlink_to(tmp_path)
    good, raised, sql, out, linked, through = load_notebooks(
        tmp_path,
        {
            "p/good.py": "# MAGIC %run ./lib/a\nseen = [A, B, spark.__class__.__name__]\n",
            "p/raised.py": "\n# MAGIC %run ./lib/wrong\n",
            "p/sql.py": "\n# MAGIC %sql\n",
            "p/out.py": "# MAGIC %run ../secret\n",
            "p/linked_to.py": "# MAGIC %run ./linked\n",
            "p/through.py": "# MAGIC %run ./away/secret\n",
            "p/lib/a.py": "A = 1\n# MAGIC %run ../b\n",
            "p/lib/wrong.py": "\n\n1 / 0\n",
            "p/b": "B = 2\n",
        },
        *("good", "raised", "sql", "out", "linked_to", "through"),
    )
    assert good == [1, 2, "SparkSession"]
    places = [
        [(frame["file_name"], frame["line_number"]) for frame in told["stack"]] for told in (raised, sql)
    ]
    harness = ("<string>", 10)
    assert places == [[("/p/lib/wrong.py", 3), harness], [("/p/sql.py", 2), harness]]
    codes = [problem["message"].partition("]")[0] for problem in (sql, out, linked, through)]
    assert codes == [
        "[NOTEBOOK_CELL_NOT_PYTHON", "[NOTEBOOK_RUN_OUTSIDE", "[NOTEBOOK_RUN_ABSENT", "[NOTEBOOK_RUN_ABSENT",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "cluster",
    [
        {"spark_env_vars": ["A=1"]},
        {"spark_env_vars": {"A": 1}},
        {"spark_env_vars": {"A B": "1"}},
        {"spark_env_vars": {"A\n": "1"}},
        {"spark_env_vars": {"SPARK_REMOTE": "sc://elsewhere"}},
        {"spark_env_vars": {"PYSPARK_PYTHON": "/usr/bin/python3"}},
        {"spark_conf": {"spark.sql.shuffle.partitions": "7"}},
        {"init_scripts": [{"workspace": {"destination": "/x.sh"}}]},
    ],
)
def test_of_a_cluster_what_would_change_the_code_and_is_not_done_is_refused(cluster: dict[str, Any]) -> None:
    with pytest.raises(ApiProblem) as refused:
        read(clusters=[cluster])
    assert refused.value.error_code == "INVALID_PARAMETER_VALUE"
