"""Whether what stands downstream agrees with its definition: measured after the refresh, or not known, and said so."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.criteria import Criterion
from recovery.contracts.criterion_values import ExpectedDatasets
from recovery.contracts.measured import MeasuredBelow
from recovery.contracts.refreshed import NotCompared, RefreshedDataset
from recovery.verification.below import downstream_agrees, uncompared
from recovery.verification.judge import judge
from tests.unit.verification.world import World


def after_refresh(dataset: str, **changes: Any) -> RefreshedDataset:
    return RefreshedDataset.model_validate({"dataset": dataset, "status": "COMPLETED", **changes})


def changed(of: RefreshedDataset, **changes: Any) -> RefreshedDataset:
    """The same dataset, judged by other numbers."""
    return RefreshedDataset.model_validate({**of.model_dump(exclude={"agrees"}), **changes})


WELL = after_refresh("c.s.view", compared=True, rows=9, expected_rows=9, missing=0, extra=0)
COPY = after_refresh("c.s.copy", compared=True, rows=20, expected_rows=20, missing=0, extra=0, view=False)
NAMES = ("c.s.view", "c.s.copy")
EXPECTED = ExpectedDatasets(datasets=NAMES, compared=NAMES)
UNCOMPARED = ExpectedDatasets(datasets=NAMES)


@pytest.mark.parametrize(
    ("refreshed", "ok"),
    [
        pytest.param((WELL, COPY), True, id="all well"),
        pytest.param(None, None, id="the refresh was skipped"),
        pytest.param((COPY,), False, id="nobody says that it was refreshed"),
        pytest.param((changed(WELL, status="FAILED"), COPY), False, id="it failed"),
        pytest.param((changed(WELL, status="EXCLUDED"), COPY), False, id="it was left out after all"),
        pytest.param((WELL, changed(COPY, status="")), False, id="a table was not reached"),
        pytest.param((changed(WELL, rows=0, missing=9), COPY), False, id="it is empty"),
        pytest.param((changed(WELL, missing=1, extra=1), COPY), False, id="other rows"),
        pytest.param(
            (changed(WELL, missing=1, extra=1, unsure=("rand",)), COPY), None, id="rows differ by themselves"
        ),
        pytest.param(
            (changed(WELL, rows=8, missing=1, unsure=("double",)), COPY), False, id="but not in number"
        ),
        pytest.param(
            (changed(WELL, rows=8, missing=1, unsure=("rand",), rows_unsure=True), COPY),
            None,
            id="in number too",
        ),
        pytest.param(
            (after_refresh("c.s.view", compared=True, problem="Spark was away."), COPY), None, id="not compared"
        ),
        pytest.param(
            (WELL, changed(COPY, rows=21, extra=1)), None, id="a stream's table may hold rows of older code"
        ),
        pytest.param(
            (WELL, after_refresh("c.s.copy", compared=True, problem="Its rows depend on state.", view=False)),
            None,
            id="a stream's table that no read computes",
        ),
    ],
)  # fmt: skip
def test_what_the_refresh_made_of_the_datasets_below(
    refreshed: tuple[RefreshedDataset, ...] | None, ok: bool | None
) -> None:
    assert downstream_agrees(EXPECTED, refreshed).ok is ok


SQL = after_refresh("c.s.sql", not_compared=NotCompared.DEFINED_IN_SQL)
STREAM = after_refresh("c.s.copy", not_compared=NotCompared.READS_STREAM)
BEFORE = after_refresh("c.s.copy")


def test_a_plan_of_an_earlier_version_is_judged_by_what_it_said() -> None:
    assert downstream_agrees(UNCOMPARED, (changed(SQL, dataset="c.s.view"), STREAM)).ok is True


@pytest.mark.parametrize(
    ("refreshed", "left"),
    [
        pytest.param((WELL,), {}, id="each was compared"),
        pytest.param((WELL, SQL), {"c.s.sql": "defined_in_sql"}, id="a view defined in SQL"),
        pytest.param((STREAM,), {"c.s.copy": "reads_stream"}, id="nothing was compared"),
        pytest.param((BEFORE,), {"c.s.copy": ""}, id="why was not noted"),
        pytest.param(
            (changed(STREAM, status="FAILED"),), {}, id="not refreshed is worse, and named by the criterion"
        ),
    ],
)
def test_what_was_refreshed_and_not_compared_is_named_by_a_proof_that_holds(
    refreshed: tuple[RefreshedDataset, ...], left: dict[str, str]
) -> None:
    measured = codec.read(MeasuredBelow, codec.to_json(MeasuredBelow(downstream=refreshed)))
    assert {one.dataset: one.why.value for one in uncompared(measured)} == left
    assert uncompared(None) == ()


def test_a_dataset_of_before_codes_were_noted_is_named_too() -> None:
    stored = {"dataset": "c.s.copy", "status": "COMPLETED", "compared": False}
    assert [one.dataset for one in uncompared(below(stored))] == ["c.s.copy"]
    later = {**stored, "not_compared": "of_a_later_version"}
    assert [one.why for one in uncompared(below(later))] == [NotCompared.NONE]


def below(*stored: dict[str, object]) -> MeasuredBelow:
    return codec.read(MeasuredBelow, {"downstream": stored})


@pytest.mark.parametrize(
    ("noted", "agrees"), [({}, False), ({"agrees": None}, None), ({"agrees": True}, True)]
)
def test_whether_a_dataset_agreed_is_read_as_it_was_judged_then(
    noted: dict[str, object], agrees: bool | None
) -> None:
    counted = {"rows": 8, "expected_rows": 9, "missing": 1, "extra": 0}
    (read,) = below({"dataset": "c.s.view", "status": "COMPLETED", **counted, **noted}).downstream
    assert read.agrees is agrees
    assert codec.read(RefreshedDataset, codec.to_json(read)) == read


@pytest.mark.parametrize(("rows", "verified"), [(9, True), (0, False)])
def test_a_recovery_is_not_proven_over_a_view_that_is_wrong(rows: int, verified: bool) -> None:
    world = World()
    view = changed(WELL, rows=rows, missing=9 - rows)
    planned = [*world.criteria(), Criterion(code="DOWNSTREAM_AGREES", says="", expected=EXPECTED)]
    evidence = replace(world.evidence(), below=(view, COPY))
    assert judge("continue", planned, evidence).verified is verified
