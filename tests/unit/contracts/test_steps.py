"""What a step is told is one value a kind, and is stored and sealed with the keys that are set, and no others."""

from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.names import StepKind
from recovery.contracts.steps import (
    DeduplicateArgs,
    FillArgs,
    NoArgs,
    PlannedStep,
    RestoreArgs,
    SeedArgs,
    UpdateArgs,
)
from recovery.contracts.value import Value
from tests.unit.contracts import kept
from tests.unit.contracts.test_plan import RECORDED, recorded

ARGS: dict[str, type[Value]] = {
    StepKind.RERUN: UpdateArgs,
    StepKind.REFRESH: UpdateArgs,
    StepKind.SEED: SeedArgs,
}
SEALED = [*map(recorded, RECORDED), *(body for _, body in kept.plans())]
START = {"index": 0, "old": 0, "offset_json": "{}", "again": [], "skip": [], "name": None}
MENDING = {"code": "C", "file": "commits/2", "says": "", "how": "", "exact": True}
TOLD: list[tuple[type[Value], dict[str, Any]]] = [
    (UpdateArgs, {"refresh": [], "reset": ["f"]}),
    (UpdateArgs, {"full_refresh": ["c.s.t"]}),
    (FillArgs, {}),
    (FillArgs, {"rows_of": "input", "rows": 2}),
    (DeduplicateArgs, {"rows": 3}),
    (SeedArgs, {"last_committed": None, "from_version": None}),
    (SeedArgs, {"last_committed": 2, "from_version": 0, "starts": [START], "state": "rebuild"}),
    (SeedArgs, {"last_committed": 2, "from_version": 0, "state": "prime", "watermark_ms": None}),
    (
        SeedArgs,
        {"action": "repair", "last_committed": 2, "from_version": 0, "offsets": [None, "{}"], "query_id": None,
         "operators": ["dedupe"], "mendings": [MENDING]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "args", "value"),
    [
        ("seed", {"last_committed": None}, SeedArgs(last_committed=None)),
        ("rerun", {}, NoArgs()),
        ("stop", {}, NoArgs()),
        ("fill", {"rows": 2}, FillArgs(rows=2)),
    ],
)
def test_a_step_has_the_arguments_of_its_kind_and_is_written_as_it_was_read(
    kind: str, args: dict[str, Any], value: Value
) -> None:
    stored = {"kind": kind, "says": "", "args": args}
    step = codec.read(PlannedStep, stored)
    assert (step.args, codec.to_json(step)) == (value, stored)


@pytest.mark.parametrize(
    ("kind", "args"), [("stop", {"rows": 2}), ("fill", {"refresh": []}), ("seed", {"rows": 2})]
)
def test_arguments_of_another_kind_of_step_are_refused(kind: str, args: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="args"):
        codec.read(PlannedStep, {"kind": kind, "says": "", "args": args})


def test_a_step_without_arguments_has_the_defaults_of_its_kind_where_there_are_any() -> None:
    step = PlannedStep(kind=StepKind.FILL, says="")
    assert step.args_as(FillArgs) == FillArgs()
    with pytest.raises(ValueError, match="RestoreArgs"):
        step.args_as(RestoreArgs)


def test_sealed_arguments_go_through_their_value_to_the_same_json() -> None:
    steps = [step for body in SEALED for step in body["steps"] if step["kind"] in ARGS]
    assert {step["kind"] for step in steps} == set(ARGS)
    for step in steps:
        assert codec.to_read_json(codec.read(ARGS[step["kind"]], step["args"])) == step["args"]


@pytest.mark.parametrize(("kind", "told"), TOLD)
def test_arguments_are_stored_with_the_keys_that_are_set_in_their_order(
    kind: type[Value], told: dict[str, Any]
) -> None:
    assert [*codec.to_read_json(codec.read(kind, told)).items()] == [*told.items()]


@pytest.mark.parametrize(
    ("args", "is_reset"),
    [
        ({"refresh": ["t"]}, False),
        ({"refresh": [], "reset": ["f"]}, True),
        ({"full_refresh": ["t"]}, True),
        ({}, False),
    ],
)
def test_an_update_that_empties_a_table_or_a_checkpoint_is_a_reset(
    args: dict[str, Any], is_reset: bool
) -> None:
    assert codec.read(UpdateArgs, args).is_reset is is_reset


@pytest.mark.parametrize(
    ("kind", "told"),
    [(UpdateArgs, {"refresh": "t"}), (UpdateArgs, {"tables": []}), (SeedArgs, {"action": "guess"}),
     (SeedArgs, {"last_committed": "2"})],
)  # fmt: skip
def test_what_is_no_argument_is_refused(kind: type[Value], told: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=kind.__name__):
        codec.read(kind, told)
