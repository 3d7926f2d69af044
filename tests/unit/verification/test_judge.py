"""A verdict is green only over a whole recovery; whatever is lost, doubled or unmeasured turns it red."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoints.report import Entries, SourceEntry
from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.criteria import Criterion
from recovery.contracts.criterion_values import (
    ExpectedFiles,
    ExpectedGrowth,
    ExpectedOthers,
    MeasuredFiles,
    MeasuredGrowth,
    MeasuredOthers,
)
from recovery.contracts.measured import JudgedCriterion
from recovery.spark.api import RowValues
from recovery.verification.checks import each_file_once, nothing_else_changed, table_grew_by_new_batches
from recovery.verification.criteria import REQUIRED, says
from recovery.verification.evidence import Evidence, FirstBatch, FurtherUpdate, batches, new_inputs
from recovery.verification.judge import judge
from recovery.verification.outcome import outcome_of
from tests.factories.judged import forecast_of
from tests.unit.verification.world import World, decoded

STRATEGIES = ("continue", "revert", "full-refresh")


def judged(world: World, code: str, **changes: Any) -> JudgedCriterion:
    verdict = judge(world.strategy, world.criteria(), world.evidence(**changes))
    found = next(c for c in verdict.criteria if c.code == code)
    assert not (verdict.verified and found.ok is not True)
    return found


# ---- a whole recovery


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_whole_recovery_is_verified(strategy: str) -> None:
    old = [[1, 2, 3], [7, 8, 9]]
    new = [[1, 2, 3, 4, 5], [7, 8, 9, 10]] if strategy == "full-refresh" else [[4, 5], [10]]
    world = World(strategy, old, new)
    verdict = judge(strategy, world.criteria(), world.evidence())
    assert [(c.code, c.why) for c in verdict.criteria if c.ok is not True] == []
    assert verdict.verified
    assert codec.to_json(verdict.criteria[1].measured) == {
        "files": 9, "missing": 0, "more_than_once": 0, "passed_over": 0,
    }  # fmt: skip


def test_an_empty_plan_proves_nothing() -> None:
    assert not judge("unheard-of", [], World().evidence()).verified


@pytest.mark.parametrize("code", REQUIRED["continue"])
def test_a_criterion_that_the_plan_left_out_counts_as_not_measured(code: str) -> None:
    world = World()
    verdict = judge("continue", [c for c in world.criteria() if c.code != code], world.evidence())
    assert not verdict.verified
    assert [(c.code, c.ok) for c in verdict.criteria if c.ok is not True] == [(code, None)]


def test_what_nobody_could_measure_with_this_sink_is_not_asked_for_but_whether_its_rows_are_right() -> None:
    world = World()
    evidence = world.evidence()
    assert evidence.sink_after is not None
    loose = replace(evidence, sink_after=replace(evidence.sink_after, kind="foreach_batch"))
    told = {c.code for c in judge("continue", [], loose).criteria}
    assert told == {"FIRST_BATCH_AT_POSITION", "EACH_FILE_ONCE", "EVERY_ROW_ONCE", "NOTHING_ELSE_CHANGED"}


def test_a_criterion_of_a_later_version_counts_as_not_measured() -> None:
    world = World()
    verdict = judge(
        "continue", [*world.criteria(), Criterion(code="NEW", says="", expected={})], world.evidence()
    )
    assert (verdict.verified, verdict.criteria[-1].ok) == (False, None)


def test_a_file_that_was_read_all_the_same_is_not_called_passed_over() -> None:
    """One that was too old is so no longer once it is written again."""
    world = World()
    read = world.evidence()
    assert read.old is not None
    assert read.new is not None
    path = new_inputs(read.scope, read.old, read.new)[0]
    judged_files = judged(world, "EACH_FILE_ONCE", passed_over=("/in/late.json", path))
    assert isinstance(judged_files.measured, MeasuredFiles)
    assert judged_files.measured.passed_over == 1
    assert path.rsplit("/", 1)[-1] not in judged_files.why


@pytest.mark.parametrize(
    ("changes", "ok"),
    [({}, True), ({"table_rows": 99, "listed_rows": 99}, False), ({"old_rows": None}, None)],
)
def test_a_table_whose_rows_the_plan_did_not_know_is_measured_from_those_that_the_rerun_met(
    changes: dict[str, Any], ok: bool | None
) -> None:
    world = World()
    whole = world.evidence()
    assert whole.measure is not None
    assert whole.measure.old_rows is not None
    found = table_grew_by_new_batches(
        ExpectedGrowth(before=None), replace(whole, measure=replace(whole.measure, **changes))
    )
    assert found.ok is ok
    if isinstance(found.measured, MeasuredGrowth):
        assert found.measured.before == len(world.old_rows)


def test_every_required_criterion_has_words() -> None:
    assert all(says(code).endswith(".") for codes in REQUIRED.values() for code in codes)


def test_files_that_spark_passes_over_are_counted_and_named_beside_those_in_batches() -> None:
    judged_files = judged(World(), "EACH_FILE_ONCE", passed_over=("/in/late.json",))
    assert judged_files.ok
    assert isinstance(judged_files.measured, MeasuredFiles)
    assert (judged_files.measured.missing, judged_files.measured.passed_over) == (0, 1)
    assert "late.json" in str(judged_files.why)


# ---- one table: what turns which criterion, and into what


def first(batch: int, *offsets: Any) -> dict[str, Any]:
    return {"first_batch": FirstBatch(batch, offsets)}


def further(*values: Any, **more: Any) -> dict[str, Any]:
    return {"further": FurtherUpdate(*values, **more)}


TABLE: list[tuple[str, str, dict[str, Any], bool | None]] = [
    ("text instead of object", "FIRST_BATCH_AT_POSITION", first(3, '{"logOffset": 2}'), True),
    ("no event, but the checkpoint", "FIRST_BATCH_AT_POSITION", {"first_batch": None}, True),
    ("another batch", "FIRST_BATCH_AT_POSITION", first(4, '{"logOffset":2}'), False),
    ("another position", "FIRST_BATCH_AT_POSITION", first(3, '{"logOffset":1}'), False),
    ("from the start", "FIRST_BATCH_AT_POSITION", first(3, None), False),
    ("one source too few", "FIRST_BATCH_AT_POSITION", first(3), False),
    ("no checkpoint", "FIRST_BATCH_AT_POSITION", {"new": None}, None),
    ("no old checkpoint", "EACH_FILE_ONCE", {"old": None}, None),
    ("no new checkpoint", "EACH_FILE_ONCE", {"new": None}, None),
    ("no listing", "EACH_FILE_ONCE", {"listed": None}, None),
    ("another scope", "EACH_FILE_ONCE", {"scope": "new"}, None),
    ("no measure", "TABLE_GREW_BY_NEW_BATCHES", {"measure": None}, None),
    ("no measure", "EVERY_ROW_ONCE", {"measure": None}, None),
    ("no measure", "COUNTS_EQUAL_FORECAST", {"measure": None}, None),
    ("other inputs measured", "EVERY_ROW_ONCE", {"measured_inputs": (decoded(0, 4),)}, None),
    ("other files measured", "EVERY_ROW_ONCE", {"measured_files": ("n0",)}, None),
    ("other files measured", "TABLE_GREW_BY_NEW_BATCHES", {"measured_files": ()}, None),
    ("no table log", "TABLE_GREW_BY_NEW_BATCHES", {"sink_after": None}, None),
    ("a change", "NOTHING_ELSE_CHANGED", {"others_after": {"table x": "9", "checkpoint y": "2"}}, False),
    ("a loss", "NOTHING_ELSE_CHANGED", {"others_after": {"table x": "1"}}, False),
    ("a newcomer", "NOTHING_ELSE_CHANGED", {"others_before": {"table x": "1"}}, False),
    ("nothing there", "NOTHING_ELSE_CHANGED", {"others_before": {}, "others_after": {}}, True),
    ("unread before", "NOTHING_ELSE_CHANGED", {"others_before": None}, None),
    ("unread after", "NOTHING_ELSE_CHANGED", {"others_after": None}, None),
    ("one unread", "NOTHING_ELSE_CHANGED", {"others_after": {"table x": None, "checkpoint y": "2"}}, None),
    ("not run", "FURTHER_UPDATE_ADDS_NOTHING", {"further": None}, None),
    ("failed", "FURTHER_UPDATE_ADDS_NOTHING", further("FAILED", 7, 7, ("f",), ("f",)), False),
    ("not seen", "FURTHER_UPDATE_ADDS_NOTHING", further("UNSEEN", 7, None, ("f",), ("f",)), None),
    ("a row", "FURTHER_UPDATE_ADDS_NOTHING", further("COMPLETED", 7, 8, ("f",), ("f", "g")), False),
    ("a row fewer", "FURTHER_UPDATE_ADDS_NOTHING", further("COMPLETED", 7, 6, ("f",), ("f",)), False),
    ("files swapped", "FURTHER_UPDATE_ADDS_NOTHING", further("COMPLETED", 7, 7, ("f",), ("g",)), False),
    ("uncounted", "FURTHER_UPDATE_ADDS_NOTHING", further("COMPLETED", None, 7, ("f",), ("f",)), None),
    ("unlisted", "FURTHER_UPDATE_ADDS_NOTHING", further("COMPLETED", 7, 7, ("f",), None), None),
    (
        "new input",
        "FURTHER_UPDATE_ADDS_NOTHING",
        further("COMPLETED", 7, 8, ("f",), ("f", "g"), arrived=("x.json",)),
        None,
    ),
    (
        "input that waited",
        "FURTHER_UPDATE_ADDS_NOTHING",
        further("COMPLETED", 7, 8, ("f",), ("f", "g"), waited=("x.json",)),
        None,
    ),
    (
        "input that waited and yields no row",
        "FURTHER_UPDATE_ADDS_NOTHING",
        further("COMPLETED", 7, 7, ("f",), ("f",), waited=("x.json",)),
        True,
    ),
]


@pytest.mark.parametrize(("name", "code", "changes", "ok"), TABLE, ids=[f"{c}: {n}" for n, c, _, _ in TABLE])
def test_each_criterion_holds_fails_or_cannot_be_measured(
    name: str, code: str, changes: dict[str, Any], ok: bool | None
) -> None:
    found = judged(World(), code, **changes)
    assert found.ok is ok
    assert found.why.endswith(".")


NUMBERS: list[tuple[str, str, dict[str, Any], bool | None]] = [
    ("the catalog shows less than the log", "TABLE_GREW_BY_NEW_BATCHES", {"table_rows": 6}, False),
    ("the log lists less than the catalog", "TABLE_GREW_BY_NEW_BATCHES", {"listed_rows": 6}, False),
    ("the log was not read", "TABLE_GREW_BY_NEW_BATCHES", {"listed_rows": None}, False),
    ("not counted", "TABLE_GREW_BY_NEW_BATCHES", {"new_rows": None}, None),
    ("missing", "EVERY_ROW_ONCE", {"missing": 1}, False),
    ("extra", "EVERY_ROW_ONCE", {"extra": 1}, False),
    ("fewer in all", "EVERY_ROW_ONCE", {"expected_rows": 5}, False),
    ("unexplained repeats", "EVERY_ROW_ONCE", {"repeats_added": 3}, False),
    ("repeats not counted", "EVERY_ROW_ONCE", {"repeats_added": None}, False),
    ("not compared", "EVERY_ROW_ONCE", {"missing": None, "problem": "It cannot be replayed."}, None),
    ("other values", "EVERY_ROW_ONCE", {"values": RowValues(2, ("amount",))}, False),
    (
        "other values, perhaps of a function",
        "EVERY_ROW_ONCE",
        {"values": RowValues(2, ("amount",), rests_on_more=True)},
        None,
    ),
    ("a column is absent", "EVERY_ROW_ONCE", {"values": RowValues(absent=("day",))}, None),
    ("a column of another type", "EVERY_ROW_ONCE", {"values": RowValues(0, other_types=("day",))}, None),
    (
        "a column that differs from run to run",
        "EVERY_ROW_ONCE",
        {"values": RowValues(0, left_out=("day",))},
        True,
    ),
    ("the code's values", "EVERY_ROW_ONCE", {"values": RowValues(0, rests_on_more=True)}, True),
    ("values not compared", "EVERY_ROW_ONCE", {"values": RowValues()}, True),
    ("another count", "COUNTS_EQUAL_FORECAST", {"new_rows": 5}, False),
    ("no count", "COUNTS_EQUAL_FORECAST", {"new_rows": None}, None),
]


@pytest.mark.parametrize(
    ("name", "code", "values", "ok"), NUMBERS, ids=[f"{c}: {n}" for n, c, _, _ in NUMBERS]
)
def test_each_number_counts(name: str, code: str, values: dict[str, Any], ok: bool | None) -> None:
    measure = World().evidence().measure
    assert measure is not None
    assert judged(World(), code, measure=replace(measure, **values)).ok is ok


def test_a_key_other_than_the_planned_one_measures_nothing() -> None:
    world = World()
    planned = world.criteria(EVERY_ROW_ONCE={"key": ["ID"]})
    measure = world.evidence().measure
    assert measure is not None
    assert not judge("continue", planned, world.evidence(), edition=1).verified
    same = world.evidence(measure=replace(measure, key=("id",)))
    assert judge("continue", planned, same, edition=1).verified


REPEATS = [
    (["a", "b"], ["c", "d"], None, True, ""),
    (["a", "b"], ["b", "d"], None, True, " 1 row of them repeat a key that the table held before."),
    (["a"], ["d", "d"], None, True, " 1 row of them repeat a key because the input does."),
    (
        ["a"],
        ["a", "d", "d"],
        None,
        True,
        " 1 row of them repeat a key that the table held before. 1 row of them repeat",
    ),
    (
        ["a", "x", "y"],
        ["x", "y", "d"],
        3,
        None,
        "2 rows that the rerun wrote were in the table before. Batch 3 had",
    ),
    (["a", "b"], ["c", "d", "d"], 3, True, " 1 row of them repeat a key because the input does."),
]


@pytest.mark.parametrize(("old", "expected", "batch", "ok", "says"), REPEATS)
def test_rows_that_the_table_held_are_not_put_down_to_the_input(
    old: list[str], expected: list[str], batch: int | None, ok: bool | None, says: str
) -> None:
    """`batch`: planned and not committed, and the plan could not tell whether the table has it."""
    found = judged(World(old_rows=old, expected=expected, open=batch), "EVERY_ROW_ONCE")
    assert found.ok is ok
    assert says in found.why
    assert ("because the input does" in found.why) is (ok is True and "d" in expected[:-1])


def test_input_that_was_inferred_is_never_proven_and_a_fault_stays_one() -> None:
    planned = World().criteria(EVERY_ROW_ONCE={"key": [], "inferred": ["sources/0/1"]})
    for world, ok in ((World(), None), (World(written=["b", "c"]), False)):
        found = next(
            c for c in judge("revert", planned, world.evidence()).criteria if c.code == "EVERY_ROW_ONCE"
        )
        assert found.ok is ok
        assert ("sources/0/1" in found.why) is (ok is None)


def test_an_open_batch_is_not_settled_by_a_measure_that_did_not_look() -> None:
    world = World(old_rows=["a", "x"], expected=["x"], open=3)
    measure = world.evidence().measure
    assert measure is not None
    assert judged(world, "EVERY_ROW_ONCE", measure=replace(measure, held_before=None)).ok is None


def test_no_batch_is_right_where_no_file_waited_and_the_position_stands() -> None:
    world = World(new=[[]], expected=[])
    evidence = world.evidence(first_batch=None)
    assert evidence.old is not None
    still = replace(evidence, new=replace(evidence.old, version=1))
    assert judge("continue", world.criteria(), still).verified
    waited = World(new=[[]], expected=[], listed=[[1, 2, 3, 4]])
    assert not judge("continue", waited.criteria(), replace(still, listed=waited.evidence().listed)).verified


def test_files_that_came_after_the_plan_are_said_and_their_rows_must_be_counted() -> None:
    world = World(late=1)
    planned = {0: tuple(decoded(0, n) for n in (1, 2, 3, 4))}
    criteria = world.criteria(COUNTS_EQUAL_FORECAST={"new_rows": 3})
    uncounted = judge("continue", criteria, world.evidence(planned=planned))
    assert [(c.code, c.ok) for c in uncounted.criteria if c.ok is not True] == [
        ("COUNTS_EQUAL_FORECAST", None)
    ]
    assert "1 file arrived after the plan was sealed: a b-5.json" in uncounted.criteria[1].why
    assert judge("continue", criteria, world.evidence(planned=planned, arrived_rows=1)).verified
    assert not judge("continue", criteria, world.evidence(planned=planned, arrived_rows=2)).verified


def test_a_file_that_vanished_before_it_was_read_is_not_forgotten() -> None:
    world = World(new=[[4]], listed=[[1, 2, 3, 4]])
    criteria = World().criteria()  # the plan knew file 5 too
    verdict = judge("continue", criteria, world.evidence())
    assert next(c for c in verdict.criteria if c.code == "EACH_FILE_ONCE").ok is False


def test_two_sources_that_read_one_folder_count_each_file_twice_as_the_plan_did() -> None:
    world = World(strategy="revert", old=[[1], [1]], new=[[2], [2]])
    evidence = world.evidence()
    folder = {n: (decoded(0, 1), decoded(0, 2)) for n in (0, 1)}
    assert evidence.old is not None
    assert evidence.new is not None
    old, new = (
        replace(report, sources=(report.sources[0], replace(report.sources[0], index=1)))
        for report in (evidence.old, evidence.new)
    )
    one_folder = replace(evidence, old=old, new=new, listed=folder)
    assert each_file_once(ExpectedFiles(scope="same", files=4), one_folder).ok is True
    assert each_file_once(ExpectedFiles(scope="same", files=5), one_folder).ok is False


def test_a_file_that_was_read_again_as_another_file_is_never_proven_and_its_loss_not_known() -> None:
    world = World()
    evidence = world.evidence(replaced_files=1)
    verdict = judge(world.strategy, world.criteria(), evidence)
    assert {c.code: c.ok for c in verdict.criteria if c.ok is not True} == {"EVERY_ROW_ONCE": None}
    counted = outcome_of(forecast_of(), world.criteria(), evidence)
    assert (counted.lost, counted.lost_bound) == (None, Bound.UNKNOWN)


def test_a_version_that_begins_again_is_not_taken_for_a_seeded_one() -> None:
    world = World()
    evidence = world.evidence()
    assert evidence.new is not None
    assert evidence.old is not None
    source = evidence.new.sources[0]
    again = Entries.from_entries(SourceEntry(e.path, 0, 0) for e in source.committed)
    restarted = replace(evidence.new, sources=(replace(source, committed=again),))
    assert len(new_inputs("both", evidence.old, restarted)) == 5
    verdict = judge("continue", world.criteria(), replace(evidence, new=restarted))
    found = next(c for c in verdict.criteria if c.code == "EACH_FILE_ONCE")
    assert (found.ok, found.measured.more_than_once) == (False, 3)


def test_a_seeded_version_gives_only_what_the_rerun_read() -> None:
    evidence = World(old=[[1, 2, 3], [6]], new=[[4], [7, 8]]).evidence()
    assert evidence.old is not None
    assert evidence.new is not None
    held = batches("both", evidence.old, evidence.new)
    assert held.after == {0: (decoded(0, 4),), 1: (decoded(1, 7), decoded(1, 8))}


# ---- the one thing that must not happen


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A whole recovery of any shape."""
    count = draw(st.integers(1, 3))
    old = [list(range(1, 4 + draw(st.integers(0, 9)))) for _ in range(count)]
    new = [list(range(len(o) + 1, len(o) + 2 + draw(st.integers(0, 4)))) for o in old]
    rows = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=12)
    world = World(draw(st.sampled_from(STRATEGIES)), old, new, None, draw(rows), None, draw(rows))
    if world.scope == "new":
        world.new = [[*o, *n] for o, n in zip(old, new, strict=True)]
    return world


def verified(world: World, planned: World, **changes: Any) -> bool:
    return judge(world.strategy, planned.criteria(), world.evidence(**changes)).verified


@given(worlds())
def test_any_whole_recovery_is_verified(world: World) -> None:
    assert verified(world, world)


@given(worlds(), st.data())
def test_any_lost_row_is_never_verified(world: World, data: st.DataObject) -> None:
    assert world.written is not None
    lost = data.draw(st.integers(0, len(world.written) - 1))
    assert not verified(replace(world, written=[r for i, r in enumerate(world.written) if i != lost]), world)


@given(worlds(), st.sampled_from("abcdefz"))
def test_any_doubled_or_foreign_row_is_never_verified(world: World, row: str) -> None:
    assert not verified(replace(world, written=[*(world.written or []), row]), world)


@given(worlds(), st.data())
def test_a_row_lost_for_a_row_doubled_is_never_verified(world: World, data: st.DataObject) -> None:
    written = list(world.written or [])
    at = data.draw(st.integers(0, len(written) - 1))
    other = data.draw(st.sampled_from([r for r in "abcdefz" if r != written[at]]))
    written[at] = other
    assert not verified(replace(world, written=written), world)


@given(worlds(), st.data())
def test_an_old_row_lost_from_the_table_is_never_verified(world: World, data: st.DataObject) -> None:
    table = [*([] if world.scope == "new" else world.old_rows), *(world.written or [])]
    del table[data.draw(st.integers(0, len(table) - 1))]
    assert not verified(replace(world, table=table), world)


@given(worlds(), st.data())
def test_any_file_that_no_batch_holds_is_never_verified(world: World, data: st.DataObject) -> None:
    source = data.draw(st.integers(0, len(world.new) - 1))
    lost = data.draw(st.sampled_from(world.new[source]))
    fewer = [[n for n in ns if s != source or n != lost] for s, ns in enumerate(world.new)]
    assert not verified(replace(world, new=fewer), world)


@given(worlds(), st.data())
def test_any_file_in_two_batches_is_never_verified(world: World, data: st.DataObject) -> None:
    source = data.draw(st.integers(0, len(world.new) - 1))
    pool = world.new[source] if world.scope == "new" else [*world.old[source], *world.new[source]]
    again = data.draw(st.sampled_from(pool))
    more = [[*ns, again] if s == source else ns for s, ns in enumerate(world.new)]
    assert not verified(replace(world, new=more), world)


@given(
    worlds(), st.sampled_from(["old", "new", "listed", "measure", "others_after", "further", "sink_before"])
)
def test_anything_unmeasured_is_never_verified(world: World, name: str) -> None:
    assert not verified(world, world, **{name: None})


@given(
    worlds(), st.sampled_from(["table_rows", "listed_rows", "new_rows", "expected_rows", "missing", "extra"])
)
def test_any_number_unmeasured_is_never_verified(world: World, name: str) -> None:
    evidence: Evidence = world.evidence()
    assert evidence.measure is not None
    assert not verified(world, world, measure=replace(evidence.measure, **{name: None}))


RAN = ("checkpoint a.b.users", "table a.b.users")


@pytest.mark.parametrize(
    ("after", "ok", "watched"),
    [
        ({"table x": "1", "table a.b.users": "8", "checkpoint a.b.users": "9"}, True, 1),
        ({"table x": "1", "table a.b.users": None}, True, 1),
        ({"table x": "2", "table a.b.users": "8"}, False, 1),
        ({"table x": None, "table a.b.users": "8"}, None, None),
    ],
    ids=["what ran changed", "what ran cannot be read", "another changed", "another cannot be read"],
)
def test_of_what_the_updates_of_a_recovery_write_too_nothing_is_claimed(
    after: dict[str, str | None], ok: bool | None, watched: int | None
) -> None:
    evidence = World().evidence(others_before={"table x": "1", "table a.b.users": "7"}, others_after=after)
    found = nothing_else_changed(ExpectedOthers(ran=RAN), evidence)
    assert found.ok is ok
    assert getattr(found.measured, "watched", None) == watched
    assert ok is None or found.measured.ran == RAN


def test_where_everything_ran_too_nothing_was_watched_and_it_says_what_is_not_known() -> None:
    evidence = World().evidence(others_before={}, others_after={"table a.b.users": "7"})
    found = nothing_else_changed(ExpectedOthers(ran=RAN), evidence)
    assert (found.ok, found.measured) == (True, MeasuredOthers(watched=0, changed=(), ran=RAN))
    assert "not known" in found.why


@pytest.mark.parametrize("columns", [(), ("tax",), ("tax", "vat")])
def test_columns_that_only_the_table_has_are_named_beside_what_was_compared(columns: tuple[str, ...]) -> None:
    world = World()
    measure = world.evidence().measure
    assert measure is not None
    found = judged(world, "EVERY_ROW_ONCE", measure=replace(measure, table_only=columns))
    assert (found.ok, found.measured.table_only) == (True, columns)
    assert all(name in found.why for name in columns)
