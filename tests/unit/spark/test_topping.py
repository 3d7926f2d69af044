"""What a top-up adds, as far as it is decided without Spark."""

from types import SimpleNamespace
from typing import Any

import pytest

from recovery.spark import topping


@pytest.mark.parametrize(
    ("dedupe", "unsettled"), [(None, 0), ((), None)], ids=["none", "its key is made new"]
)
def test_a_drop_duplicates_whose_key_does_not_come_out_settles_no_key(
    dedupe: Any, unsettled: int | None
) -> None:
    flow = SimpleNamespace(dedupe=dedupe, text="")
    assert topping._unsettled(flow, None, None, None, ("id",)) == unsettled  # type: ignore[arg-type]
