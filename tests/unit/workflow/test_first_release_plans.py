"""A plan of the first release did not note what it reads: it is void before a step acts on it."""

from types import SimpleNamespace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.workflow.steps import stop
from recovery.workflow.steps.base import PlanVoid
from tests.unit.contracts import kept


@pytest.mark.parametrize("body", [body for _, body in kept.plans()], ids=["postgresql", "sqlite"])
def test_a_plan_without_inputs_is_void_before_anything_is_read(body: dict[str, Any]) -> None:
    context: Any = SimpleNamespace(step=SimpleNamespace(plan=body), contents=codec.read_plan(body))
    with pytest.raises(PlanVoid) as void:
        stop.run(context)
    assert [drift.what for drift in void.value.drift] == ["plan"]
