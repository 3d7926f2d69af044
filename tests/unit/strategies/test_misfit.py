"""No loss is exact where the code writes files beside which those of the table can no longer be read."""

from dataclasses import replace

import pytest

from recovery.contracts.amounts import Bound
from recovery.contracts.measured import TableMisfit
from recovery.contracts.names import EMPTYING
from recovery.strategies.base import Facts
from tests.unit.strategies.facts import facts
from tests.unit.strategies.streams import options

TYPES = TableMisfit(columns=("amount",))
FOLDERS = TableMisfit(after=("day",))
FORMATS = TableMisfit(kinds=("parquet", "orc"))
RETENTION = TableMisfit(retention="1s")


def given(*, new: TableMisfit | None = None, old: TableMisfit | None = None) -> Facts:
    """The facts with what does not fit in the files of either code."""
    plain = facts()
    assert plain.old_code is not None
    old_code, new_code = replace(plain.old_code, misfit=old), replace(plain.new_code, misfit=new)
    return replace(plain, old_code=old_code, new_code=new_code)


@pytest.mark.parametrize(
    "misfit", [TYPES, FOLDERS, FORMATS, RETENTION], ids=["types", "folders", "formats", "retention"]
)
def test_every_strategy_that_keeps_the_files_names_it_and_forecasts_no_exact_loss(
    misfit: TableMisfit,
) -> None:
    for strategy, option in options(given(new=misfit)).items():
        of_new_code = strategy not in (*EMPTYING, "revert")
        assert ("TABLE_MISFIT" in [f.code for f in option.findings]) is of_new_code, strategy
        if of_new_code:
            plain = options(facts())[strategy].forecast.lost
            least = (plain.rows, Bound.AT_LEAST) if plain.rows else (None, Bound.UNKNOWN)
            assert (option.forecast.lost.rows, option.forecast.lost.bound) == least


def test_the_code_that_a_revert_puts_back_is_held_to_its_own_files() -> None:
    for held, named in ((given(new=TYPES), False), (given(old=TYPES), True)):
        option = options(held)["revert"]
        assert ("TABLE_MISFIT" in [f.code for f in option.findings]) is named


def test_code_that_fits_changes_nothing() -> None:
    assert "TABLE_MISFIT" not in [f.code for o in options(facts()).values() for f in o.findings]
