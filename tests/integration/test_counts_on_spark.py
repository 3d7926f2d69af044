"""What Spark counts is true of what a stream would write, or it is not counted."""

import gzip
from pathlib import Path

import pytest

from tests.integration.spark_room import SCHEMA, SIMPLE, Room, row

pytestmark = pytest.mark.spark
READ = f'spark.readStream.schema("{SCHEMA}").json("IN/a")'


def flow(read: str, before: str = "") -> str:
    return f"{before}\n@dp.table\ndef t():\n    return {read}\n"


def test_a_folder_that_two_readers_share_is_read_once_by_each(bare: Room) -> None:
    uri = bare.put("a/1.json", row(1), row(2))
    found = bare.look(
        flow(f'{READ}.where("id = 1").union({READ}.where("id = 2"))'),
        sets={"waiting": (uri, uri)},
    )
    assert (found.problem, found.rows) == (None, {"waiting": 2})
    assert len(found.sources) == 2


KEEPS = 'from pyspark.sql.functions import udf\n@udf("boolean")\ndef keep(x):\n    return True\n'
PASSES = "def passed(parts):\n    yield from parts\n"


@pytest.mark.parametrize(
    "code",
    [flow(f'{READ}.where(keep("id"))', KEEPS), flow(f'{READ}.mapInPandas(passed, "{SCHEMA}")', PASSES)],
    ids=["a filter in Python", "mapInPandas"],
)
def test_rows_that_go_through_python_do_not_know_their_file(bare: Room, code: str) -> None:
    """Python is given the rows of the next file before those of this one come back."""
    files = tuple(bare.put(f"a/{n}.json", *[row(i) for i in range(n + 1)]) for n in range(4))
    found = bare.look(code, sets={"waiting": files}, by_file=True)
    assert (found.problem, found.rows, found.by_file) == (None, {"waiting": 10}, {})
    simple = bare.look(SIMPLE, sets={"waiting": files}, by_file=True)
    assert list(simple.by_file.values()) == [1, 2, 3, 4]


GROUPED = "def first(rows):\n    return rows.head(1)\n"
BY_BATCH = flow(f'{READ}.groupBy("kind").applyInPandas(first, "{SCHEMA}")', GROUPED)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (BY_BATCH, "FlatMapGroupsInPandas"),
        (flow(f"{READ}.sample(0.5)"), "sample"),
        (flow(f'{READ}.where("rand() < 0.5")'), "rand"),
    ],
    ids=["groups of a batch", "a sample", "chance"],
)
def test_what_another_run_or_other_batches_would_yield_otherwise_is_not_counted(
    bare: Room, code: str, names: str
) -> None:
    uri = bare.put("a/1.json", row(1), row(2))
    found = bare.look(code, sets={"waiting": (uri,)})
    assert found.operators == ()
    assert found.rows == {}
    assert names in (found.problem or "")


def test_a_file_that_a_stream_passes_over_as_damaged_is_not_counted_as_none(bare: Room) -> None:
    uri = bare.put("a/1.json.gz", row(1))
    path = Path(uri.removeprefix("file://"))
    path.write_bytes(gzip.compress(b'{"id": 1}\n' * 5000)[:-20])
    code = flow(READ.replace(".json(", '.option("ignoreCorruptFiles", "true").json('))
    found = bare.look(code, sets={"waiting": (uri,)})
    assert found.rows == {}
    assert found.problem


def test_a_column_that_has_the_name_of_a_key_is_none(bare: Room) -> None:
    uri = bare.put("a/1.json", row(1), row(2), row(3))
    kept = flow(f'{READ}.dropDuplicates(["id"]).selectExpr("id", "kind", "current_timestamp() AS at")')
    assert bare.look(kept, sets={"waiting": (uri,)}).key == ("id",)
    other = flow(f'{READ}.dropDuplicates(["id"]).selectExpr("id % 2 AS id", "kind")')
    found = bare.look(other, sets={"waiting": (uri,)})
    assert (found.key, found.dedupe, found.rows) == ((), (), {"waiting": 3})
