"""Spark's own plan text gives operators by checkpoint name, dedupe columns and the order of sources."""

import pytest

from recovery.spark.explained import (
    OPERATORS,
    besides,
    by_batch,
    computed_anew,
    computed_columns,
    dedupe_columns,
    file_facts,
    has_watermark,
    keeps_key,
    makes_row_per_key,
    operators,
    reads_by_file,
    relations,
    scanned_bytes,
    section,
)

DEDUPE = """== Parsed Logical Plan ==
~Deduplicate [id#15, k#16]
+- ~Union false, false
   :- StreamingRelation FileSource[/in/a], [id#15, k#16], name=<Unassigned>
   +- StreamingRelation FileSource[/in/b], [id#19, k#20], name=<Unassigned>

== Analyzed Logical Plan ==
id: int, k: string
~Deduplicate [id#15, k#16]
+- ~EventTimeWatermark 7b68, ts#18: timestamp, 1 minutes
   +- ~Union false, false
      :- StreamingRelation FileSource[/in/a], [id#15, k#16], name=<Unassigned>
      :- StreamingRelation FileSource[/in/[odd], name], [id#15, k#16], name=<Unassigned>
      :- StreamingRelation FileSource[/in/a], [id#15, k#16], name=<Unassigned>
      +- StreamingRelation FileSource[/in/b], [id#19, k#20], name=<Unassigned>

== Optimized Logical Plan ==
~Deduplicate [id#15, k#16]

== Physical Plan ==
StreamingDeduplicate [id#15, odd, name#16L, ts#18-T60000ms], state info [ checkpoint = <unknown>, runId = 93 ], 0
+- Exchange hashpartitioning(id#15, k#16, 4), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=41]
   +- *(2) Union
      :- StreamingRelation FileSource[/in/a], [id#15, k#16]
"""
AGGREGATE = """== Physical Plan ==
*(4) HashAggregate(keys=[k#16], functions=[count(1)], output=[k#16, count(1)#30L])
+- StateStoreSave [k#16], state info [ checkpoint = <unknown> ], Append, 2
   +- *(3) HashAggregate(keys=[k#16], functions=[merge_count(1)], output=[k#16, count#32L])
      +- StateStoreRestore [k#16], state info [ checkpoint = <unknown> ], 2
         +- StreamingDeduplicateWithinWatermark [a b#1], state info [ x ]
"""


def test_operators_are_read_from_the_physical_plan_outermost_first() -> None:
    assert operators(DEDUPE) == ("dedupe",)
    assert operators(AGGREGATE) == ("stateStoreSave", "dedupeWithinWatermark")


@pytest.mark.parametrize(("node", "name"), OPERATORS.items())
def test_every_stateful_node_has_its_checkpoint_name(node: str, name: str) -> None:
    plan = f"== Physical Plan ==\n*(2) Project [x]\n:  +- {node} [a#1], state info [ x ]\n"
    assert operators(plan) == (name,)


INFO = "state info [ checkpoint = <unknown>, opId = 0, numPartitions = 1] stateStoreCkptIds = None"
OWN = [
    (
        "!FlatMapGroupsInPandasWithState keep(id#7L)#13, [id#7L], [id#14L], [StructField(k,LongType,true)], "
        f"{INFO}, 2, Append, EventTimeTimeout, 0, -9, -9, false",
        "applyInPandasWithState",
    ),
    (
        f"!TransformWithStateInPySpark f(id#4L)#5, [id#4L], [id#6L], Append, EventTime, {INFO}, 0, -9, pandas, true",
        "transformWithStateInPandasExec",
    ),
    (
        f"*(2) !TransformWithStateInPySpark f(id#4L)#5, [id#4L], [id#6L], Append, None, {INFO}, 0, python_row, true",
        "transformWithStateInPySparkExec",
    ),
]


@pytest.mark.parametrize(("line", "name"), OWN, ids=[name for _, name in OWN])
def test_steps_of_people_s_own_code_are_seen_as_spark_marks_them(line: str, name: str) -> None:
    """What a function of Python reads is no column of the step below it, so that Spark marks the line."""
    assert operators(f"== Physical Plan ==\n{line}\n+- Scan\n") == (name,)


def test_a_plan_without_state_has_no_operator() -> None:
    text = "== Physical Plan ==\n*(1) Project [id#1 AS StateStoreSave#2]\n+- Scan\n"
    assert (operators(text), dedupe_columns(text)) == ((), None)


def test_columns_of_the_outermost_drop_duplicates() -> None:
    assert dedupe_columns(DEDUPE) == ("id", "odd, name", "ts")
    assert dedupe_columns(AGGREGATE) == ()  # of dropDuplicatesWithinWatermark, whose keys come again
    within = DEDUPE.replace("StreamingDeduplicate ", "StreamingDeduplicateWithinWatermark ")
    assert within != DEDUPE
    assert dedupe_columns(within) == ()


def test_sources_come_left_to_right_and_a_shared_relation_is_told_by_its_columns() -> None:
    found = relations(DEDUPE)
    assert [r.path for r in found] == ["/in/a", "/in/[odd], name", "/in/a", "/in/b"]
    assert {r.kind for r in found} == {"files"}
    assert found[0] == found[2]


MIXED = """== Analyzed Logical Plan ==
id: bigint
~Union false, false
:- ~Project [cast(value#430 as bigint) AS id#452L]
:  +- ~StreamingRelationV2 org.x.KafkaSourceProvider@51d, kafka, org.x.KafkaTable@233, [subscribe=a, b], [key#429], \
StreamingRelation kafka, [key#422], name=<Unassigned>, name=<Unassigned>
:- StreamingRelation FileSource[/in/a], [id#453L], name=<Unassigned>
+- ~SubqueryAlias spark_catalog.default.dt
   +- StreamingRelation delta, [id#457L], name=<Unassigned>
""".replace("\\\n", "")


def test_every_kind_of_source_is_seen_in_order() -> None:
    assert [(r.kind, r.path) for r in relations(MIXED)] == [("kafka", ""), ("files", "/in/a"), ("delta", "")]


def test_a_relation_whose_columns_are_on_another_line_is_not_told_apart() -> None:
    torn = "~StreamingRelationV2 org.x.P@5, kafka, org.x.T@2, [jaas=a\nb], [key#4], name=x\n"
    assert relations(f"== Analyzed Logical Plan ==\n{torn}") == ()


def test_a_watermark_is_seen() -> None:
    assert has_watermark(DEDUPE)
    assert not has_watermark(AGGREGATE)


@pytest.mark.parametrize(
    ("step", "known"),
    [
        ("*(1) Filter (id#1 > 1)", True),
        ("Exchange SinglePartition, ENSURE_REQUIREMENTS, [plan_id=8]", False),
        ("BroadcastHashJoin [id#1], [id#9], Inner, BuildRight, false", False),
        ("CartesianProduct", False),
        ("BatchEvalPython [keep(id#1)#4], [pythonUDF0#7]", False),
        ("MapInPandas f(id#1)#4, [id#5], false", False),
        ("Sort [id#1 ASC NULLS FIRST], false, 0", False),
    ],
)
def test_a_row_knows_its_file_where_none_is_read_before_it_comes_out(step: str, known: bool) -> None:
    plan = f"== Physical Plan ==\nAdaptiveSparkPlan isFinalPlan=false\n+- {step}\n   +- FileScan json [Exchange#1]\n"
    assert reads_by_file(plan) is known
    assert not reads_by_file(DEDUPE)


@pytest.mark.parametrize(
    ("step", "names"),
    [
        ("~FlatMapGroupsInPandas [k#2], f(id#1, k#2)#4, [id#5]", ("FlatMapGroupsInPandas",)),
        ("~FlatMapGroupsInArrow [k#2], f(id#1, k#2)#4, [id#5]", ("FlatMapGroupsInArrow",)),
        ("~FlatMapCoGroupsInPandas 1, 1, f(id#1)#4, [id#5]", ("FlatMapCoGroupsInPandas",)),
        ("~FlatMapGroupsInPandasWithState [k#2], f(id#1)#4, [id#5]", ()),
        ("~MapInPandas f(id#1)#4, [id#5], false", ()),
    ],
)
def test_a_function_of_groups_goes_by_the_batches(step: str, names: tuple[str, ...]) -> None:
    plan = f"== Analyzed Logical Plan ==\nid: int\n{step}\n+- StreamingRelation FileSource[/in], [id#1]\n"
    assert by_batch(plan) == names


@pytest.mark.parametrize(
    ("above", "kept"),
    [
        ("Project [id#1, k#2, current_timestamp() AS at#7]", True),
        ("Project [(id#1 % 2) AS id#7, k#2]", False),
        ("Project [k#2 AS ID#7]", False),
        ("Project [id#1, k#2 AS id_2#7]", True),
        ("~Union false, false", False),
        ("~Generate explode(items#3), false, [item#9]", True),
        ("~Generate explode(items#3), false, [k#8, id#9]", False),
        ("~MapInPandas f(id#1, k#2)#4, [id#9, k#10], false", False),
    ],
)
def test_the_key_of_a_drop_duplicates_is_one_of_the_table_where_it_comes_out_as_it_was(
    above: str, kept: bool
) -> None:
    text = (
        f"== Analyzed Logical Plan ==\nid: int, k: string\n{above}\n+- ~Deduplicate [id#1]\n"
        "   +- Project [x#0 AS id#1, k#2]\n      +- StreamingRelation FileSource[/in], [x#0, k#2]\n"
    )
    assert keeps_key(text, ("id",)) is kept


@pytest.mark.parametrize(
    ("above", "is_one"),
    [
        ("Project [id#1]", True),
        ("~Filter (id#1 > 1)", True),
        ("~EventTimeWatermark at#3: timestamp, 1 hours", True),
        ("~Union false, false", False),
        ("~Generate explode(items#3), false, [item#9]", False),
        ("~Deduplicate [k#2]", False),
    ],
)
def test_a_key_that_is_let_through_is_one_row_unless_a_later_step_makes_more(
    above: str, is_one: bool
) -> None:
    text = f"== Analyzed Logical Plan ==\nid: int, k: string\n{above}\n+- ~Deduplicate [id#1]\n"
    assert makes_row_per_key(text) is is_one


def test_a_missing_part_is_empty() -> None:
    assert section("another text", "Physical Plan") == ()


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        ("id#1, _metadata#5.file_path AS file#6", True),
        ("id#1, input_file_name() AS file#6", True),
        ("id#1, user_metadata#5, input_file#7", False),
    ],
)
def test_it_is_seen_whether_a_query_asks_for_facts_of_its_files(columns: str, asked: bool) -> None:
    text = (
        f"== Analyzed Logical Plan ==\nProject [{columns}]\n+- StreamingRelation FileSource[/in/a], [id#1]\n"
    )
    assert file_facts(text) == asked


@pytest.mark.parametrize(
    ("columns", "anew"),
    [
        ("id#1, current_timestamp() AS at#2", ("current_timestamp",)),
        ("uuid(Some(7)) AS a#2, rand(-12) AS b#3", ("rand", "uuid")),
        ("current_date(Some(Etc/UTC)) AS day#2", ("current_date",)),
        ("monotonically_increasing_id() AS n#2", ("monotonically_increasing_id",)),
        ("to_json(struct(id, id#1), Some(Etc/UTC)) AS value#2, brand(3) AS b#3, current_price#4", ()),
    ],
)
def test_functions_whose_value_differs_at_every_run_are_seen(columns: str, anew: tuple[str, ...]) -> None:
    """The line of the columns' names comes first, and names what an alias was given."""
    text = f"== Analyzed Logical Plan ==\nnow(): timestamp\nProject [{columns}]\n+- StreamingRelation kafka, [id#1]\n"
    assert computed_anew(text) == anew


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("Project [id#1]\n+- StreamingRelation FileSource[/in/a], [id#1]", ()),
        ("Deduplicate [id#1]\n+- Filter (id#1 > 1)\n   +- StreamingRelation kafka, [id#1]", ()),
        (
            "Join LeftOuter, (id#1 = id#2)\n:- StreamingRelation kafka, [id#1]\n"
            "+- SubqueryAlias prices\n   +- Relation spark_catalog.shop.prices[id#2] parquet",
            ("Relation",),
        ),
        ("Union\n:- StreamingRelation kafka, [id#1]\n+- LocalRelation [id#2]", ("LocalRelation",)),
        ("Union\n:- StreamingRelation kafka, [id#1]\n+- RelationV2[id#2] c.s.t", ("RelationV2",)),
        ("Project [id#1, f(id#1)#9 AS f#3]\n+- StreamingRelation kafka, [id#1]", (")#9",)),
        ("Project [UDF(id#1) AS f#3]\n+- StreamingRelation kafka, [id#1]", ("UDF(",)),
        ("Project [rand(5) AS f#3]\n+- StreamingRelation kafka, [id#1]", ("rand(",)),
        ("Filter (at#1 < now())\n+- StreamingRelation kafka, [at#1]", ("now(",)),
        ("MapInPandas f(id#1)#2, [id#3]\n+- StreamingRelation kafka, [id#1]", (")#2", "MapInPandas")),
        (
            "Filter (id#1 > scalar-subquery#7 [])\n:  +- Aggregate [max(id#2) AS m#3]\n"
            ":     +- Relation c.s.t[id#2] parquet\n+- StreamingRelation kafka, [id#1]",
            ("Relation",),
        ),
    ],
    ids=[
        "a projection",
        "a deduplication",
        "a static table",
        "rows of its own",
        "a table of another catalog",
        "a Python function",
        "a Java function",
        "chance",
        "the time",
        "a pandas function",
        "a table in a condition",
    ],
)
def test_what_a_query_rests_on_beside_its_streams(lines: str, named: tuple[str, ...]) -> None:
    plan = f"== Analyzed Logical Plan ==\nid: bigint\n{lines}\n"
    assert besides(plan) == named


def test_of_a_query_without_a_plan_nothing_is_known() -> None:
    assert besides("") == ("no plan",)


PLAN = """== Optimized Logical Plan ==
Join LeftSemi, (__hash#4L = __hash#9L), Statistics(sizeInBytes=8.0 EiB)
:- Project [id#0L AS k0#1L], Statistics(sizeInBytes=400.0 B)
:  +- Filter (id#0L >= 4), Statistics(sizeInBytes=1.2 KiB)
:     +- Relation spark_catalog.default.t[id#0L,text#1] parquet, Statistics(sizeInBytes={size})
+- InMemoryRelation [k0#7L], StorageLevel(disk, memory, deserialized, 1 replicas), Statistics(sizeInBytes=80.0 B)

== Physical Plan ==
Relation of no plan, Statistics(sizeInBytes=9.0 B)
"""


@pytest.mark.parametrize(
    ("size", "told"),
    [("912.0 B", 912), ("1.5 KiB", 1536), ("6.00E+1 GiB", 60 << 30), ("8.0 EiB", None)],
)
def test_a_plan_tells_the_bytes_of_the_files_that_it_reads(size: str, told: int | None) -> None:
    assert scanned_bytes(PLAN.format(size=size)) == told


NO_FILE = PLAN.replace("Relation spark_catalog.default.t", "LocalRelation <empty>")


def test_a_plan_that_reads_no_file_reads_no_byte() -> None:
    assert scanned_bytes(NO_FILE.format(size="1.0 B")) == 0


@pytest.mark.parametrize(
    ("item", "computed"),
    [
        ("id#1", ()),
        ("order#5.id AS id#9", ()),
        ("id#1 AS id#9", ()),
        ("upper(v#2) AS id#9", ("id",)),
        ("user_id#2 AS id#9", ("id",)),
        ("cast(id#1 as int) AS ID#9", ("id",)),
        ("upper(v#2) AS other#9", ()),
    ],
)
def test_a_column_is_computed_where_its_name_is_given_to_another_value(
    item: str, computed: tuple[str, ...]
) -> None:
    steps = f"Project [{item}, v#2]\n+- StreamingRelation FileSource[/in], [id#1]\n"
    plan = f"== Analyzed Logical Plan ==\nid: int\n{steps}"
    assert computed_columns(plan, ("id",)) == computed
