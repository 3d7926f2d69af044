"""Definitions of datasets, each compared on real Spark with what the dataset holds, as computed and once spoiled.

Each view is filled with what its own definition yields, as an update would, so that an honest comparison agrees. Then a
row of it is changed, and then one is taken away.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from recovery.contracts.refreshed import RefreshedDataset
from recovery.spark.api import DefinedRequest, DefinitionMeasure, StudyRequest, defined
from recovery.verification.below import DONE
from tests.integration.spark_room import Room

pytestmark = pytest.mark.spark
AGREES, DIFFERS, UNKNOWN = True, False, None
PYTHON, SQL = "/p/flow.py", "/p/views.sql"
HEAD = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

spark = SparkSession.active()
"""


@dataclass(frozen=True)
class View:
    """A definition of `v` over tables `orders` (id, who, city, price) and `people` (who, name), in Python or in SQL.

    `holds`: what fills the view, a query. Expected: as it was filled, with a row changed, and with one less.
    """

    name: str
    filled: bool | None
    changed: bool | None
    shorter: bool | None
    body: str = ""
    sql: str = ""
    holds: str = ""
    kind: str = "materialized_view"


def python(name: str, body: str, holds: str, *verdicts: bool | None, kind: str = "materialized_view") -> View:
    return View(name, *verdicts, body=body, holds=holds, kind=kind)


def of_sql(name: str, text: str, *verdicts: bool | None, holds: str = "", more: str = "") -> View:
    created = f"{more}\nCREATE MATERIALIZED VIEW v AS {text};"
    return View(name, *verdicts, sql=created, holds=holds or text)


EXACT = (AGREES, DIFFERS, DIFFERS)
VIEWS = [
    python(
        "a filter",
        'spark.read.table("orders").where("price > 10")',
        "SELECT * FROM orders WHERE price > 10",
        *EXACT,
    ),
    python(
        "an aggregate",
        'spark.read.table("orders").groupBy("city").agg(F.count("*").alias("n"), F.max("price").alias("top"))',
        "SELECT city, count(*) AS n, max(price) AS top FROM orders GROUP BY city",
        *EXACT,
    ),
    python(
        "a join",
        'spark.read.table("orders").join(spark.read.table("people"), "who", "left")',
        "SELECT * FROM orders LEFT JOIN people USING (who)",
        *EXACT,
    ),
    python(
        "distinct",
        'spark.read.table("orders").select("city").distinct()',
        "SELECT DISTINCT city FROM orders",
        *EXACT,
    ),
    of_sql("a union", "SELECT who FROM orders UNION ALL SELECT who FROM people", *EXACT),
    of_sql(
        "a common table expression",
        "WITH c AS (SELECT city FROM orders) SELECT city, count(*) AS n FROM c GROUP BY city",
        *EXACT,
    ),
    of_sql(
        "a sum over a window", "SELECT id, sum(price) OVER (PARTITION BY city) AS total FROM orders", *EXACT
    ),
    of_sql(
        "the first of each group",
        "SELECT id, city FROM (SELECT *, row_number() OVER (PARTITION BY city ORDER BY price) AS rn FROM orders) "
        "WHERE rn = 1",
        AGREES,
        UNKNOWN,
        DIFFERS,
    ),
    of_sql("a random number", "SELECT id, rand() AS r FROM orders", *EXACT),
    of_sql(
        "rows chosen by chance",
        "SELECT id FROM orders WHERE rand() < 0.5",
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        holds="SELECT id FROM orders WHERE id < 30",
    ),
    of_sql(
        "when it was loaded",
        "SELECT id, city, current_timestamp() AS loaded FROM orders",
        AGREES,
        DIFFERS,
        DIFFERS,
    ),
    python(
        "when it was loaded, over others",
        'spark.read.table("orders").withColumn("loaded", F.current_timestamp()).where("price > 10").drop("who")',
        "SELECT id, city, price, current_timestamp() AS loaded FROM orders WHERE price > 10",
        AGREES,
        DIFFERS,
        DIFFERS,
    ),
    of_sql(
        "counts, and when they were made",
        "SELECT city, count(*) AS n, current_timestamp() AS at FROM orders GROUP BY city",
        AGREES,
        DIFFERS,
        DIFFERS,
    ),
    of_sql(
        "what is older than now",
        "SELECT id FROM orders WHERE timestamp_seconds(id) < current_timestamp()",
        AGREES,
        UNKNOWN,
        UNKNOWN,
    ),
    of_sql(
        "a limit without an order",
        "SELECT id FROM orders LIMIT 10",
        UNKNOWN,
        UNKNOWN,
        DIFFERS,
        holds="SELECT id FROM orders ORDER BY id DESC LIMIT 10",
    ),
    of_sql(
        "a limit with an order that ties",
        "SELECT id FROM orders ORDER BY city LIMIT 5",
        UNKNOWN,
        UNKNOWN,
        DIFFERS,
        holds="SELECT id FROM orders ORDER BY city, id DESC LIMIT 5",
    ),
    python(
        "one of each repeated key",
        'spark.read.table("orders").dropDuplicates(["city"]).select("id", "city")',
        "SELECT max(id) AS id, city FROM orders GROUP BY city",
        UNKNOWN,
        UNKNOWN,
        DIFFERS,
    ),
    of_sql(
        "what any row of a group says",
        "SELECT city, any_value(id) AS id FROM orders GROUP BY city",
        UNKNOWN,
        DIFFERS,
        DIFFERS,
        holds="SELECT city, max(id) AS id FROM orders GROUP BY city",
    ),
    of_sql(
        "a list in no order",
        "SELECT city, collect_list(id) AS ids FROM orders GROUP BY city",
        UNKNOWN,
        DIFFERS,
        DIFFERS,
        holds="SELECT city, reverse(sort_array(collect_list(id))) AS ids FROM orders GROUP BY city",
    ),
    of_sql(
        "a sample",
        "SELECT id FROM orders TABLESAMPLE (50 PERCENT)",
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        holds="SELECT id FROM orders WHERE id < 30",
    ),
    of_sql(
        "a sum of doubles",
        "SELECT city, sum(CAST(price AS DOUBLE) / 3) AS s FROM orders GROUP BY city",
        *EXACT,
    ),
    python(
        "a function of Python",
        'spark.read.table("orders").select("id", F.udf(lambda p: p * 2, "bigint")("price").alias("twice"))',
        "SELECT id, price * 2 AS twice FROM orders",
        *EXACT,
    ),
    python(
        "a function of Python that yields otherwise each time",
        'spark.read.table("orders").select("id", '
        'F.udf(lambda: __import__("random").random(), "double").asNondeterministic()().alias("r"))',
        "SELECT id, rand() AS r FROM orders",
        *EXACT,
    ),
    python(
        "another view",
        'spark.read.table("cities").where("n > 1")',
        "SELECT * FROM cities WHERE n > 1",
        *EXACT,
    ),
    python(
        "a temporary view of Python",
        'spark.read.table("dear").select("id")',
        "SELECT id FROM orders WHERE price > 50",
        *EXACT,
    ),
    of_sql(
        "a temporary view of SQL",
        "SELECT id FROM cheap",
        *EXACT,
        holds="SELECT id FROM orders WHERE price < 50",
        more="CREATE TEMPORARY VIEW cheap AS SELECT * FROM orders WHERE price < 50;",
    ),
    of_sql(
        "what a pipeline's setting chooses",
        "SELECT id FROM orders WHERE price > ${floor}",
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        holds="SELECT id FROM orders WHERE price > 10",
    ),
    python(
        "a stream of a table, row by row",
        'spark.readStream.table("orders").where("price > 10")',
        "SELECT * FROM orders WHERE price > 10",
        AGREES,
        UNKNOWN,
        UNKNOWN,
        kind="table",
    ),
    python(
        "a stream of a table, once each",
        'spark.readStream.table("orders").dropDuplicates(["id"])',
        "SELECT * FROM orders",
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        kind="table",
    ),
]


@pytest.fixture(scope="module")
def database(spark: Any) -> Iterator[str]:
    """A schema with the tables that the views read."""
    name = "definitions"
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {name}")
    spark.sql(f"USE {name}")
    spark.sql(
        "CREATE TABLE orders USING json AS SELECT id, concat('p', id % 7) AS who, concat('c', id % 4) AS city, "
        "(id * 37) % 100 AS price FROM range(0, 60, 1, 3)"
    )
    spark.sql(
        "CREATE TABLE people USING parquet AS SELECT concat('p', id) AS who, concat('n', id) AS name FROM range(6)"
    )
    spark.sql("CREATE TABLE cities USING parquet AS SELECT city, count(*) AS n FROM orders GROUP BY city")
    yield name
    spark.sql("USE default")
    spark.sql(f"DROP SCHEMA {name} CASCADE")


@dataclass
class Compared:
    """Asks for one view as the console does."""

    room: Room
    database: str
    view: View

    def verdict(self, found: DefinitionMeasure) -> bool | None:
        one = RefreshedDataset(
            dataset="v", status=DONE, compared=True, rows=found.rows, expected_rows=found.expected_rows,
            missing=found.missing, extra=found.extra, problem=found.problem or "", unsure=found.unsure,
            left_out=found.left_out, rows_unsure=found.rows_unsure, view=self.view.kind != "table",
        )  # fmt: skip
        return one.agrees

    def ask(self) -> DefinitionMeasure:
        files = {PYTHON: self.code()} | ({SQL: self.view.sql} if self.view.sql else {})
        study = StudyRequest(
            answers=self.room.answers, files=files, root="/p", libraries=tuple(files), configuration={},
            catalog="spark_catalog", schema=self.database, flow=f"spark_catalog.{self.database}.v",
        )  # fmt: skip
        return defined(DefinedRequest(self.room.answers, f"spark_catalog.{self.database}.v", study))

    def code(self) -> str:
        dear = (
            '\n\n@dp.temporary_view\ndef dear():\n    return spark.read.table("orders").where("price > 50")\n'
        )
        own = f"\n\n@dp.{self.view.kind}\ndef v():\n    return {self.view.body}\n" if self.view.body else ""
        return HEAD + dear + own


@pytest.mark.parametrize("view", VIEWS, ids=[v.name for v in VIEWS])
def test_a_dataset_is_compared_with_its_definition(spark: Any, bare: Room, database: str, view: View) -> None:
    spark.sql(f"USE {database}")
    spark.sql("DROP TABLE IF EXISTS v")
    spark.sql(f"CREATE TABLE v USING parquet AS {view.holds}")
    asked = Compared(bare, database, view)
    told = [asked.ask()]
    for less in (False, True):
        spoil(spark, less=less)
        told.append(asked.ask())
    spark.sql("DROP TABLE v")
    assert [asked.verdict(one) for one in told] == [view.filled, view.changed, view.shorter], told


def spoil(spark: Any, *, less: bool) -> None:
    """Change the first column of one row, by the order of all; or take this row away."""
    rows = sorted((tuple(r) for r in spark.sql("SELECT * FROM v").collect()), key=repr)
    schema = spark.sql("SELECT * FROM v").schema
    first = rows[0][0]
    other = f"{first}?" if isinstance(first, str) else first + 100_000
    kept = rows[1:] if less else [(other, *rows[0][1:]), *rows[1:]]
    spark.createDataFrame(kept, schema).createOrReplaceTempView("spoiled")
    spark.sql("CREATE TABLE w USING parquet AS SELECT * FROM spoiled")
    spark.sql("DROP TABLE v")
    spark.sql("ALTER TABLE w RENAME TO v")
