"""By what rows are told apart, and by what dropDuplicates lets them through: two questions."""

import pytest

from recovery.spark import answers
from recovery.spark.api import FROM_CODE, NAMED, NO_LIMIT, WHOLE_ROW
from recovery.spark.code_flow import CodeFlow
from recovery.spark.counting import SetCounts


@pytest.mark.parametrize(
    ("dedupe", "named", "key", "own"),
    [
        (("customer_id",), None, (["customer_id"], FROM_CODE), ("customer_id",)),
        (("customer_id",), ["country"], (["country"], NAMED), ("customer_id",)),
        (("_hidden",), None, (["customer_id", "country"], WHOLE_ROW), ()),
        (None, ["country"], (["country"], NAMED), None),
    ],
    ids=["by its own key", "a person names another", "by what it does not yield", "no dropDuplicates"],
)
def test_a_named_key_compares_rows_and_does_not_decide_which_come_through(
    dedupe: tuple[str, ...] | None, named: list[str] | None, key: object, own: object
) -> None:
    flow = CodeFlow.__new__(CodeFlow)  # what Spark said of it, without a session
    flow.columns, flow.dedupe = ["customer_id", "country"], dedupe
    assert flow.key(named) == key
    assert flow.let_through_by == own


PLAN = (
    "== Analyzed Logical Plan ==\nid: int\n{above}~Deduplicate [id#1]\n+- StreamingRelation kafka, [id#1]\n"
)


@pytest.mark.parametrize(
    ("above", "fresh"),
    [
        ("", {"waiting": 3}),
        ("Project [id#1]\n", {"waiting": 3}),
        ("Filter NOT (v#2 = v0)\n", {}),
        ("~Generate explode(items#3), false, [item#9]\n", {}),
    ],
)
def test_the_table_shows_which_keys_the_state_holds_where_every_row_that_came_through_is_in_it_once(
    above: str, fresh: dict[str, int]
) -> None:
    flow = CodeFlow.__new__(CodeFlow)
    flow.columns, flow.dedupe, flow.text = ["id"], ("id",), PLAN.format(above=above)
    counted = SetCounts(
        rows={"waiting": 4}, distinct={"waiting": 4}, repeats={}, fresh={"waiting": 3}, bounded=()
    )

    assert answers._count_fresh_keys(None, flow, {}, ["id"], None, counted, NO_LIMIT) == (fresh, ())
