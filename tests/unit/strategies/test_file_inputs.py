"""What strategies say of input files as they lie there: written again, gone, passed over."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from recovery.checkpoints.report import Entries, SourceEntry, SourceProgress
from recovery.contracts.amounts import Amount
from recovery.contracts.option import Option
from recovery.contracts.readers import SourceReader
from recovery.sources.base import InputFile
from recovery.sources.live import probe, unread
from recovery.strategies.base import Counts, Facts
from recovery.strategies.catalogue import judge_all
from tests.unit.strategies.facts import checkpoint, facts, source
from tests.unit.strategies.streams import options

DAY = 86_400_000
T = 1_760_000_000_000


def put(folder: Path, **days: float) -> None:
    for name, day in days.items():
        (folder / name).write_text("{}")
        ns = int(T + day * DAY) * 10**6
        os.utime(folder / name, ns=(ns, ns))


def entries(folder: Path, first: int, **days: float) -> Entries:
    return Entries.from_entries(
        SourceEntry(f"file://{folder}/{name}", int(T + day * DAY), first + n)
        for n, (name, day) in enumerate(days.items())
    )


def about(folder: Path, done: SourceProgress, counts: Counts, **options: str) -> Facts:
    reader = SourceReader("json", str(folder), options, location=str(folder))
    report = checkpoint(sources=(done,), state_operators=(), last_planned=3 if done.planned else 2)
    found = probe.probe_source(done, reader)
    return replace(facts(), checkpoint=report, sources=(found,), counts=counts, old_counts=counts)


def judged(told: Facts) -> dict[str, Option]:
    return {o.strategy: o for o in judge_all(told)}


def test_a_committed_file_to_which_rows_were_added_is_named_and_its_rows_are_not_promised(
    tmp_path: Path,
) -> None:
    put(tmp_path, hourly=0.1, b=0.2, new=0.3)
    log = entries(tmp_path, 0, hourly=0, b=0.2)
    counts = Counts(table=2, processed=2, waiting=1, everything=3)
    told = judged(about(tmp_path, SourceProgress(0, "files", '{"logOffset":1}', 1, log), counts))
    named = {
        name: [f.file for f in o.findings if f.code == "INPUT_CHANGED_AFTER_READ"] for name, o in told.items()
    }
    assert named["continue"] == [f"file://{tmp_path}/hourly"]
    assert named["full-refresh"] == []


@pytest.mark.parametrize(
    ("options", "removes"),
    [
        ({"cleanSource": "delete"}, True),
        ({"cleansource": "ARCHIVE"}, True),
        ({"cleanSource": "off"}, False),
        ({}, False),
    ],
)
def test_a_source_that_removes_what_it_has_read_is_named_before_the_run(
    tmp_path: Path, options: dict[str, str], removes: bool
) -> None:
    put(tmp_path, a=0, new=0.3)
    log, counts = entries(tmp_path, 0, a=0), Counts(table=1, processed=1, waiting=1, everything=2)
    told = judged(about(tmp_path, SourceProgress(0, "files", '{"logOffset":0}', 0, log), counts, **options))
    assert ("SOURCE_REMOVES_FILES" in {f.code for f in told["continue"].findings}) is removes


def test_a_file_that_spark_has_forgotten_and_reads_a_second_time_is_told(tmp_path: Path) -> None:
    put(tmp_path, monthly=30, b=29)
    log = entries(tmp_path, 0, monthly=0, b=29)
    counts = Counts(table=2, processed=2, waiting=1, everything=2, reread=1)
    told = judged(about(tmp_path, SourceProgress(0, "files", '{"logOffset":1}', 1, log), counts))
    for name in ("continue", "revert"):
        option = told[name]
        assert (option.forecast.reread.rows, option.forecast.reread.files) == (1, 1)
        assert not option.forecast.reread.exact
        assert (option.forecast.doubled.rows, option.forecast.doubled.exact) == (1, False)
        assert "INPUT_READ_TWICE" in {f.code for f in option.findings}
    lost = told["full-refresh"].forecast.lost
    assert (lost.rows, lost.exact) == (None, False)
    assert "such as monthly" in lost.why


def test_a_planned_file_that_is_gone_is_lost_to_a_full_refresh_and_nobody_knows_its_rows(
    tmp_path: Path,
) -> None:
    put(tmp_path, a=1, b=2)
    log, planned = entries(tmp_path, 0, a=1, b=2), entries(tmp_path, 2, gone=3)
    done = SourceProgress(0, "files", '{"logOffset":1}', 1, log, planned)
    counts = Counts(table=2, processed=2, waiting=0, everything=2)
    told = judged(about(tmp_path, done, counts))
    option = told["full-refresh"]
    assert (option.forecast.lost.rows, option.forecast.lost.exact) == (None, False)
    assert "1 file that the log names is gone, such as gone." in option.forecast.lost.why
    assert "INPUT_GONE" in {f.code for f in option.findings}
    assert not option.recommended
    assert not told["empty"].forecast.lost.exact


def test_a_file_that_spark_ignores_comes_in_with_a_full_refresh_and_that_is_said(tmp_path: Path) -> None:
    put(tmp_path, a=29, b=30, late=1)
    counts = Counts(table=2, processed=2, waiting=0, everything=3)
    given = about(
        tmp_path, SourceProgress(0, "files", '{"logOffset":1}', 1, entries(tmp_path, 0, a=29, b=30)), counts
    )
    everything = given.sources[0].spans.everything
    assert everything is not None
    assert [f.rsplit("/", 1)[-1] for f in everything.files] == ["late", "a", "b"]
    told = judged(given)
    option = told["full-refresh"]
    assert option.forecast.new_rows == 3
    assert option.forecast.lost.why == "All 3 files can still be read."
    said = {f.code: f.says for f in option.findings}
    assert "INPUT_IGNORED" not in said
    assert (
        "1 file that Spark passes over now (maxFileAge, fileNameOnly), such as late"
        in said["IGNORED_INPUT_COMES_IN"]
    )
    assert "INPUT_IGNORED" in {f.code for f in told["continue"].findings}


def test_a_planned_batch_that_stays_makes_spark_pass_over_older_files(tmp_path: Path) -> None:
    """Spark restores the source's whole log, a batch that was never committed too."""
    put(tmp_path, a=0, late=2, p=20)
    log, planned = entries(tmp_path, 0, a=0), entries(tmp_path, 1, p=20)
    done = SourceProgress(0, "files", '{"logOffset":0}', 0, log, planned)
    told = judged(about(tmp_path, done, Counts(table=1, processed=1, waiting=2, everything=3)))
    lost = told["revert"].forecast.lost
    assert (lost.rows, lost.files, lost.exact) == (None, 1, False)
    assert "such as late: Spark never reads it with this checkpoint" in lost.why
    assert told["continue"].forecast.lost.exact  # a seed leaves the planned batch out

    reader = SourceReader("json", str(tmp_path), location=str(tmp_path))
    seen = unread.count_unread(done, reader)
    assert seen.reach.readable is False
    assert "such as late" in seen.reach.why
    assert seen.waits.files == Amount(value=1)  # the planned one


def test_files_that_spark_passes_over_are_no_loss_of_the_plan_and_are_named_beside_it() -> None:
    plain, passed = facts(), facts(sources=(source(ignored=(InputFile("/in/old", 1, 1),)),))
    lost = [options(given)["continue"].forecast.lost for given in (plain, passed)]
    assert [(amount.rows, amount.exact) for amount in lost] == [(0, True), (0, True)]
    assert ["maxFileAge" in amount.why for amount in lost] == [False, True]
