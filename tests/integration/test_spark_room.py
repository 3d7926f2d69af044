"""The Spark room against a real Spark Connect server: code is analysed, rows are counted and compared."""

import dataclasses
import json
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recovery.errors import Refused, Unreachable, WrongUse
from recovery.spark import answers, process, session
from recovery.spark.api import (
    MeasureRequest,
    Study,
    StudyRequest,
    as_study,
    location,
    measure,
    prepare,
    study,
    table_location,
    tables,
)
from recovery.spark.process import redact
from tests.stack import Stack

pytestmark = pytest.mark.spark

TOKEN = "a-token-of-the-tests"
SCHEMA = "id int, kind string, amount double"


def wait_for(what: Any, seconds: float = 90.0) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


@pytest.fixture(scope="session")
def spark_remote(stack: Stack) -> str:
    """Address, with token, of the shared instance's warm driver."""
    remote: str = stack.demo["spark_remote"]
    return remote


@dataclass
class Room:
    """A workspace with one pipeline, and two folders of input."""

    remote: str
    folder: Path

    def put(self, name: str, *rows: dict[str, Any] | str) -> str:
        """An input file; its URI."""
        path = self.folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
        return f"file://{path}"

    def request(self, code: str, **more: Any) -> StudyRequest:
        text = textwrap.dedent(code).replace("IN/", f"{self.folder}/in/")
        files = {"/Users/ann/p/flow.py": "from pyspark import pipelines as dp\n" + text}
        files |= more.pop("helpers", {})
        base: dict[str, Any] = {
            "remote": self.remote,
            "files": files,
            "root": "/Users/ann/p",
            "libraries": ("/Users/ann/p/flow.py",),
            "configuration": {},
            "catalog": "spark_catalog",
            "schema": "default",
            "flow": "spark_catalog.default.t",
        }
        return StudyRequest(**{**base, **more})

    def study(self, code: str, **more: Any) -> Study:
        """As the console asks: in a child process."""
        return study(self.request(code, **more))

    def look(self, code: str, **more: Any) -> Study:
        """The same answer without the child's start, in a fresh session of this process."""
        request = self.request(code, **more)
        spark = session.fresh(self.remote, request.configuration)
        before, place = list(sys.path), Path.cwd()
        try:
            answer = answers.study(spark, json.loads(json.dumps(dataclasses.asdict(request))), self.code)
            return as_study(json.loads(json.dumps(answer)))
        finally:
            sys.path[:] = before
            os.chdir(place)
            spark.stop()

    @property
    def code(self) -> Path:
        folder = self.folder / "code"
        folder.mkdir(exist_ok=True)
        return folder


@pytest.fixture
def room(spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    for side in ("a", "b"):
        (tmp_path / "in" / side).mkdir(parents=True)
    return Room(spark_remote, tmp_path)


SIMPLE = f"""
@dp.table
def t():
    return spark.readStream.schema("{SCHEMA}").json("IN/a")
"""


def row(number: int, kind: str | None = "x", amount: float | None = 1.0) -> dict[str, Any]:
    return {"id": number, "kind": kind, "amount": amount}


# ---- what the code is


def test_a_simple_flow_has_no_state_and_one_source(room: Room) -> None:
    found = room.study(SIMPLE)
    assert found.problem is None
    assert found.operators == ()
    assert found.columns == ("id", "kind", "amount")
    assert [(s["format"], s["path"]) for s in found.sources] == [("json", f"{room.folder}/in/a")]
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
    assert [s["path"] for s in found.sources] == [f"{room.folder}/in/a"]
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
    assert [(s["format"], Path(s["path"]).name) for s in found.sources] == [("json", "b"), ("csv", "*.csv")]
    assert found.sources[0]["options"] == {"maxFilesPerTrigger": "1"}
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
        ("id",),
    ),
    "aggregate": ('groupBy("kind").count()', ("stateStoreSave",), None),
    "two operators": (
        'dropDuplicates(["id"]).groupBy("kind").count()',
        ("stateStoreSave", "dedupe"),
        ("id",),
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


def test_a_flow_in_sql_is_a_problem_not_a_crash(room: Room) -> None:
    request = room.request("")
    request = dataclasses.replace(
        request,
        files={"/Users/ann/p/t.sql": "CREATE STREAMING TABLE t AS SELECT * FROM STREAM u"},
        libraries=("/Users/ann/p/t.sql",),
    )
    found = study(request)
    assert found.operators is None
    assert "defined in SQL (/Users/ann/p/t.sql)" in (found.problem or "")


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


# ---- what the code yields


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


# ---- what the table holds


@pytest.fixture(scope="module")
def connect(spark_remote: str) -> Iterator[Any]:
    """A session of the test's own, to make tables the way streams make them."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(spark_remote).create()
    yield session
    session.stop()


@dataclass
class Written:
    """A parquet table that a stream fills; the data files that each batch wrote."""

    name: str
    folder: Path
    connect: Any
    schema: str
    source: Path

    def run(self) -> tuple[str, ...]:
        before = set(self.files())
        stream = self.connect.readStream.schema(self.schema).json(str(self.source))
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .toTable(self.name)
        )
        query.awaitTermination(60)
        assert query.exception() is None
        return tuple(f for f in self.files() if f not in before)

    def files(self) -> list[str]:
        found = table_location(self._remote, self.name)
        log = Path((found or "/nowhere").removeprefix("file:")) / "_spark_metadata"
        entries = [json.loads(line) for f in log.glob("[0-9]*") for line in f.read_text().splitlines()[1:]]
        return sorted(entry["path"] for entry in entries)

    _remote: str = ""


@pytest.fixture
def written(room: Room, connect: Any, request: pytest.FixtureRequest) -> Written:
    name = f"spark_catalog.default.t_{abs(hash(room.folder)) % 10**8}"
    return Written(name, room.folder, connect, SCHEMA, room.folder / "in" / "a", room.remote)


def compared(
    room: Room, table: Written, inputs: tuple[str, ...], old: Any, new: Any, code: str = SIMPLE, **more: Any
) -> Any:
    asked = room.request(code, sets={"new": inputs})
    return measure(MeasureRequest(room.remote, table.name, tuple(old), tuple(new), asked, **more))


def test_locations_are_the_catalogs(room: Room, written: Written) -> None:
    assert table_location(room.remote, written.name) is None
    room.put("a/1.json", row(1))
    written.run()
    place = location(room.remote, written.name)
    assert (Path(place.removeprefix("file:")) / "_spark_metadata" / "0").exists()
    assert tables(room.remote, "spark_catalog", "default")[written.name] == place
    assert tables(room.remote, "spark_catalog", "no_such_schema") == {}


def test_a_flow_over_another_table_is_analysed_and_not_replayed(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1))
    written.run()
    code = f'@dp.table\ndef t():\n    return spark.readStream.table("{written.name}").dropDuplicates()\n'
    found = room.look(code, sets={"all": ()})
    assert found.operators == ("dedupe",)
    assert "as a stream, so its input is not files" in (found.problem or "")


def test_files_are_counted_where_the_input_cannot_be_replayed(room: Room, written: Written) -> None:
    uri = room.put("a/1.json", row(1), row(2))
    new = written.run()
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").groupBy("kind").count()')
    found = compared(room, written, (uri,), (), new, code)
    assert "depends on its state" in (found.problem or "")
    assert (found.table_rows, found.listed_rows, found.new_rows, found.missing) == (2, 2, 2, None)


def test_repeats_are_rows_whose_key_the_table_holds(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1), row(2, None))
    written.run()
    uri = room.put("a/2.json", row(1, "x"), row(2, None), row(2, None), row(3), row(3))
    found = room.look(SIMPLE, sets={"waiting": (uri,)}, table=written.name, key=("id", "kind"))
    assert found.table_rows == 2
    assert found.rows == {"waiting": 5}
    assert found.repeats == {"waiting": 3}
    assert found.fresh == {"waiting": 1}


def test_every_expected_row_once_is_measured_as_no_difference(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1), row(2, None))
    old = written.run()
    uri = room.put("a/2.json", row(2, None), row(3), row(None, None, None))  # type: ignore[arg-type]
    new = written.run()
    for key in (None, ("id", "kind")):
        found = compared(room, written, (uri,), old, new, key=key)
        assert found.problem is None
        assert (found.missing, found.extra, found.samples) == (0, 0, {"missing": (), "extra": ()})
        assert (found.expected_rows, found.new_rows, found.old_rows) == (3, 3, 2)
        assert (found.table_rows, found.listed_rows) == (5, 5)
        assert (found.duplicates_in_table, found.duplicates_before, found.duplicates_explained) == (1, 0, 1)


def test_lost_and_doubled_rows_are_found_and_shown(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1))
    old = written.run()
    lost = room.put("a/2.json", row(2), row(2), row(3, None))
    new = written.run()
    found = compared(room, written, (lost,), old, (), key=("id",))
    assert (found.missing, found.extra) == (3, 0)
    assert sorted((s["key"]["id"], s["times"]) for s in found.samples["missing"]) == [("2", 2), ("3", 1)]
    assert found.listed_rows != found.table_rows
    twice = compared(room, written, (), old, new)
    assert (twice.missing, twice.extra, twice.expected_rows) == (0, 3, 0)
    one = room.put("a/3.json", row(2))
    partly = compared(room, written, (one,), old, new, key=("id",))
    assert (partly.missing, partly.extra) == (0, 2)


def test_a_changed_value_shows_by_whole_row_and_not_by_key(room: Room, written: Written) -> None:
    uri = room.put("a/1.json", row(1, "x"))
    new = written.run()
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").withColumn("kind", __import__("pyspark.sql.functions", '
                          'fromlist=["lit"]).lit("y"))')  # fmt: skip
    assert compared(room, written, (uri,), (), new, code, key=("id",)).missing == 0
    whole = compared(room, written, (uri,), (), new, code)
    assert (whole.missing, whole.extra) == (1, 1)


def test_a_kept_state_does_not_let_known_keys_through_again(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1), row(2, None))
    old = written.run()
    written.source = room.folder / "in" / "b"
    written.folder = room.folder / "second"
    code = SIMPLE.replace('json("IN/a")', 'json("IN/a").dropDuplicates(["id", "kind"])')
    uri = room.put("a/2.json", row(1), row(2, None), row(3), row(3))
    kept = compared(room, written, (uri,), old, (), code, state_kept=True)
    assert (kept.expected_rows, kept.missing) == (1, 1)
    assert compared(room, written, (uri,), old, (), code).expected_rows == 3


def test_nested_columns_are_compared_as_values(room: Room, written: Written) -> None:
    written.schema = "id int, s struct<a: int, b: array<string>>, m map<string, int>"
    code = SIMPLE.replace(SCHEMA, written.schema)
    same = '{"id": 1, "s": {"a": null, "b": ["x", null]}, "m": {"p": 1, "q": 2}}'
    uri = room.put("a/1.json", same, same.replace('"p": 1, "q": 2', '"q": 2, "p": 1'), '{"id": 2}')
    new = written.run()
    found = compared(room, written, (uri,), (), new, code)
    assert (found.problem, found.missing, found.extra, found.duplicates_in_table) == (None, 0, 0, 1)
    other = room.put("a/2.json", same.replace('["x", null]', '["x", "y"]'))
    assert compared(room, written, (other,), (), new, code).missing == 1


def test_code_that_is_broken_refuses_a_measure_with_the_line(room: Room, written: Written) -> None:
    room.put("a/1.json", row(1))
    new = written.run()
    with pytest.raises(Refused, match="line 2: ZeroDivisionError"):
        compared(room, written, (), (), new, "1 / 0\n")


def test_a_table_that_is_not_there_is_a_problem(room: Room, written: Written) -> None:
    assert "no table" in (compared(room, written, (), (), ()).problem or "")


# ---- when Spark is not there


def test_nobody_at_the_address_is_said_within_seconds(room: Room) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    request = dataclasses.replace(room.request(SIMPLE), remote=f"sc://localhost:{port}/;token={TOKEN}")
    began = time.monotonic()
    with pytest.raises(Unreachable, match="check that the Spark driver runs") as caught:
        study(request)
    assert time.monotonic() - began < 5
    assert TOKEN not in caught.value.sentence


def test_a_server_that_says_nothing_is_said_within_the_time(room: Room) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        remote = f"sc://localhost:{mute.getsockname()[1]}/;token={TOKEN}"
        with pytest.raises(Unreachable, match="did not answer within 10 s") as caught:
            study(dataclasses.replace(room.request(SIMPLE), remote=remote))
    assert TOKEN not in caught.value.sentence


@pytest.mark.parametrize("token", ["a-wrong-token", ""])
def test_a_wrong_token_is_refused_and_never_shown(room: Room, token: str) -> None:
    remote = re.sub(r"token=[^;]+", f"token={token}", room.remote) if token else room.remote.split("/;")[0]
    with pytest.raises(Unreachable, match="refused the token") as caught:
        study(dataclasses.replace(room.request(SIMPLE), remote=remote))
    assert not token or token not in caught.value.sentence


def test_a_timeout_ends_the_child_and_says_so(room: Room) -> None:
    prepare()
    (child,) = process._spare
    request = room.request("import time\ntime.sleep(600)\n")
    began = time.monotonic()
    with pytest.raises(Unreachable, match="did not finish the answer within 4 s"):
        study(request, timeout=4)
    assert child.process.poll() is not None
    assert time.monotonic() - began < 4 + process.GRACE_SECONDS + 8


def test_a_child_ends_with_its_parent(room: Room) -> None:
    started = room.folder / "pid"
    code = f"import os, time\nopen('{started}', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    request = dataclasses.asdict(room.request("")) | {"files": {"/Users/ann/p/flow.py": code}}
    script = f"from recovery.spark.api import *\nstudy(StudyRequest(**{request!r}))"
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[2])
    child = int(wait_for(lambda: started.exists() and started.read_text()))
    parent.kill()
    parent.wait()
    wait_for(
        lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text(), 10
    )


def test_a_child_made_ready_ahead_answers_and_leaves_nothing_behind(room: Room) -> None:
    prepare()
    (spare,) = process._spare
    prepare()
    assert process._spare == [spare]
    assert room.study(SIMPLE).operators == ()
    assert (process._spare, spare.process.poll() is None) == ([], False)
    assert not Path(spare.folder).exists()


def test_the_pipelines_code_sees_no_secret_of_the_console(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_SECRET_KEY", "very-secret")
    found = room.study("import os\nraise ValueError(sorted(k for k in os.environ if 'REPRISE' in k))\n")
    assert (found.problem or "").endswith("ValueError: []")


def test_an_address_of_another_kind_is_wrong_use(room: Room) -> None:
    with pytest.raises(WrongUse, match="must begin with sc://"):
        study(dataclasses.replace(room.request(SIMPLE), remote="http://localhost:1"))


def test_tokens_are_taken_out_of_any_text() -> None:
    remote = "sc://localhost:1/;token=abc;user_id=x"
    assert (
        redact("failed at sc://h/;token=other;x and abc", remote) == "failed at sc://h/;token=***;x and ***"
    )
