"""repair: offered before any reset where it suffices, blocked with the reason where it does not."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.file_layout import Layout
from recovery.checkpoints.findings import finding
from recovery.checkpoints.held import HeldState
from recovery.checkpoints.repair import RepairPlan, UnrepairedDamage
from recovery.checkpoints.report import Finding, Outcome, Severity, StateOperator
from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.option import BlockerCode, Option
from recovery.contracts.readers import NO_READER, SourceReader
from recovery.contracts.steps import DamageMending
from recovery.strategies.base import CodeFacts, Counts, Facts
from recovery.strategies.catalogue import judge_all
from tests.unit.strategies.facts import WITH, checkpoint, facts, keeping

LOST = Finding(
    "METADATA_MISSING", Severity.BLOCKER, "The file metadata is missing.", "Repair it.", "metadata"
)
MENDED = DamageMending(
    code="METADATA_MISSING",
    file="metadata",
    says="The file metadata is missing.",
    how="Written with a new query id.",
)
CODE = CodeFacts({"/p/q.py": WITH}, ("dedupe",), sources=(SourceReader(path="/in"),), key=("customer_id",))
COUNTS = Counts(table=12, processed=12, waiting=8, everything=20, fresh_waiting=7)


def plan(**changes: Any) -> RepairPlan:
    before = checkpoint(query_id=None, findings=(LOST,), last_planned=2)
    values: dict[str, Any] = {
        "from_version": 0,
        "batch": 2,
        "offsets": ('{"logOffset":2}',),
        "fingerprint": before.fingerprint,
        "location": "/ck/flow",
        "mendings": (MENDED,),
        "left": (),
        "before": before,
        "after": checkpoint(query_id="q-2", last_planned=2),
        "layout": Layout(),
    }
    return RepairPlan(**{**values, **changes})


def damaged(**changes: Any) -> Facts:
    made = changes.pop("repair", plan())
    values = {"code": CODE, "new_code": CODE, "old_code": CODE, "counts": COUNTS, "old_counts": COUNTS}
    return facts(checkpoint=made.before, repair=made, **{**values, **changes})


def options(given: Facts) -> dict[str, Option]:
    return {o.strategy: o for o in judge_all(given)}


@pytest.mark.parametrize(
    ("entries", "bound", "doubled"),
    [(12, Bound.EXACT, 0), (5, Bound.AT_MOST, 1), (None, Bound.AT_MOST, 1)],
    ids=["all of the table", "of a part of it", "not counted"],
)
def test_keys_that_no_file_shows_are_those_that_were_counted_in_the_state(
    entries: int | None, bound: Bound, doubled: int
) -> None:
    """As of Spark's default state store."""
    unshown = checkpoint(state_operators=(StateOperator(0, "dedupe", 2),))
    given = facts(checkpoint=unshown, old_counts=COUNTS, held=(HeldState(0, "dedupe", 3, entries),))
    forecast = options(given)["revert"].forecast
    assert (forecast.doubled.rows, forecast.doubled.bound) == (doubled, bound)


@pytest.mark.parametrize(
    ("keys", "bound", "doubled", "new_rows"),
    [(12, Bound.EXACT, 0, 7), (5, Bound.AT_MOST, 1, None)],
    ids=["all of the table", "of a part of it"],
)
def test_a_row_of_a_key_that_the_state_does_not_hold_may_come_twice(
    keys: int, bound: Bound, doubled: int, new_rows: int | None
) -> None:
    """As after *prime*, whose state began empty behind the table's rows."""
    after = replace(keeping(keys), query_id="q-2", last_planned=2)
    found = (
        options(damaged(repair=plan(after=after)))["repair"],
        options(facts(checkpoint=keeping(keys), old_counts=COUNTS))["revert"],
    )
    for option in found:
        forecast = option.forecast
        assert (forecast.doubled.rows, forecast.doubled.bound) == (doubled, bound)
        assert forecast.new_rows == new_rows
        assert f"{keys} keys" in forecast.state


def test_the_rows_of_a_table_tell_nothing_of_keys_where_the_code_makes_several_of_one() -> None:
    code, counts = replace(CODE, is_row_per_key=False), replace(COUNTS, fresh_waiting=None)
    given = facts(checkpoint=keeping(5), old_code=code, old_counts=counts)
    doubled = options(given)["revert"].forecast.doubled
    assert (doubled.rows, doubled.bound) == (0, Bound.EXACT)


def test_repair_is_recommended_before_any_reset_and_loses_doubles_and_rereads_nothing() -> None:
    found = options(damaged())
    option = found["repair"]
    assert [name for name, o in found.items() if o.recommended] == ["repair"]
    forecast = option.forecast
    assert (forecast.lost.rows, forecast.doubled.rows, forecast.reread.rows) == (0, 0, 0)
    assert all(a.exact and a.why for a in (forecast.lost, forecast.doubled, forecast.reread))
    assert (forecast.new_rows, forecast.table_after) == (7, 19)
    assert forecast.state == "Kept: dropDuplicates"
    assert [s.kind for s in option.steps] == ["stop", "backup", "seed", "rerun", "verify"]
    assert {c.code for c in option.criteria} == {c.code for c in found["continue"].criteria}
    assert "Written with a new query id." in [f.do for f in option.findings]


def test_nothing_damaged_means_nothing_to_repair_and_continue_is_recommended() -> None:
    found = options(facts())
    assert "nothing to repair" in (found["repair"].blocked or "")
    assert found["continue"].recommended


def test_state_files_that_were_not_read_are_not_taken_for_whole() -> None:
    found = Finding("STATE_UNREAD", Severity.WARNING, "Not read.", "Read them.", outcome=Outcome.OPEN)
    blocker = options(facts(checkpoint=checkpoint(findings=(found,))))["repair"].blocker
    assert blocker is not None
    assert blocker.code is BlockerCode.STATE_UNREAD


INFERRED = codec.change(MENDED, code="SOURCE_LOG_HEADER_ONLY", exact=False)
STAYS = UnrepairedDamage("STATE_MISSING", "state/0", "The state of operator 0 is missing.", "Put it back.")
SILENT = checkpoint(findings=(replace(LOST, code="OPERATOR_METADATA_MISSING", severity=Severity.WARNING),))
PLAIN = CodeFacts({"/p/q.py": ""}, (), sources=(SourceReader(path="/in"),))

BLOCKS: list[tuple[str, dict[str, Any], str]] = [
    ("damage stays", {"repair": plan(left=(STAYS,))}, "The state of operator 0 is missing. Put it back."),
    ("only a warning", {"repair": plan(before=SILENT)}, "does not stop Spark"),
    (
        "other operators",
        {"new_code": PLAIN},
        "no stateful step, the checkpoint holds state of dropDuplicates",
    ),
    ("other sources", {"new_code": replace(CODE, sources=(NO_READER, NO_READER))}, "the code has 2"),
    ("code not read", {"new_code": CodeFacts({}, None, "line 3")}, "line 3"),
    ("running", {"active_update": "u-9"}, "stop the pipeline first"),
    (
        "inferred, not counted",
        {"repair": plan(mendings=(INFERRED,)), "counts": Counts()},
        "were not counted",
    ),
    (
        "inferred, not confirmed",
        {"repair": plan(mendings=(INFERRED,)), "counts": replace(COUNTS, processed=11)},
        "those files yield 11 rows, the table holds 12",
    ),
]


@pytest.mark.parametrize(("changes", "words"), [b[1:] for b in BLOCKS], ids=[b[0] for b in BLOCKS])
def test_repair_that_cannot_run_says_why(changes: dict[str, Any], words: str) -> None:
    option = options(damaged(**changes))["repair"]
    assert words in (option.blocked or "")
    assert not option.recommended


def test_an_inferred_mending_may_run_and_promises_nothing_however_many_rows_are_equal() -> None:
    """A file that came later with an older time, and as many rows, would look the same."""
    found = options(damaged(repair=plan(mendings=(INFERRED,))))
    option = found["repair"]
    assert (option.blocked, option.recommended) == (None, False)
    forecast = option.forecast
    assert [(a.rows, a.exact) for a in (forecast.lost, forecast.doubled)] == [(None, False)] * 2
    assert forecast.new_rows is None
    (rows,) = [c.expected for c in option.criteria if c.code == "EVERY_ROW_ONCE"]
    assert rows.inferred == ("metadata",)
    assert [f.severity for f in option.findings if f.do == INFERRED.how] == [Severity.WARNING]
    again = found["full-refresh"].forecast
    assert not again.lost.exact
    assert not again.doubled.exact


GO_BACK = ", go back to batch 1"
GONE = finding("STATE_FILE_MISSING", "state/0/0/3.delta", operator=0, version=3, back=GO_BACK)


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize(("strategy", "code"), [
    ("repair", BlockerCode.NOT_MENDABLE), ("revert", BlockerCode.CHECKPOINT_DAMAGED),
])  # fmt: skip
def test_a_way_that_lost_state_blocks_sends_no_program_back_to_a_batch(
    strategy: str, code: BlockerCode, *, is_plain: bool
) -> None:
    lost = checkpoint(findings=(GONE,), last_planned=2)
    left = UnrepairedDamage(GONE.code, GONE.file, GONE.says, GONE.do, True)
    given = damaged(repair=plan(before=lost, after=lost, mendings=(), left=(left,)), is_plain=is_plain)
    option = options(given)[strategy]
    assert (option.blocker and option.blocker.code, GONE.do in str(option.blocked)) == (code, not is_plain)
    assert (GO_BACK in str(option.blocked)) is not is_plain
