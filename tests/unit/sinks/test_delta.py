"""A Delta table remembers one head for each query: what it skips, what it takes, what a checkpoint is told of it."""

import os
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import deltasink, inspect_checkpoint, seed
from recovery.checkpoints.report import Severity
from recovery.checkpoints.storage import Store
from recovery.checkpoints.table_progress import reconcile_report
from recovery.contracts.amounts import Amount
from recovery.errors import Refused, Unreachable
from recovery.sinks import delta
from recovery.sinks.kinds import PlannedStart, empty_reset
from recovery.sinks.live import delta as live
from recovery.sources.base import Distance, InputFile
from tests.checkpoint_builder import STARTED_MS, Built, sink_log
from tests.delta_tables import EPOCH_MS, add, commit, info, remove, table, txn
from tests.refusals import refused

OURS, THEIRS = "3c1d2b9e-0000-4000-8000-000000000001", "orders"


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """Our query has written batches 0 to 3, another application its 7."""
    ours = [[txn(OURS, n), add(f"f{n}", n + 1)] for n in range(4)]
    return table(tmp_path / "table", [*ours, [txn(THEIRS, 7), add("g")]])


def test_every_application_has_a_head_of_its_own(where: Path) -> None:
    told = live.read_table_report(str(where), query_id=OURS)
    assert (told.kind, told.head, told.heads) == ("delta", 3, {OURS: 3, THEIRS: 7})
    assert told.batches == {n: (f"f{n}",) for n in range(4)}
    assert live.read_table_report(str(where), query_id="new").head is None


@pytest.mark.parametrize(
    ("query_id", "next_batch", "skipped"),
    [(OURS, 0, 4), (OURS, 3, 1), (OURS, 4, 0), (OURS, 9, 0), (None, 0, 0), (THEIRS, 4, 4), ("new", 0, 0)],
)
def test_batches_are_skipped_only_under_an_id_that_has_them(
    where: Path, query_id: str | None, next_batch: int, skipped: int
) -> None:
    told = live.read_table_report(str(where), query_id=query_id)
    start = PlannedStart(next_batch, query_id_kept=query_id is not None)
    assert len(delta.judge_risk(start, told).vanished) == skipped
    found = deltasink.explain_misfit(told.heads.get(query_id or ""), next_batch)
    assert (found.code if found else None) == ("SINK_SWALLOWS" if skipped else None)


def test_an_empty_reset_swallows_nothing_and_doubles_all_that_was_read(where: Path) -> None:
    files = [InputFile(f"file:///in/{n}", 1, n) for n in range(3)]
    risk = delta.judge_risk(
        PlannedStart(0, reread=Distance()), live.read_table_report(str(where), query_id=OURS)
    )
    told = empty_reset(risk, files[:2], files[2:], 1)
    assert told == {"swallowed_waiting": (), "doubled": tuple(files[:2])}


def test_the_fingerprint_moves_with_every_commit_and_not_without(where: Path) -> None:
    before = live.read_table_report(str(where), query_id=OURS).fingerprint
    assert live.read_table_report(str(where), query_id=None).fingerprint == before
    commit(where, 5, txn(OURS, 4))
    assert live.read_table_report(str(where), query_id=OURS).fingerprint != before


def test_a_table_forgets_applications_by_its_own_setting(tmp_path: Path) -> None:
    setting = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    where = table(tmp_path / "t", [[txn("old", 5), txn("new", 6, EPOCH_MS + 86_400_000)]], **setting)
    assert live.read_table_report(str(where), query_id=None, now_ms=EPOCH_MS + 86_400_000).heads == {"new": 6}


@pytest.mark.parametrize("deep", [False, True])
def test_a_log_that_is_left_of_a_file_table_says_nothing_of_a_delta_table(tmp_path: Path, deep: bool) -> None:
    """Batches 0 and 1 are committed, 2 is planned and not in the table; the old log knows a batch 2."""
    Built(tmp_path / "flow" / "0", batches=2, planned=1).write()
    query_id = inspect_checkpoint(str(tmp_path / "flow")).query_id
    assert query_id
    where = table(tmp_path / "table", [[txn(query_id, 1)]])
    sink_log(where, 2)
    report = inspect_checkpoint(str(tmp_path / "flow"), sink=str(where), deep=deep)
    assert [f.code for f in report.findings if f.code.startswith("SINK")] == []
    assert seed.plan_seed(report).batch == 1


@pytest.mark.parametrize("delta_table", [True, False], ids=["delta", "files"])
def test_a_crash_in_the_very_first_batch_leaves_its_rows_in_the_table(
    tmp_path: Path, delta_table: bool
) -> None:
    """Its files count as read, and a seed without state goes on after it."""
    Built(tmp_path / "flow" / "0", batches=0, planned=1, operators=()).write()
    query_id = inspect_checkpoint(str(tmp_path / "flow")).query_id
    assert query_id
    where = tmp_path / "table"
    if delta_table:
        table(where, [[txn(query_id, 0)]])
    else:
        sink_log(where, 0)
    report = inspect_checkpoint(str(tmp_path / "flow"), sink=str(where))
    assert (report.last_committed, report.last_planned) == (None, 0)
    stands = reconcile_report(report)
    assert (stands.last_committed, stands.sources[0].log_offset) == (0, 0)
    assert [len(stands.sources[0].committed), len(stands.sources[0].planned)] == [1, 0]
    plan = seed.plan_seed(report)
    assert (plan.batch, plan.commit_of, plan.committed_files) == (0, None, (1,))


FORGETS = {"delta.setTransactionRetentionDuration": "interval 1 day"}


@pytest.mark.parametrize(
    ("head", "codes", "goes_on_after"),
    [(1, [], 1), (2, ["SINK_FORGOT_BATCH"], 2), (3, ["SINK_FORGOT"], None)],
)
def test_a_batch_that_the_table_has_forgotten_is_in_it_all_the_same(
    tmp_path: Path, head: int, codes: list[str], goes_on_after: int | None
) -> None:
    """Batches 0 and 1 are committed, 2 is planned; the table has `head` of this query, since long."""
    Built(tmp_path / "flow" / "0", batches=2, planned=1).write()
    query_id = inspect_checkpoint(str(tmp_path / "flow")).query_id
    assert query_id
    where = table(tmp_path / "table", [[txn(query_id, head, 1)]], **FORGETS)
    report = inspect_checkpoint(str(tmp_path / "flow"), sink=str(where))
    assert [f.code for f in report.findings if f.code.startswith("SINK")] == codes
    if goes_on_after is None:
        with pytest.raises(Refused, match="forgotten"):
            seed.plan_seed(report)
    else:
        assert seed.plan_seed(report).batch == goes_on_after
    told = live.read_table_report(str(where), query_id=query_id)
    assert (told.head, told.forgotten, told.forgets) == (None, head, True)
    kept = delta.judge_risk(
        PlannedStart(2, query_id_kept=True, planned=2, planned_rows=Amount(value=4)), told
    )
    assert (kept.bars, kept.doubled) == (head > 1, Amount(value=4 if head > 1 else 0))


def test_what_a_table_that_forgets_has_of_an_open_batch_cannot_be_told_without_its_id(tmp_path: Path) -> None:
    seeded = PlannedStart(2, planned=2, planned_rows=Amount(value=4))
    forgets = live.read_table_report(str(table(tmp_path / "f", [[add("f0")]], **FORGETS)), query_id=OURS)
    found = delta.judge_risk(seeded, forgets).doubled
    assert found is not None
    assert (found.value, found.exact) == (4, False)
    remembers = live.read_table_report(str(table(tmp_path / "r", [[add("f0")]])), query_id=OURS)
    assert delta.judge_risk(seeded, remembers).doubled == Amount(value=0)


def test_a_place_without_a_delta_table_is_refused(tmp_path: Path) -> None:
    with refused("no_delta_table", Unreachable):
        live.read_table_report(str(tmp_path), query_id=None)


@pytest.mark.parametrize(
    ("head", "codes", "goes_on_after"),
    [(1, [], 1), (2, ["SINK_UNCOMMITTED_BATCH"], 2), (3, ["SINK_SWALLOWS"], None)],
)
def test_a_checkpoint_is_judged_beside_its_delta_table(
    tmp_path: Path, head: int, codes: list[str], goes_on_after: int | None
) -> None:
    """Batches 0 and 1 are committed, 2 is planned; the table has `head` of this query."""
    Built(tmp_path / "flow" / "0", batches=2, planned=1).write()
    query_id = inspect_checkpoint(str(tmp_path / "flow")).query_id
    assert query_id
    where = table(tmp_path / "table", [[txn(query_id, head)]])
    report = inspect_checkpoint(str(tmp_path / "flow"), sink=str(where))
    assert [f.code for f in report.findings if f.code.startswith("SINK")] == codes
    if goes_on_after is not None:
        assert seed.plan_seed(report).batch == goes_on_after


@pytest.mark.parametrize(
    ("planned", "ended_ms", "written_ms", "found"),
    [
        ((), STARTED_MS, STARTED_MS, True),
        ((0, 1), STARTED_MS - 1, STARTED_MS - 1, True),
        ((0, 1), STARTED_MS - 1, STARTED_MS, False),
        ((0, 1), STARTED_MS + 1, STARTED_MS - 1, False),
        ((1, 2), STARTED_MS - 1, STARTED_MS - 1, False),
    ],
    ids=[
        "an empty one",
        "one that was reset",
        "the table was emptied",
        "two queries write",
        "its beginning is gone",
    ],
)
def test_rows_of_the_query_before_a_reset_are_named(
    tmp_path: Path, planned: tuple[int, ...], ended_ms: int, written_ms: int, found: bool
) -> None:
    before = "11111111-2222-3333-4444-555555555555"
    (tmp_path / "flow").mkdir()
    if planned:
        Built(tmp_path / "flow", batches=planned[-1] + 1).write()
    if planned and planned[0]:
        for log in ("offsets", "commits"):
            (tmp_path / "flow" / log / "0").unlink()
    rows = add("part-0.parquet", modificationTime=written_ms)
    where = table(tmp_path / "table", [[txn(before, 7, ended_ms), rows], [txn("hand-made", 3, ended_ms)]])
    report = inspect_checkpoint(str(tmp_path / "flow"), sink=str(where))
    of_before = [
        (f.severity, before in f.says) for f in report.findings if f.code == "SINK_HAS_ROWS_OF_BEFORE"
    ]
    assert of_before == ([(Severity.WARNING, True)] if found else [])


@pytest.mark.parametrize(
    ("commits", "is_emptied"),
    [
        ([], False),
        ([[info("DELETE"), remove("part-0.parquet"), remove("part-1.parquet")]], True),
        ([[info("DELETE"), remove("part-0.parquet")]], False),
        ([[info("WRITE"), remove("part-0.parquet"), remove("part-1.parquet"), add("part-2.parquet")]], False),
        (
            [[info("OPTIMIZE"), remove("part-0.parquet"), remove("part-1.parquet"), add("part-2.parquet")]],
            False,
        ),
        (
            [[remove("part-0.parquet"), remove("part-1.parquet")], [info("RESTORE"), add("part-0.parquet")]],
            False,
        ),
    ],
    ids=["nothing", "delete all", "delete some", "overwrite", "optimize", "delete and restore"],
)
def test_a_delta_table_that_was_emptied_between_two_runs(
    tmp_path: Path, commits: list[list[dict[str, Any]]], is_emptied: bool
) -> None:
    """Minutes apart: version 0 is of the run before, which ends then; the next one starts in minute 5."""
    where = Store.open(str(table(tmp_path / "t", [[add("part-0.parquet"), add("part-1.parquet")], *commits])))
    ended_ms, started_ms = EPOCH_MS + 1, EPOCH_MS + 5 * 60_000
    assert deltasink.was_emptied(where, ended_ms, started_ms) is is_emptied
    assert not deltasink.was_emptied(where, ended_ms, ended_ms)


@pytest.mark.parametrize(
    ("first", "is_new"),
    [
        ([add("part-0.parquet")], True),
        ([{"commitInfo": {"timestamp": EPOCH_MS - 60_000}}, add("part-0.parquet")], False),
        ([{"commitInfo": None}, add("part-0.parquet")], True),
        (["cut"], False),
    ],
    ids=["new", "a copy of an older one", "no information", "a commit that cannot be read"],
)
def test_a_delta_table_is_new_whose_first_commit_says_so(
    tmp_path: Path, first: list[Any], is_new: bool
) -> None:
    """The run before ended a second earlier, and the run that made the table started then."""
    where = table(tmp_path / "t", [[action for action in first if isinstance(action, dict)]])
    file = where / "_delta_log" / f"{0:020}.json"
    if first == ["cut"]:
        file.write_text("{")
        os.utime(file, (EPOCH_MS / 1000, EPOCH_MS / 1000))
    assert deltasink.was_emptied(Store.open(str(where)), EPOCH_MS - 1_000, EPOCH_MS - 1_000) is is_new
