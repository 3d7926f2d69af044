"""By what rows are told apart, and by what dropDuplicates lets them through: two questions."""

import pytest

from recovery.spark.api import FROM_CODE, NAMED, WHOLE_ROW
from recovery.spark.code_flow import CodeFlow


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
