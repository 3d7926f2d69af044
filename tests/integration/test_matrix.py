"""Forecast equals outcome, in a choice of cells that performs each strategy; tests/matrix has them all."""

from collections.abc import Iterator

import pytest

from tests.kafka import KafkaBroker
from tests.matrix import room
from tests.matrix.cells import CHOSEN, COLUMNS, Bench, Cell, named

pytestmark = pytest.mark.spark

RIGHT = {"equal", "bounded", "blocked", "untold"}


@pytest.fixture(scope="module")
def bench(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with room.running() as spark:
        yield Bench(spark, kafka, tmp_path_factory.mktemp("matrix"))


@pytest.fixture(scope="module")
def ran() -> dict[str, Cell]:
    """The cells that were run, for the last test."""
    return {}


@pytest.mark.parametrize("cell", [named(*key) for key in CHOSEN], ids=lambda cell: cell.name)
def test_what_was_forecast_is_what_spark_then_does(bench: Bench, ran: dict[str, Cell], cell: Cell) -> None:
    bench.run(cell, CHOSEN[cell.key])
    ran[cell.name] = cell
    verdicts = {column: cell.results[column].verdict for column in CHOSEN[cell.key]}
    assert "blocked" not in verdicts.values(), f"a strategy to perform is blocked: {verdicts}"
    wrong = {c: r.differences or r.says for c, r in cell.results.items() if r.verdict not in RIGHT}
    assert not wrong, wrong


def test_every_strategy_was_run_somewhere(ran: dict[str, Cell]) -> None:
    if len(ran) < len(CHOSEN):
        pytest.fail("Not every cell was run before.")
    verdicts = [r.verdict for cell in ran.values() for r in cell.results.values()]
    assert verdicts.count("equal") >= 8
    came = {c for cell in ran.values() for c, r in cell.results.items() if r.verdict != "blocked"}
    assert came >= {*COLUMNS} - {
        "rebuild",
        "rewind",
        "facts",
    }  # test_rebuild and test_rewind_on_spark perform them
