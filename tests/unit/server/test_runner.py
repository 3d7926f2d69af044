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
