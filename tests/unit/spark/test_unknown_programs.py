"""What only a run of a program knows makes its query unknown, whatever way it goes about it. No Spark answers here."""

from pathlib import Path
from typing import Any

import pytest

from recovery.notebook_cells import NotebookCode
from recovery.spark import programs, reads_only
from recovery.spark.definitions import UNKNOWN_PLACE, BadCode
from tests.unit.spark.studied_programs import HEAD, NOTEBOOK, READ, SESSION, START, learned, started

SECRET = 'told = dbutils.secrets.get("s", "env")\n'
PLACED = 'df.writeStream.option("checkpointLocation", "/ck/a").start(place)\n'


@pytest.mark.parametrize(
    "code",
    [
        READ + "df = df.where(f\"id = '{told}'\")\n" + START.format("a"),
        READ + "df = df.selectExpr(f\"'{told}' as x\")\n" + START.format("a"),
        READ + 'df = df.withColumn(f"{told}", df.id)\n' + START.format("a"),
        'df = spark.readStream.table(f"{told}.orders")\n' + START.format("a"),
        READ + 'place = "/prod" if str(told) == "prod" else "/dev"\n' + PLACED,
        READ + 'place = "/prod" if f"{told}" == "prod" else "/dev"\n' + PLACED,
        READ + 'place = "/prod" if str(told).strip().startswith("p") else "/dev"\n' + PLACED,
        READ + 'place = {"prod": "/prod"}.get(told, "/dev")\n' + PLACED,
        READ + 'place = {"prod": "/prod"}.get(str(told), "/dev")\n' + PLACED,
        READ + 'place = "/x/" + str(told)[1:4]\n' + PLACED,
        READ
        + 'try:\n    place = {True: "/prod"}[told == "prod"]\nexcept Exception:\n    place = "/dev"\n'
        + PLACED,
        READ + 'df.writeStream.outputMode(told).option("checkpointLocation", "/ck/a").start("/x")\n',
        READ + 'df.writeStream.format(told).option("checkpointLocation", "/ck/a").start("/x")\n',
        READ + 'place = spark.sparkContext.getConf().get("spark.shop.out", "/dev")\n' + PLACED,
    ],
)
def test_a_query_that_hangs_on_what_only_a_run_knows_is_not_known_however_it_does(
    spark: Any, tmp_path: Path, code: str
) -> None:
    (query,) = _queries_or_problem(spark, tmp_path, SESSION + SECRET + code)
    assert query.code == UNKNOWN_PLACE


def _queries_or_problem(spark: Any, tmp_path: Path, code: str) -> list[Any]:
    """The problem of each query, or that of the program."""
    try:
        return [query.problem for query in started(spark, tmp_path, code)]
    except BadCode as problem:
        return [problem]


@pytest.mark.parametrize("made", ['Settings(place="/prod")', "Settings()"])
def test_fields_that_an_absent_base_fills_are_not_their_defaults(
    spark: Any, tmp_path: Path, made: str
) -> None:
    code = (
        "import absentlib\n" + SESSION + READ
        + f'class Settings(absentlib.BaseSettings):\n    place: str = "/dev"\nplace = {made}.place\n' + PLACED
    )  # fmt: skip
    (problem,) = _queries_or_problem(spark, tmp_path, code)
    assert problem.code == UNKNOWN_PLACE


def test_what_a_program_logs_of_a_running_driver_keeps_its_query_known(spark: Any, tmp_path: Path) -> None:
    code = (
        'import logging\nlog = logging.getLogger("shop.told")\nlog.propagate = False\n'
        'log.addHandler(logging.StreamHandler())\nlog.warning("%d of %s", told, str(told))\nprint(f"{told}")\n'
    )
    (query,) = started(spark, tmp_path, SESSION + SECRET + code + READ + START.format("a"))
    assert query.problem is None


JVM = "jvm = spark.sparkContext._jvm\npath = jvm.org.apache.hadoop.fs.Path('/ck/a')\n"
CLUSTER = "spark.sparkContext._jsc.hadoopConfiguration()"


@pytest.mark.parametrize(
    "code",
    [
        'dbutils.fs.mv("/ck/a", "/old", True)\n',
        JVM + f"jvm.org.apache.hadoop.fs.FileSystem.get({CLUSTER}).delete(path, True)\n",
        JVM + f"path.getFileSystem({CLUSTER}).rename(path, jvm.org.apache.hadoop.fs.Path('/ck/old'))\n",
    ],
)
def test_what_a_notebook_moves_and_what_hadoop_removes_for_a_program_is_named(
    spark: Any, tmp_path: Path, code: str
) -> None:
    (tmp_path / "program.py").write_text(HEAD + SESSION + code + READ + START.format("a"))
    found = learned(spark, tmp_path / "program.py")
    assert programs._removed_of(found.queries[0], found.removed) == "/ck/a"


NOTEBOOKS = {
    "program.py": "# MAGIC %pip install x\n# COMMAND ----------\n# MAGIC %run ./lib/config\n# COMMAND ----------\n"
    + NOTEBOOK.replace('"/in")\n', "PLACE)\n", 1),
    "lib/config.py": "# MAGIC %run ./place\n# COMMAND ----------\nREADER = spark.readStream\n",
    "lib/place.py": 'PLACE = "/in"\n',
}


def _studied(spark: Any, tmp_path: Path, files: dict[str, str]) -> list[programs.ProgramQuery]:
    placed = {}
    for name, text in files.items():
        placed[f"/srv/{name}"] = tmp_path / name
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return list(programs._queries(spark, tmp_path / "program.py", [], placed).queries)


def test_a_notebook_has_the_names_of_those_that_it_runs_in_its_place(spark: Any, tmp_path: Path) -> None:
    (query,) = _studied(spark, tmp_path, NOTEBOOKS)
    assert (query.problem, query.checkpoint, query.table) == (None, "/ck/orders", "orders")


@pytest.mark.parametrize(
    ("change", "code", "where"),
    [
        ({"lib/place.py": "# MAGIC %sh ls\n"}, NotebookCode.NOT_PYTHON, "/srv/lib/place.py, line 1: "),
        ({"lib/place.py": "# MAGIC %run ../program\n"}, NotebookCode.CYCLE, "/srv/lib/place.py, line 1: "),
        ({"lib/place.py": "# MAGIC %run ../../other\n"}, NotebookCode.OUTSIDE, "/srv/lib/place.py, line 1: "),
        (
            {"lib/config.py": "\n# MAGIC %run ./nowhere\n"},
            NotebookCode.ABSENT,
            "/srv/lib/config.py, line 2: ",
        ),
    ],
)
def test_a_notebook_of_which_a_part_is_not_run_is_not_known(
    change: dict[str, str], code: NotebookCode, where: str, spark: Any, tmp_path: Path
) -> None:
    with pytest.raises(BadCode) as raised:
        _studied(spark, tmp_path, NOTEBOOKS | change)
    assert raised.value.code == code
    assert str(raised.value).startswith(where)
    assert str(tmp_path) not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE shop.out DROP PARTITION (day = 1)",
        "ALTER TABLE shop.out SET LOCATION '/elsewhere'",
        "ALTER TABLE shop.`drop` RENAME TO shop.old",
        "INSERT INTO shop.out REPLACE WHERE id > 1 SELECT 1",
        "INSERT INTO shop.out REPLACE USING (id) SELECT 1",
    ],
)
def test_a_statement_that_takes_something_away_is_not_passed_over(text: str) -> None:
    assert not reads_only.HeldWrites().hold_statement(text)
    added = "ALTER TABLE shop.`drop` ADD COLUMN x int"
    assert reads_only.HeldWrites().hold_statement(added)
