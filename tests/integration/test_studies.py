"""The Spark room studies code: what it is, and what it yields for given files."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from recovery.spark import session
from recovery.spark.api import (
    UNSEEN_STREAM,
    MeasureRequest,
    StudyRequest,
    count,
    measure,
    study,
    whereabouts,
)
from recovery.spark.explained import node_of, section
from recovery.spark.programs_words import CHECKPOINT, ENGINE
from recovery.spark.programs_words import PLAIN as PLAIN_ENGINE
from tests.integration.spark_room import SCHEMA, SIMPLE, Room, end_session, row

pytestmark = pytest.mark.spark
COLUMN_BATCHES = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"


def test_a_simple_flow_has_no_state_and_one_source(room: Room) -> None:
    found = room.study(SIMPLE)
    assert found.problem is None
    assert found.operators == ()
    assert found.columns == ("id", "kind", "amount")
    assert [(s.format, s.path) for s in found.sources] == [("json", f"{room.folder}/in/a")]
    assert (found.key, found.key_from) == ((), "the whole row")


DEFINITIONS = {
    "explicit flow name": (
        f"""
        dp.create_streaming_table("t")
        @dp.append_flow(target="t", name="my_flow")
        def anything():
            return spark.readStream.schema("{SCHEMA}").json("IN/a")
        """,
        "spark_catalog.default.my_flow",
    ),
    "flow named by its function": (
        f"""
        dp.create_streaming_table("t")
        @dp.append_flow(target="t")
        def by_function():
            return spark.readStream.schema("{SCHEMA}").json("IN/a")
        """,
        "spark_catalog.default.by_function",
    ),
    "qualified table name": (
        f"""
        @dp.table(name="default.t")
        def anything():
            return spark.readStream.schema("{SCHEMA}").json("IN/a")
        """,
        "spark_catalog.default.t",
    ),
    "two schemas, one name": (
        f"""
        @dp.table(name="other.t")
        def one():
            return spark.readStream.schema("{SCHEMA}").json("IN/b").limit(1)
        @dp.table(name="t")
        def two():
            return spark.readStream.schema("{SCHEMA}").json("IN/a")
        """,
        "spark_catalog.default.t",
    ),
    "view": (
        f"""
        @dp.temporary_view
        def raw():
            return spark.readStream.schema("{SCHEMA}").json("IN/a")
        @dp.table
        def t():
            return spark.readStream.table("raw").where("true")
        """,
        "spark_catalog.default.t",
    ),
    "view read in batch": (
        f"""
        @dp.temporary_view(name="raw")
        def anything():
            return spark.readStream.schema("{SCHEMA}").json("IN/a")
        @dp.table
        def t():
            return spark.read.table("raw")
        """,
        "spark_catalog.default.t",
    ),
    "active session": (
        f"""
        from pyspark.sql import SparkSession, functions as F
        session = SparkSession.active()
        @dp.table
        def t():
            frame = session.readStream.format("json").schema("{SCHEMA}").option("path", "IN/a").load()
            assert "kind" in frame.columns
            return frame.where(F.col("id") > 0)
        """,
        "spark_catalog.default.t",
    ),
}


@pytest.mark.parametrize("case", DEFINITIONS)
def test_a_flow_is_found_however_it_is_defined(room: Room, case: str) -> None:
    code, flow = DEFINITIONS[case]
    files = (room.put("a/1.json", row(1), row(2)), room.put("a/2.json", row(3)))
    found = room.study(code, flow=flow, sets={"all": files, "one": files[1:], "none": ()})
    assert found.problem is None
    assert [s.path for s in found.sources] == [f"{room.folder}/in/a"]
    assert found.rows == {"all": 3, "one": 1, "none": 0}


UNION = f"""
@dp.table
def t():
    b = spark.readStream.schema("{SCHEMA}").option("maxFilesPerTrigger", 1).json("IN/b")
    a = spark.readStream.format("csv").schema("{SCHEMA}").option("header", "true").load("IN/a/*.csv")
    return b.unionByName(a)
"""


def test_the_sources_of_a_union_come_in_the_order_of_the_plan(room: Room) -> None:
    first = room.put("b/1.json", row(1), row(2))
    second = room.put("a/1.csv", "id,kind,amount", "7,y,1.5", "8,y,2.5", "9,y,3.5")
    found = room.look(UNION, sets={"both": (first, second), "b": (first,), "a": (second,)}, by_file=True)
    assert found.problem is None
    assert [(s.format, Path(s.path).name) for s in found.sources] == [("json", "b"), ("csv", "*.csv")]
    assert found.sources[0].options == {"maxFilesPerTrigger": "1"}
    assert found.rows == {"both": 5, "b": 2, "a": 3}
    assert found.by_file == {first: 2, second: 3}


def test_a_frame_used_twice_has_as_many_sources_as_its_checkpoint(room: Room, connect: Any) -> None:
    uri = room.put("a/1.json", row(1), row(2))
    code = f"""
    @dp.table
    def t():
        frame = spark.readStream.schema("{SCHEMA}").json("IN/a")
        return frame.where("id = 1").union(frame)
    """
    found = room.look(code, sets={"all": (uri,)})
    assert found.problem is None
    frame = connect.readStream.schema(SCHEMA).json(f"{room.folder}/in/a")
    stream = frame.where("id = 1").union(frame).writeStream.format("parquet")
    stream = stream.option("checkpointLocation", f"{room.folder}/checkpoint").trigger(availableNow=True)
    stream.start(f"{room.folder}/out").awaitTermination(60)
    assert len(found.sources) == len(list((room.folder / "checkpoint" / "sources").iterdir()))
    assert found.rows == {"all": connect.read.parquet(f"{room.folder}/out").count()}


OPERATORS = {
    "dropDuplicates": ('dropDuplicates(["id", "kind"])', ("dedupe",), ("id", "kind")),
    "dropDuplicates of everything": ("dropDuplicates()", ("dedupe",), ("id", "kind", "amount", "at")),
    "within watermark": (
        'withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["id"])',
        ("dedupeWithinWatermark",),
        (),  # its keys come again once the delay is over
    ),
    "aggregate": ('groupBy("kind").count()', ("stateStoreSave",), None),
    "two operators": (
        'dropDuplicates(["id"]).groupBy("kind").count()',
        ("stateStoreSave", "dedupe"),
        (),
    ),
    "limit": ("limit(3)", ("globalLimit",), None),
    "self join": ('alias("l").join(frame.alias("r"), "id").select("id")', ("symmetricHashJoin",), None),
    "session window": (
        'withWatermark("at", "1 minute").groupBy(F.session_window("at", "5 minutes"), "kind").count()',
        ("sessionWindowStateStoreSaveExec",),
        None,
    ),
    "filter and computed column": ('where("id > 1").withColumn("twice", F.col("id") * 2)', (), None),
}


@pytest.mark.parametrize("case", OPERATORS)
def test_stateful_operators_bear_the_names_of_a_checkpoint(room: Room, case: str) -> None:
    call, operators, dedupe = OPERATORS[case]
    found = room.look(
        f"""
        from pyspark.sql import functions as F
        @dp.table
        def t():
            frame = spark.readStream.schema("{SCHEMA}, at timestamp").json("IN/a")
            return frame.{call}
        """
    )
    assert found.operators == operators
    assert found.dedupe == dedupe


def test_a_helper_module_is_imported_from_the_root(room: Room) -> None:
    code = """
    from shared.schemas import ROWS
    @dp.table
    def t():
        return spark.readStream.schema(ROWS).json("IN/a")
    """
    helpers = {"/Users/ann/p/shared/schemas.py": f'ROWS = "{SCHEMA}"\nprint("loud")\n'}
    assert room.study(code, helpers=helpers).columns == ("id", "kind", "amount")


BROKEN = {
    "syntax": ("@dp.table\ndef t(:\n    pass\n", "/Users/ann/p/flow.py, line 3: this is not valid Python"),
    "exception on import": ("1 / 0\n", "/Users/ann/p/flow.py, line 2: ZeroDivisionError: division by zero"),
    "exception in the flow": (
        "@dp.table\ndef t():\n    return {}['x']\n",
        "/Users/ann/p/flow.py, line 4: KeyError: 'x'",
    ),
    "unknown column": (
        f'@dp.table\ndef t():\n    return spark.readStream.schema("{SCHEMA}").json("IN/a").select("nope")\n',
        "UNRESOLVED_COLUMN",
    ),
    "no such flow": (
        "@dp.table\ndef u():\n    return None\n",
        "no longer defines the flow spark_catalog.default.t; flows found: u",
    ),
    "no DataFrame": ("@dp.table\ndef t():\n    return None\n", "must return a DataFrame"),
    "exit": ("import sys\nsys.exit('enough')\n", "/Users/ann/p/flow.py, line 3: SystemExit: enough"),
    "session mutation": ('spark.conf.set("a", "b")\n', "SESSION_MUTATION"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_code_is_a_problem_with_its_place(room: Room, case: str) -> None:
    code, says = BROKEN[case]
    found = room.look(code)
    assert found.operators is None
    assert says in (found.problem or "")
    assert "reprise-spark-" not in (found.problem or "")


def in_sql(request: StudyRequest, text: str) -> StudyRequest:
    """The same question of a pipeline with this SQL file alone."""
    return dataclasses.replace(request, files={"/Users/ann/p/t.sql": text}, libraries=("/Users/ann/p/t.sql",))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE STREAMING TABLE t AS SELECT * FROM STREAM no_such_table", "TABLE_OR_VIEW_NOT_FOUND"),
        ("CREATE STREAMING TABLE u AS SELECT * FROM STREAM no_such_table", "(/Users/ann/p/t.sql)"),
    ],
    ids=["a table that is not there", "another flow"],
)
def test_a_flow_in_sql_that_cannot_be_analysed_is_a_problem(room: Room, text: str, says: str) -> None:
    found = study(in_sql(room.request(""), text))
    assert found.operators is None
    assert says in (found.problem or "")


NOT_REPLAYED = {
    "aggregate": ('spark.readStream.schema(S).json("IN/a").groupBy("kind").count()', "depends on its state"),
    "late rows": (
        'spark.readStream.schema(S + ", at timestamp").json("IN/a")'
        '.withWatermark("at", "1 minute").dropDuplicates(["id", "at"])',
        "after its watermark",
    ),
    "another source": ('spark.readStream.format("rate").load()', "reads from rate"),
}


@pytest.mark.parametrize("case", NOT_REPLAYED)
def test_a_flow_that_cannot_be_replayed_says_so_and_gives_no_number(room: Room, case: str) -> None:
    query, says = NOT_REPLAYED[case]
    uri = room.put("a/1.json", row(1))
    found = room.look(f'S = "{SCHEMA}"\n@dp.table\ndef t():\n    return {query}\n', sets={"all": (uri,)})
    assert found.operators is not None
    assert says in (found.problem or "")
    assert found.rows == {}


def test_batch_rows_are_those_of_the_flow_itself(room: Room) -> None:
    uri = room.put("a/1.json", row(1), row(2), row(3))
    other = room.put("a/2.json", row(0))
    code = f"""
    from pyspark.sql import functions as F
    @dp.table
    def t():
        frame = spark.readStream.schema("{SCHEMA}").json("IN/a")
        kept = frame.where("id > 1").withColumn("file", F.input_file_name())
        return kept.withColumn("size", F.col("_metadata.file_size")).withColumn("twice", F.col("id") * 2)
    """
    found = room.study(code, sets={"all": (uri, other), "none": ()}, by_file=True)
    assert found.problem is None
    assert found.rows == {"all": 2, "none": 0}
    assert found.by_file == {uri: 2, other: 0}


def test_partition_columns_are_read_as_the_stream_reads_them(room: Room) -> None:
    one = room.put("a/day=2026-01-01/1.json", {"id": 1})
    two = room.put("a/day=2026-01-02/1.json", {"id": 1})
    code = """
    @dp.table
    def t():
        return spark.readStream.schema("id int, day date").json("IN/a").where("day > '2026-01-01'")
    """
    found = room.look(code, sets={"all": (one, two)}, by_file=True)
    assert found.problem is None
    assert found.columns == ("id", "day")
    assert found.by_file == {one: 0, two: 1}


def test_odd_file_names_are_just_names(room: Room) -> None:
    uris = tuple(room.put(f"a/{name}.json", row(1)) for name in ("a b", "50%20x", "[1]{2}*", "ü,é", "q?#"))
    found = room.look(SIMPLE, sets={"all": uris}, by_file=True)
    assert found.problem is None
    assert found.by_file == dict.fromkeys(uris, 1)


KEYS = {
    "of the code": ('.dropDuplicates(["id"])', None, ("id",), "the columns of dropDuplicates in the code"),
    "of the responder": ('.dropDuplicates(["id"])', ("KIND",), ("kind",), "named by the responder"),
    "none": ("", None, (), "the whole row"),
}


@pytest.mark.parametrize("case", KEYS)
def test_rows_are_told_apart_by_the_key_and_its_origin_is_said(room: Room, case: str) -> None:
    call, given, key, words = KEYS[case]
    code = f'@dp.table\ndef t():\n    return spark.readStream.schema("{SCHEMA}").json("IN/a"){call}\n'
    found = room.look(code, key=given)
    assert (found.key, found.key_from, found.problem) == (key, words, None)


def test_a_key_that_is_no_column_is_a_problem(room: Room) -> None:
    found = room.look(SIMPLE, key=("nope",), sets={"all": ()})
    assert "no column nope; its columns are id, kind, amount" in (found.problem or "")


def test_distinct_keys_count_null_as_a_value(room: Room) -> None:
    uri = room.put("a/1.json", row(1, None), row(1, None), row(1, "x"), row(1, "x", None), row(1, "x", None))
    by_key = room.look(SIMPLE, sets={"all": (uri,)}, key=("id", "kind"))
    assert (by_key.rows, by_key.distinct) == ({"all": 5}, {"all": 2})
    whole = room.look(SIMPLE, sets={"all": (uri,)})
    assert whole.distinct == {"all": 3}


def test_the_rows_of_a_set_can_be_written(room: Room, connect: Any) -> None:
    uri = room.put("a/1.json", row(1), row(2))
    target = room.folder / "written"
    assert room.study(SIMPLE, sets={"all": (uri,)}, write={"all": str(target)}).problem is None
    assert connect.read.parquet(str(target)).count() == 2


STREAM = f'spark.readStream.schema("{SCHEMA}").json("IN/a")'
RESTS_ON = {
    "a stream of files": (f"return {STREAM}.where('id > 1').dropDuplicates(['id'])", ""),
    "a watermark and windows": (
        f"return {STREAM}.selectExpr('cast(id as timestamp) at').withWatermark('at', '1 hour').groupBy('at').count()",
        "",
    ),
    "a static table": (f"return {STREAM}.join(spark.read.schema('id int').json('IN/b'), 'id')", "Relation"),
    "rows of its own": (f"return {STREAM}.join(spark.range(5), 'id')", "Range"),
    "a Python function": (
        f"from pyspark.sql.functions import udf\n    return {STREAM}.select(udf(lambda x: 'y')('id').alias('id'))",
        ")#",
    ),
    "chance": (f"return {STREAM}.selectExpr('id', 'rand() as r')", "rand("),
    "a file that it opens": (
        f"from pathlib import Path\n    Path('IN/b/1.json').read_text()\n    return {STREAM}",
        "open ",
    ),
    "rows that it collects": (
        f"n = spark.read.schema('id int').json('IN/b').count()\n    return {STREAM}.where(f'id > {{n}}')",
        "Spark ExecutePlan",
    ),
}


@pytest.mark.parametrize("case", RESTS_ON)
def test_what_an_answer_rests_on_beside_its_input_is_named(room: Room, case: str) -> None:
    room.put("a/1.json", row(1))
    room.put("b/1.json", row(1))
    body, named = RESTS_ON[case]
    found = room.look(f"@dp.table\ndef t():\n    {body}\n")
    assert (found.problem, found.operators is None) == (None, False)
    assert found.rests_on is not None
    # pyspark reads the lines that call it, and here they are this test's own
    beside = [part for part in found.rests_on if "/tests/integration/" not in part]
    assert any(named in part for part in beside) if named else beside == []


def test_a_study_and_a_look_at_the_catalog_name_the_same_run_of_spark(room: Room) -> None:
    assert room.study(SIMPLE).driver == whereabouts(room.answers, []).driver


def test_a_table_is_counted_without_its_code(room: Room, connect: Any) -> None:
    connect.range(3).write.mode("overwrite").saveAsTable("default.counted")
    assert count(room.answers, "spark_catalog.default.counted", {}) == 3
    assert count(room.answers, "spark_catalog.default.no_such_table", {}) is None


FILES = f'spark.readStream.schema("{SCHEMA}").json("IN/a").select("id")'
READ_BY_TEXT = "spark_catalog.default.read_by_text"


@pytest.fixture(scope="module")
def one_worker() -> None:
    """Tests with a fixture of their module stay in one worker (tests/order.py): each writes the same table again."""


@pytest.fixture
def read_by_text(connect: Any, one_worker: None) -> tuple[str, ...]:
    """A table of two rows; its files."""
    connect.sql("CREATE TABLE IF NOT EXISTS read_by_text (id int, kind string, amount double) USING parquet")
    connect.sql("INSERT OVERWRITE read_by_text VALUES (1, 'x', 1.0), (2, 'y', 2.0)")
    connect.catalog.refreshTable("read_by_text")
    return tuple(connect.read.table("read_by_text").inputFiles())


BY_TEXT = {
    "STREAM(t)": ('spark.sql("SELECT id FROM STREAM(read_by_text)")', 2),
    "STREAM t": ('spark.sql("SELECT x.id FROM STREAM read_by_text AS x WHERE id > 1")', 1),
    "its own name": (
        "spark.sql('SELECT read_by_text.id FROM STREAM default.read_by_text WHERE kind <> \"{y}\"')",
        2,
    ),
    "beside a reader": ("spark.sql('SELECT id FROM STREAM read_by_text').union(FILES)", 3),
    "beside a frame": (
        "spark.sql('SELECT id FROM STREAM read_by_text UNION ALL SELECT id FROM {f}', f=FILES)",
        3,
    ),
}


@pytest.mark.parametrize("case", BY_TEXT)
def test_a_table_that_a_text_of_python_reads_as_a_stream_is_a_source(
    room: Room, read_by_text: tuple[str, ...], case: str
) -> None:
    """It stood for a flow without sources, of which nothing can be lost."""
    query, rows = BY_TEXT[case]
    code = f"""
@dp.table
def t():
    return {query.replace("FILES", FILES)}
"""
    found = room.study(code, sets={"all": (*read_by_text, room.put("a/1.json", row(1)))})
    assert (found.problem, found.operators) == (None, ())
    assert found.sources[0].table == READ_BY_TEXT
    assert found.sources[0].format == "parquet"
    assert len(found.sources) == (2 if case.startswith("beside") else 1)
    assert dict(found.rows) == {"all": rows}


def test_a_table_that_is_read_twice_has_no_position_of_its_own(
    room: Room, read_by_text: tuple[str, ...]
) -> None:
    code = """
@dp.table
def t():
    return spark.sql("SELECT id FROM STREAM read_by_text").union(spark.sql("SELECT id + 1 FROM STREAM read_by_text"))
"""
    found = room.study(code, sets={"all": read_by_text})
    assert (dict(found.rows), found.problem_code) == ({}, UNSEEN_STREAM)


IN_SQL = {
    "table": (
        "CREATE STREAMING TABLE t AS SELECT id, kind FROM STREAM(read_by_text) WHERE id > 1",
        "spark_catalog.default.t",
    ),
    "flow": (
        "CREATE STREAMING TABLE t;\nCREATE FLOW filling AS INSERT INTO t BY NAME "
        "SELECT r.id, r.kind FROM STREAM read_by_text r WHERE r.id > 1;",
        "spark_catalog.default.filling",
    ),
    "another schema": (
        "USE SCHEMA default; CREATE STREAMING TABLE other.t AS SELECT 1 AS id;\n"
        "CREATE STREAMING TABLE t AS WITH w AS (SELECT * FROM STREAM read_by_text) SELECT id, kind FROM w WHERE id > 1",
        "spark_catalog.default.t",
    ),
}


@pytest.mark.parametrize("case", IN_SQL)
def test_the_rows_of_a_flow_of_a_sql_file_are_counted(
    room: Room, read_by_text: tuple[str, ...], case: str
) -> None:
    text, flow = IN_SQL[case]
    found = study(in_sql(room.request("", sets={"all": read_by_text}, flow=flow), text))
    assert (found.problem, found.operators, found.columns) == (None, (), ("id", "kind"))
    assert [s.table for s in found.sources] == [READ_BY_TEXT]
    assert dict(found.rows) == {"all": 1}


@pytest.mark.parametrize(("where", "missing"), [("true", 0), ("id > 1", 1)])
def test_the_table_of_a_sql_flow_is_compared(
    room: Room, connect: Any, read_by_text: tuple[str, ...], where: str, missing: int
) -> None:
    connect.sql("CREATE TABLE IF NOT EXISTS filled_by_sql (id int, kind string) USING parquet")
    connect.sql(f"INSERT OVERWRITE filled_by_sql SELECT id, kind FROM read_by_text WHERE {where}")  # noqa: S608
    connect.catalog.refreshTable("filled_by_sql")
    new = tuple(connect.read.table("filled_by_sql").inputFiles())
    text = "CREATE STREAMING TABLE t AS SELECT id, kind FROM STREAM read_by_text"
    asked = in_sql(room.request("", sets={"new": read_by_text}), text)
    found = measure(MeasureRequest(room.answers, "spark_catalog.default.filled_by_sql", (), new, asked))
    assert (found.problem, found.missing, found.extra) == (None, missing, 0)


def test_options_that_a_text_gives_its_stream_leave_the_code_not_analysed(room: Room, connect: Any) -> None:
    """The plan does not repeat them, and they may say where the stream begins."""
    connect.sql("CREATE TABLE IF NOT EXISTS read_by_text (id int, kind string, amount double) USING parquet")
    query = "SELECT id FROM STREAM read_by_text WITH ('maxFilesPerTrigger' = '1')"
    found = room.study(f'@dp.table\ndef t():\n    return spark.sql("{query}")\n')
    assert (found.operators, found.sources, found.problem_code) == (None, (), UNSEEN_STREAM)


@pytest.mark.parametrize(("given", "column_batches"), [({}, False), ({COLUMN_BATCHES: "true"}, True)])
def test_python_functions_of_questions_get_rows_and_no_column_batches(
    room: Room, connect: Any, given: dict[str, str], column_batches: bool
) -> None:
    """On Spark 4.2.0 a task that gets column batches may never end; who sets it so, has it so."""
    from pyspark.sql.functions import udf

    connect.range(3).write.mode("overwrite").parquet(f"{room.folder}/in/batches")
    spark = session.fresh(room.remote, given)
    try:
        frame = spark.read.parquet(f"{room.folder}/in/batches").select(udf(lambda x: x, "long")("id"))
        steps = [node_of(line) for line in section(frame._explain_string(extended=True), "Physical Plan")]
    finally:
        end_session(spark)
    at = steps.index("ArrowEvalPython")
    assert ("ColumnarToRow" not in steps[at:]) is column_batches


PLAIN_HEAD = """
import os, shutil
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
"""
PLAIN_START = f"""
rows = spark.readStream.schema("{SCHEMA}").json("IN/a").dropDuplicates(["id"])
rows.writeStream.format("parquet").option("checkpointLocation", "IN/ck").queryName("kept").start("IN/out")
"""
PLAIN = {
    "a library that is not there": ("import no_such_notes\nno_such_notes.send('up')\n", ""),
    "a log file and folders": (
        "import logging\nos.makedirs('IN/logs', exist_ok=True)\nlogging.basicConfig(filename='IN/logs/a.log')\n",
        "",
    ),
    "rows for an audit": ("spark.range(1).write.mode('append').parquet('IN/audit')\n", ""),
    "its own start over": ("shutil.rmtree('IN/ck', ignore_errors=True)\n", "removes"),
    "a table that is written anew": (
        "spark.range(1).write.mode('overwrite').parquet('IN/b')\n",
        "writes a table",
    ),
    "no value": (
        "spark.readStream.format('kafka').option('subscribe', os.getenv('TOPIC')).load()\n",
        "no value",
    ),
    "a driver's name": ("spark.read.parquet(f'IN/{spark.sparkContext.applicationId}')\n", "applicationId"),
}


@pytest.mark.parametrize("case", PLAIN)
def test_a_plain_program_is_understood_and_changes_nothing(bare: Room, case: str) -> None:
    before, problem = PLAIN[case]
    (bare.folder / "in" / "ck" / "offsets").mkdir(parents=True)
    held = sorted((bare.folder / "in").rglob("*"))
    configuration = {ENGINE: PLAIN_ENGINE, CHECKPOINT: f"file://{bare.folder}/in/ck"}
    found = bare.study(PLAIN_HEAD + before + PLAIN_START, configuration=configuration, flow="kept")
    assert sorted((bare.folder / "in").rglob("*")) == held
    assert problem in (found.problem or "")
    if problem:
        assert found.operators is None
        return
    assert (found.problem, found.operators, found.dedupe) == (None, ("dedupe",), ("id",))
    assert [source.path for source in found.sources] == [f"{bare.folder}/in/a"]
    assert found.sink is not None
    assert found.sink["options"]["path"] == f"{bare.folder}/in/out"
