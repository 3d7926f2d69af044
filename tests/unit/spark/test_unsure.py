"""By what two runs of a query may differ, by the words of its plan; tests/integration asks Spark for these words."""

import pytest

from recovery.spark.unsure import Unsure, UnsureRows, by_chance, unsure

READ = (
    "SubqueryAlias spark_catalog.d.orders\n+- Relation spark_catalog.d.orders[id#1L,city#2,price#3L] parquet"
)
NONE, SAME, ANY = UnsureRows.NONE, UnsureRows.SAME_NUMBER, UnsureRows.ANY
PLANS = [
    ("a filter", "Filter (price#3L > 10)", "id city price", Unsure()),
    ("a count", "Aggregate [city#2], [city#2, count(1) AS n#5L]", "city n", Unsure()),
    ("dropDuplicates of all", "Deduplicate [id#1L, city#2, price#3L]", "id city price", Unsure()),
    (
        "a column of now",
        "Project [id#1L, date_format(now(), y, Some(UTC)) AS at#6]",
        "id at",
        Unsure(("now",), ("at",)),
    ),
    (
        "one that goes up through others",
        "Project [at#7 AS made#8, id#1L]\n+- Project [id#1L, (at#6 + 1) AS at#7]\n+- Project [id#1L, rand(3) AS at#6]",
        "made id",
        Unsure(("rand",), ("made",)),
    ),
    (
        "a column of now beside groups",
        "Aggregate [city#2], [city#2, current_timestamp() AS at#6]",
        "city at",
        Unsure(("current_timestamp",), ("at",)),
    ),
    ("a filter by now", "Filter (price#3L > now())", "id city price", Unsure(("now",), rows=ANY)),
    (
        "a filter by such a column",
        "Project [id#1L]\n+- Filter (r#6 > 1)\n+- Project [id#1L, rand(3) AS r#6]",
        "id",
        Unsure(("rand",), rows=ANY),
    ),
    ("groups by such a column", "Aggregate [rand(3)], [count(1) AS n#5L]", "n", Unsure(("rand",), rows=ANY)),
    ("distinct rows of it", "Distinct\n+- Project [rand(3) AS r#6]", "r", Unsure(("rand",), rows=ANY)),
    (
        "a list of all",
        "Aggregate [collect_list(id#1L, 0, 0) AS ids#6]",
        "ids",
        Unsure(("collect_list",), (), ("ids",)),
    ),
    ("a limit", "GlobalLimit 3\n+- LocalLimit 3", "id city price", Unsure(("limit",), rows=SAME)),
    (
        "a limit below a filter",
        "Filter (id#1L > 2)\n+- GlobalLimit 3\n+- LocalLimit 3",
        "id city price",
        Unsure(("limit",), rows=ANY),
    ),
    ("a sample", "Sample 0.0, 0.5, false, 7", "id city price", Unsure(("sample",), rows=ANY)),
    ("dropDuplicates", "Deduplicate [city#2]", "id city price", Unsure(("dropDuplicates",), rows=SAME)),
    (
        "the first of each group",
        "Project [id#1L]\n+- Filter (rn#6 = 1)\n"
        "+- Window [row_number() windowspecdefinition(city#2, specifiedwindowframe(RowFrame, unboundedpreceding$(), "
        "currentrow$())) AS rn#6], [city#2], [price#3L ASC NULLS FIRST]",
        "id",
        Unsure(("row_number",), rows=SAME),
    ),
    (
        "ranks",
        "Project [id#1L, r#6]\n+- Window [rank(price#3L) windowspecdefinition(city#2, specifiedwindowframe(RowFrame, "
        "unboundedpreceding$(), currentrow$())) AS r#6], [city#2], [price#3L ASC NULLS FIRST]",
        "id r",
        Unsure(),
    ),
    (
        "such a column in a common table expression",
        "WithCTE\n:- CTERelationDef 0, false\n:  +- Project [rand(3) AS r#6]\n+- CTERelationRef 0, true, [r#9]",
        "r",
        Unsure(("rand",), rows=ANY),
    ),
]


@pytest.mark.parametrize(("plan", "columns", "found"), [p[1:] for p in PLANS], ids=[p[0] for p in PLANS])
def test_what_makes_two_runs_differ_is_named(plan: str, columns: str, found: Unsure) -> None:
    text = f"== Analyzed Logical Plan ==\nnow(): bigint\n{plan}\n+- {READ}\n"
    assert unsure(text, columns.split()) == found


def test_a_function_of_python_is_named_where_it_is_declared_so() -> None:
    text = f"== Analyzed Logical Plan ==\nr: double\nProject [<lambda>()#5 AS r#6]\n+- {READ}\n"
    assert unsure(text, ["r"]) == Unsure()
    assert unsure(text, ["r"], foreign={"<lambda>"}) == Unsure(("<lambda>",), ("r",))


@pytest.mark.parametrize(
    ("steps", "names"),
    [
        (["Project [id#1, current_timestamp() AS at#5]"], ()),
        (["Filter (rand(7) < 0.1)"], ("rand",)),
        (["~Filter (id#1 > 0)", "~Project [id#1, uuid(Some(1)) AS u#5]"], ()),
        (["~Filter (u#5 > a)", "~Project [id#1, uuid(Some(1)) AS u#5]"], ("uuid",)),
        (["~Filter (ts#2 > current_timestamp() - INTERVAL '1' DAY)"], ("current_timestamp",)),
        (["~Sample 0.0, 0.1, false, 42"], ("sample",)),
        (["~Deduplicate [id#1, at#5]", "~Project [id#1, now() AS at#5]"], ("now",)),
        (["~Deduplicate [at#5]", "~Project [id#1, ts#2, now() AS at#5]"], ("now",)),
        (["~Deduplicate [id#1]", "~EventTimeWatermark 7b68, ts#2: timestamp, 1 minutes"], ()),
    ],
)
def test_a_query_that_chooses_its_rows_by_chance_yields_another_number_of_them(
    steps: list[str], names: tuple[str, ...]
) -> None:
    plan = "\n+- ".join([*steps, "StreamingRelation FileSource[/in], [id#1, ts#2]"])
    explained = f"== Analyzed Logical Plan ==\nid: int\n{plan}\n"
    assert by_chance(explained) == names
