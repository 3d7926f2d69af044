"""What a plain program would start is learned without a start, whatever way it goes about it. No Spark answers here."""

import os
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from recovery.spark import programs, reads_only
from recovery.spark.definitions import OTHER_CHECKPOINT, UNKNOWN_PLACE, BadCode
from recovery.spark.driver_only import DriverThing
from tests.unit.spark.studied_programs import HEAD, NOTEBOOK, READ, SESSION, START, learned, started


def chosen(
    queries: Sequence[programs.ProgramQuery], checkpoint: str, flow: str, stopped: str = ""
) -> programs.ProgramQuery:
    return programs._chosen(programs.LearnedProgram(queries, stopped), checkpoint, flow)


def test_a_program_with_a_master_of_its_own_is_read_and_waits_for_nothing(spark: Any, tmp_path: Path) -> None:
    code = (
        SESSION + 'spark.sparkContext.setLogLevel("WARN")\n' + READ + START.format("orders")
        + "while q.isActive:\n    time.sleep(60)\nq.awaitTermination()\n"
        + "spark.streams.awaitAnyTermination()\nspark.stop()\n"
    )  # fmt: skip
    (query,) = started(spark, tmp_path, code)
    assert (query.format, query.name, query.mode, query.checkpoint) == (
        "delta",
        "orders",
        "append",
        "/ck/orders",
    )
    assert query.options["path"] == "/out/orders"
    assert query.frame.sparkSession is spark


def test_arguments_main_guards_and_modules_beside_it_are_as_in_a_run(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "places.py").write_text('CHECKPOINT = "/ck/x"\n')
    code = (
        "def main():\n    p = argparse.ArgumentParser(); p.add_argument('--out'); a = p.parse_args()\n"
        "    import places\n"
        f"    {SESSION}    {READ}"
        "    df.writeStream.outputMode('complete').trigger(processingTime='5 seconds')"
        ".options(checkpointLocation=places.CHECKPOINT, path=a.out).start().awaitTermination()\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        (query,) = started(spark, tmp_path, code, "--out", "/out/x")
    finally:
        sys.path.remove(str(tmp_path))
    assert (query.checkpoint, query.mode, query.options["path"]) == ("/ck/x", "complete", "/out/x")


def test_what_comes_after_the_start_does_not_matter_and_a_function_of_batches_is_noted(
    spark: Any, tmp_path: Path
) -> None:
    code = (
        SESSION + READ + "def write(batch, number):\n    batch.write.save('/x')\n"
        "q = df.writeStream.foreachBatch(write).option('checkpointLocation', '/ck').start()\n"
        "print(q.lastProgress['batchId'])\n"
    )
    (query,) = started(spark, tmp_path, code)
    assert query.function == "foreachBatch"


def test_of_several_queries_the_one_with_the_checkpoint_is_taken(spark: Any, tmp_path: Path) -> None:
    queries = started(spark, tmp_path, SESSION + READ + START.format("a") + START.format("b"))
    assert chosen(queries, "file:///ck/b", "x").name == "b"


@pytest.mark.parametrize(
    ("code", "stopped"),
    [
        (START.format("a"), False),  # its name is the stream's, its checkpoint another
        (START.format("a") + START.format("b"), False),
        (START.format("b"), False),
        (START.format("b") + "q.lastProgress['x']\n" + START.format("orders"), True),
        ('df.writeStream.format("noop").start()\n' + "q = 1 / 0\n", True),
    ],
)
def test_a_query_of_another_checkpoint_is_not_taken_for_the_one(
    spark: Any, tmp_path: Path, code: str, stopped: bool
) -> None:
    (tmp_path / "program.py").write_text(HEAD + SESSION + READ + code)
    found = learned(spark, tmp_path / "program.py")
    assert bool(found.stopped) is stopped
    with pytest.raises(BadCode) as raised:
        programs._chosen(found, "/ck/orders", "a")
    assert raised.value.code == OTHER_CHECKPOINT


def test_a_query_without_a_checkpoint_of_its_own_is_taken_by_its_name_or_where_it_is_alone() -> None:
    named, nameless = programs.ProgramQuery(None, name="a"), programs.ProgramQuery(None)
    elsewhere = programs.ProgramQuery(None, name="a", options={"checkpointLocation": "/elsewhere"})
    assert chosen([named, nameless, elsewhere], "/ck/orders", "a", "an error") is named
    assert chosen([nameless, elsewhere], "/ck/orders", "a") is nameless


@pytest.mark.parametrize(
    "code",
    [
        'spark.range(3).write.mode("overwrite").parquet("/x")\n',
        'spark.range(3).writeTo("t").createOrReplace()\n',
        'spark.sql("INSERT OVERWRITE t VALUES (1)")\n',
        'spark.sql("CREATE OR REPLACE TABLE t (id INT)")\n',
        'spark.sql("DROP TABLE t")\n',
        'spark.sql("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x")\n',
        'spark.sql("FROM s INSERT INTO t SELECT *")\n',
        'spark.range(3).writeTo("t").overwritePartitions()\n',
        "from pyspark.sql.functions import expr\n"
        'spark.range(3).mergeInto("t", expr("true")).whenMatched().delete().merge()\n',
        'spark.catalog.createTable("t", path="/x", source="parquet")\n',
        'spark.catalog.createExternalTable("t", path="/x", source="parquet")\n',
        "from pyspark.sql.connect.dataframe import DataFrame\nfrom pyspark.sql.connect.plan import SQL\n"
        'DataFrame(SQL("DELETE FROM t"), spark).schema\n',
        "from pyspark.sql.connect.streaming.readwriter import DataStreamWriter\n"
        'DataStreamWriter(spark.readStream.format("rate").load()._plan, spark).format("noop").start()\n',
    ],
)
def test_what_a_program_would_write_before_its_start_is_refused(
    spark: Any, tmp_path: Path, code: str
) -> None:
    with pytest.raises(BadCode):
        started(spark, tmp_path, SESSION + code + READ + START.format("a"))


ADDS = [
    'spark.range(3).write.saveAsTable("t")\n',
    'spark.range(3).write.mode("ignore").format("delta").save("/in/t")\n',
    'spark.range(3).write.mode("append").option("path", "/in/t").save()\n',
    'spark.range(3).writeTo("lake.t").append()\n',
    'spark.sql("INSERT INTO t VALUES (1)")\n',
    'spark.sql("CREATE TABLE shop.t (id INT) USING delta")\n',
    'spark.sql("CREATE SCHEMA t")\n',
]


@pytest.mark.parametrize("code", ADDS)
def test_a_write_that_takes_nothing_away_is_passed_over(spark: Any, tmp_path: Path, code: str) -> None:
    (query,) = started(spark, tmp_path, SESSION + code + READ + START.format("a"))
    assert query.problem is None


@pytest.mark.parametrize("code", [code for code in ADDS if "SCHEMA" not in code])
@pytest.mark.parametrize(
    "read", ['spark.read.table("t")', 'spark.read.parquet("/in/t/a")', 'spark.sql("SELECT id FROM shop.t")']
)
def test_what_a_query_would_read_of_a_write_that_was_passed_over_is_not_known(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, read: str
) -> None:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import SQL

    monkeypatch.setattr(
        "pyspark.sql.connect.session.SparkSession.sql", lambda s, text: DataFrame(SQL(text), s)
    )
    code = f"{SESSION}{code}{READ}df = df.join({read}, 'id')\n{START.format('a')}"
    (query,) = started(spark, tmp_path, code)
    by_path = "/in/t" in code.split("df =")[0]
    assert (query.problem is not None) is (by_path == ("parquet" in read))


SECRET = "'x=' + str(dbutils.secrets.get('s', 'k'))"


@pytest.mark.parametrize(
    ("code", "known"),
    [
        ("print(f'{spark.sparkContext.applicationId} {spark._jvm.org.apache.log4j}')\n", True),
        (
            "print(sc.uiWebUrl)\nlog = spark._jvm.org.apache.log4j.LogManager.getLogger('x'); log.info(1)\n",
            True,
        ),
        (f"df = spark.readStream.format('kafka').option('kafka.sasl.jaas.config', {SECRET}).load()\n", True),
        ("df = spark.readStream.format('kafka').option('subscribe', sc.appName).load()\n", False),
        ("df = spark.readStream.format('kafka').option('subscribe', None).load()\n", False),
        ("df = spark.readStream.format('kafka').options(subscribe=None).load()\n", False),
        ("df = spark.readStream.schema('id int').json(f'/in/{sc.applicationId}')\n", False),
        (
            "df = spark.readStream.schema('id int').json(str(sc._jvm.java.lang.System.getProperty('in')))\n",
            False,
        ),
        ("spark.sql(f'SELECT {sc.defaultParallelism}')\n", False),
        ("if sc._jvm.org.apache.hadoop.fs.FileSystem.get(1).exists('/x'): pass\n", False),
        ("for topic in sc.textFile('/topics').collect(): pass\n", False),
        ("if sc.master == 'yarn': pass\n", False),
        ("if sc.getConf().get('spark.shop.mode') == 'a': pass\n", False),
    ],
)
def test_what_only_a_driver_knows_is_logged_and_nothing_is_made_of_it(
    spark: Any, tmp_path: Path, code: str, known: bool
) -> None:
    text = SESSION + "sc = spark.sparkContext\n" + READ + code + START.format("a")
    if known:
        assert [query.problem for query in started(spark, tmp_path, text)] == [None]
        return
    with pytest.raises(BadCode) as raised:
        started(spark, tmp_path, text)
    assert raised.value.code == UNKNOWN_PLACE


def test_a_query_whose_places_only_a_driver_knows_does_not_hide_another(spark: Any, tmp_path: Path) -> None:
    aside = (
        "df.writeStream.option('checkpointLocation', f'/ck/{spark.sparkContext.applicationId}').start('/x')\n"
    )
    queries = started(spark, tmp_path, SESSION + READ + aside + START.format("a"))
    assert chosen(queries, "/ck/a", "x").name == "a"
    with pytest.raises(BadCode) as raised:
        chosen(queries, "/ck/b", "x")
    assert raised.value.code == UNKNOWN_PLACE


def test_the_package_delta_is_taken_from_as_its_own(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from delta import *\nfrom delta.tables import *\n"
        "spark = configure_spark_with_delta_pip(spark_session_builder=SparkSession.builder).getOrCreate()\n"
        "def merge(table: DeltaTable | None) -> StructType: ...\n"
        "DeltaTable.createIfNotExists(spark).location('/out').addColumn('id', 'int').execute()\n"
        "known = DeltaTable.forPath(spark, '/known').alias('k').toDF()\n"
        "DeltaTable.forName(spark, 't').merge(known, 'x').whenMatchedUpdateAll().execute()\n"
    )
    (query,) = started(spark, tmp_path, code + READ + "df = df.join(known, 'id')\n" + START.format("a"))
    assert query.problem is None
    assert b"/known" in query.frame._plan.plan(spark.client).SerializeToString()


def test_arguments_that_a_program_does_not_take_are_named(spark: Any, tmp_path: Path) -> None:
    code = "p = argparse.ArgumentParser()\np.add_argument('--checkpoint', required=True)\np.parse_args()\n"
    with pytest.raises(BadCode, match="--checkpoint"):
        started(spark, tmp_path, code)


@pytest.mark.parametrize(
    "code",
    [
        "from no_such_db.cluster import Cluster\ndef write(b, n): Cluster().connect()\n",
        "import no_such_queue.admin as q, no_such_notes\nno_such_notes.init(dsn='x')\nwith q.Client() as c: c.send()\n",
        "import no_such\nclass Listener(no_such.Listener):\n    def on(self): ...\nListener(1).on()\n",
    ],
)
def test_a_library_that_is_not_there_is_no_matter_where_the_query_does_not_hang_on_it(
    spark: Any, tmp_path: Path, code: str
) -> None:
    (tmp_path / "program.py").write_text(HEAD + code + SESSION + READ + START.format("a"))
    found = learned(spark, tmp_path / "program.py")
    assert [query.problem for query in found.queries] == [None]
    assert found.absent[0].startswith("no_such")
    assert chosen(found.queries, "/ck/a", "x").name == "a"


@pytest.mark.parametrize(
    "code",
    [
        "import no_such\ndf = spark.readStream.schema('id int').json(no_such.load()['in'])\n"
        + START.format("a"),
        "import no_such\ndf = spark.readStream.schema('id int').json(f'/{no_such.env}')\n"
        + START.format("a"),
        "import no_such\nif no_such.enabled(): pass\n" + START.format("a"),
        "import no_such\n@no_such.retry(3)\ndef main():\n    " + START.format("a") + "main()\n",
        "import no_such\nno_such.enrich(df).writeStream.option('checkpointLocation', '/ck/a').start()\n",
        "from pyspark.no_such import x\n" + START.format("a"),
    ],
)
def test_a_library_that_is_not_there_is_named_where_the_query_hangs_on_it(
    spark: Any, tmp_path: Path, code: str
) -> None:
    (tmp_path / "program.py").write_text(HEAD + SESSION + READ + code)
    with pytest.raises(BadCode, match="no_such"):
        programs._chosen(learned(spark, tmp_path / "program.py"), "/ck/a", "x")


@pytest.mark.parametrize(
    ("inside", "place"),
    [("import no_such", "/one"), ("try:\n    import no_such\nexcept ImportError:\n    no_such = 0", "/one")],
)
def test_a_library_may_lack_one_of_its_own(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str, place: str
) -> None:
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "a_library_of_the_test.py").write_text(inside + "\nPLACE = '/one'\n")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    code = (
        "from a_library_of_the_test import PLACE, no_such\ntry:\n    import other_no_such\n"
        "except ImportError:\n    df = spark.readStream.schema('id int').json(PLACE)\n"
    )
    (query,) = started(spark, tmp_path, SESSION + code + START.format("a"))
    assert list(query.frame._plan.plan(spark.client).read.data_source.paths) == [place]
    monkeypatch.delitem(sys.modules, "a_library_of_the_test")


def test_a_function_takes_nothing_of_an_absent_library_to_its_rows() -> None:
    with pytest.raises(BadCode, match="no_such"):
        pickle.dumps(DriverThing("no_such.f"))


def test_a_row_with_a_text_of_an_absent_library_is_not_known(spark: Any, tmp_path: Path) -> None:
    code = (
        "import no_such\nfrom pyspark.sql.functions import lit\n"
        "df = df.withColumn('run', lit(f'{no_such.run_id()}'))\n"
    )
    (query,) = started(spark, tmp_path, SESSION + READ + code + START.format("a"))
    assert query.problem is not None
    assert query.problem.code == UNKNOWN_PLACE


def test_a_query_without_checkpoint_is_not_the_one_where_an_absent_library_could_start_it(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(
        f"{HEAD}import no_such\n{SESSION}{READ}no_such.start(df)\ndf.writeStream.format('noop').start()\n"
    )
    with pytest.raises(BadCode) as raised:
        programs._chosen(learned(spark, tmp_path / "program.py"), "/ck/a", "x")
    assert raised.value.code == OTHER_CHECKPOINT


def test_a_program_that_goes_on_without_a_library_does_so(spark: Any, tmp_path: Path) -> None:
    code = "try:\n    import no_such\n    place = '/one'\nexcept ImportError:\n    place = '/other'\n"
    read = 'df = spark.readStream.schema("id int").json(place)\n'
    (query,) = started(spark, tmp_path, code + SESSION + read + START.format("a"))
    assert list(query.frame._plan.plan(spark.client).read.data_source.paths) == ["/other"]
    assert not [name for name in sys.modules if name.startswith("no_such")]


@pytest.mark.parametrize(("arguments", "name"), [((), "orders"), (("name=bills",), "bills")])
def test_an_exported_notebook_has_what_a_notebook_has(
    spark: Any, tmp_path: Path, arguments: tuple[str, ...], name: str
) -> None:
    file = tmp_path / "program.py"
    file.write_text(NOTEBOOK)
    found = learned(spark, file, *arguments)
    assert [(q.checkpoint, q.table) for q in found.queries] == [(f"/ck/{name}", name)]
    assert found.stopped == ""


def test_what_a_notebook_removes_and_its_widgets_without_value_are_named(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("dbutils.fs.rm('/ck/orders', True)\n" + NOTEBOOK)
    found = learned(spark, file)
    assert programs._removed_of(found.queries[0], found.removed) == "/ck/orders"
    file.write_text("dbutils.widgets.get('env')\n")
    with pytest.raises(BadCode, match="env=VALUE"):
        learned(spark, file)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("SELECT 'INSERT INTO t' AS x", True),
        ("-- INSERT\n/* DELETE */ WITH x AS (SELECT 'a; MERGE') SELECT `update`, last_update FROM x", True),
        ("FROM s |> WHERE op = 'DELETE'", True),
        ("CREATE OR REPLACE TEMP VIEW v AS SELECT 1", True),
        ("with x as (select 1)\ndelete from t", False),
        ("WITH x AS (SELECT r'\\') INSERT INTO t SELECT 'y'", False),
        ("WITH x AS (SELECT 1) -- it's\rINSERT INTO t SELECT 'y'", False),
        ("/* /* */ ' */ WITH x AS (SELECT 1) INSERT INTO t SELECT '1'", False),
        ("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1)'", False),
        ("/* x */ TRUNCATE TABLE t", False),
    ],
)
def test_a_statement_reads_where_it_changes_nothing_outside_strings_and_comments(
    text: str, reads: bool
) -> None:
    assert reads_only.is_read(text) is reads


def test_every_command_and_act_of_a_catalog_that_spark_knows_and_that_changes_something_is_refused() -> None:
    from pyspark.sql.connect.proto import catalog_pb2, commands_pb2, relations_pb2

    passed = set()
    for of, wrap in (
        (commands_pb2.Command, lambda m: m),
        (catalog_pb2.Catalog, lambda m: relations_pb2.Relation(catalog=m)),
    ):
        for act in of.DESCRIPTOR.oneofs[0].fields:
            message = of()
            getattr(message, act.name).SetInParent()
            try:
                reads_only.refuse_change(wrap(message))
            except BadCode:
                continue
            passed.add(act.name)
    changing = (
        "create_table",
        "drop_table",
        "create_database",
        "truncate",
        "write",
        "merge",
        "extension",
        "start",
    )
    assert {"create_dataframe_view", "table_exists"} < passed
    assert [name for name in passed if any(word in name.replace("get_create", "") for word in changing)] == []


def test_a_delta_package_that_is_there_is_stood_in_for_and_given_back(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import ModuleType

    real = ModuleType("delta")
    monkeypatch.setitem(sys.modules, "delta", real)
    code = SESSION + "import delta\nassert hasattr(delta, 'configure_spark_with_delta_pip')\n" + READ
    started(spark, tmp_path, code + START.format("a"))
    assert sys.modules["delta"] is real
    assert "delta.tables" not in sys.modules


def test_a_program_that_fails_before_its_start_or_has_no_stream_is_bad_code(
    spark: Any, tmp_path: Path
) -> None:
    with pytest.raises(BadCode):
        started(spark, tmp_path, SESSION + "{}['x']\n")
    with pytest.raises(BadCode):
        chosen(started(spark, tmp_path, SESSION), "/ck", "x")


def test_nothing_of_pyspark_stays_replaced(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.dataframe import DataFrame

    before = (SparkSession.Builder.getOrCreate, DataFrame.__dict__["writeStream"], dict(os.environ))
    started(spark, tmp_path, SESSION + READ + START.format("a"))
    assert before == (SparkSession.Builder.getOrCreate, DataFrame.__dict__["writeStream"], dict(os.environ))


def test_a_table_that_the_program_makes_where_there_is_none_is_read_and_written_by_its_place(
    spark: Any, tmp_path: Path
) -> None:
    code = (
        SESSION
        + "spark.sql(\"CREATE TABLE IF NOT EXISTS shop.raw (id INT) USING delta LOCATION '/data/raw'\")\n"
        'spark.sql("""create table if not exists out\n using DELTA location \'/data/out\'""")\n'
        "df = spark.readStream.table('shop.raw')\n"
        "df.writeStream.option('checkpointLocation', '/ck').toTable('out')\n"
    )
    (query,) = started(spark, tmp_path, code)
    assert (query.format, query.options["path"]) == ("delta", "/data/out")
    read = query.frame._plan.plan(spark.client).read.data_source
    assert (read.format, list(read.paths)) == ("delta", ["/data/raw"])


def test_a_program_that_waits_by_sleeping_is_read_to_its_last_start(spark: Any, tmp_path: Path) -> None:
    code = SESSION + READ + START.format("a") + "while True:\n    time.sleep(10)\n    q.status\n"
    assert [query.name for query in started(spark, tmp_path, code)] == ["a"]


def test_streams_that_a_program_starts_in_threads_are_seen(spark: Any, tmp_path: Path) -> None:
    body = START.format("a").strip()
    code = (
        f"import threading\n{SESSION}{READ}go = threading.Event()\ndef one():\n    go.wait(20)\n    {body}\n"
        "threading.Thread(target=one).start()\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n"
        "go.set()\n"
    )
    assert [query.name for query in started(spark, tmp_path, code)] == ["a"]


def test_relative_places_are_those_of_the_folder_in_which_it_is_started(spark: Any, tmp_path: Path) -> None:
    code = SESSION + (
        'df = spark.readStream.schema("id int").json("data/in")\n'
        'df.writeStream.option("checkpointLocation", "./ck/a").start("out")\n'
    )
    (query,) = started(spark, tmp_path, code)
    assert chosen([query, programs.ProgramQuery(None)], "file:///srv/app/ck/a", "x") is query
    assert programs._folder_of("./ck/a", "/srv/app/ck/a") == "/srv/app"
    assert [
        programs._folder_of(*p) for p in (("/ck/a", "/ck/a"), ("b", "/ck/a"), ("s3://b/a", "/x/s3:/b/a"))
    ] == [""] * 3
    file = tmp_path / "program.py"
    (query,) = programs._queries(spark, file, (), {"/program.py": file}, base="/srv/app").queries
    assert query.options["path"] == "/srv/app/out"
    assert list(query.frame._plan.plan(spark.client).read.data_source.paths) == ["/srv/app/data/in"]


@pytest.mark.parametrize(
    "read",
    [
        'spark.readStream.schema("id int").options(path="data/in").format("csv").load()',
        'spark.readStream.schema("id int").csv("data/in")',
        'spark.read.schema("id int").csv("data/in")',
        'spark.read.schema("id int").csv(["data/in"])',
        'spark.read.schema("id int").option("path", "data/in").format("csv").load()',
    ],
)
def test_a_relative_place_is_read_however_it_is_named(spark: Any, tmp_path: Path, read: str) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        HEAD + SESSION + READ + f"import builtins\nbuiltins.opened = {read}\n" + START.format("a")
    )
    programs._queries(spark, file, (), {"/program.py": file}, base="/srv/app")
    import builtins

    source = builtins.opened._plan.plan(spark.client).read.data_source  # type: ignore[attr-defined]
    assert [*source.paths, *([source.options["path"]] if source.options else [])] == ["/srv/app/data/in"]


def test_a_program_that_reads_a_relative_place_first_is_read_in_the_folder_above_its_checkpoint() -> None:
    tried: list[str] = []

    def run(base: str) -> programs.ProgramQuery:
        tried.append(base)
        if base != "/srv/app":
            raise BadCode("There is no data/in.")
        return programs.ProgramQuery(None, options={"checkpointLocation": "ck/a"})

    query, base = programs._in_its_folder(run, "file:///srv/app/ck/a", ["data/in"])
    assert (query.checkpoint, base, tried) == ("ck/a", "/srv/app", ["", "/srv/app/ck", "/srv/app"])
    tried.clear()
    with pytest.raises(BadCode):  # nothing relative was opened: another folder would change nothing
        programs._in_its_folder(run, "/srv/app/ck/a", [])
    assert tried == [""]


def test_a_root_of_checkpoints_that_the_session_sets_counts(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.connect.conf import RuntimeConf

    given: dict[str, str] = {}
    monkeypatch.setattr(RuntimeConf, "set", lambda _, key, value: given.update({key: value}))
    code = SESSION + (
        f'spark.conf.set("{programs.CHECKPOINTS}", "testtemp")\n{READ}'
        'df.writeStream.queryName("orders").start("out")\n'
    )
    (query,) = started(spark, tmp_path, code)
    assert query.checkpoint == "testtemp/orders"
    assert given == {programs.CHECKPOINTS: "testtemp"}


def test_a_context_knows_the_settings_that_the_program_named_and_a_root_of_checkpoints_counts(
    spark: Any, tmp_path: Path
) -> None:
    code = (
        "from pyspark import SparkContext, SparkConf\nfrom delta.tables import DeltaTable\n"
        "sc = SparkContext.getOrCreate()\n"
        'spark = SparkSession.builder.config("spark.sql.streaming.checkpointLocation", "/ck")'
        '.config("spark.shop.in", "/in").getOrCreate()\n'
        'df = spark.readStream.schema("id int").json(spark.sparkContext.getConf().get("spark.shop.in"))\n'
        'df.writeStream.queryName("orders").format("noop").start()\n'
    )
    (query,) = started(spark, tmp_path, code)
    assert query.checkpoint == "/ck/orders"
    assert list(query.frame._plan.plan(spark.client).read.data_source.paths) == ["/in"]


def test_arguments_that_name_files_of_the_program_name_them_where_they_lie(tmp_path: Path) -> None:
    placed = {"/srv/app/prod.yaml": tmp_path / "prod.yaml"}
    told = programs._placed_arguments(["--conf=/srv/app/prod.yaml", "/srv/app/prod.yaml", "--x=1"], placed)
    assert told == [f"--conf={tmp_path}/prod.yaml", f"{tmp_path}/prod.yaml", "--x=1"]
