"""What a file table remembers, and what that does to the next batch and to an empty reset."""

import shutil
from pathlib import Path

import pytest

from recovery.checkpoints.report import Severity
from recovery.checkpoints.sinklog import explain_batch_misfit, several_writers
from recovery.errors import Unreachable
from recovery.sinks.base import SinkReport
from recovery.sinks.files import judge_risk
from recovery.sinks.kinds import PlannedStart, empty_reset
from recovery.sinks.live.files import read_table_report
from recovery.sources.base import Distance, InputFile
from tests.checkpoint_builder import put, sink_log

AGAIN = PlannedStart(0, reread=Distance())  # everything, from batch 0 on


def files(*names: str, start: int = 0) -> list[InputFile]:
    return [InputFile(f"file:///in/{n}", 1, start + i) for i, n in enumerate(names)]


def at(head: int | None) -> SinkReport:
    return SinkReport(kind="files", location="/t", head=head)


def names(found: tuple[InputFile, ...]) -> str:
    return "".join(f.path[-1] for f in found)


def test_a_table_s_log_is_read_batch_by_batch(tmp_path: Path) -> None:
    sink_log(tmp_path, 3)
    report = read_table_report(f"file://{tmp_path}")
    assert (report.kind, report.head, report.earliest) == ("files", 3, 0)
    assert report.batches == {n: (f"file://{tmp_path}/part-{n}.parquet",) for n in range(4)}
    assert report.findings == ()
    assert report.as_dict()["files"] == 4


@pytest.mark.parametrize("head", [9, 10, 25])
def test_a_compacted_batch_has_its_own_files_only(tmp_path: Path, head: int) -> None:
    sink_log(tmp_path, head)
    report = read_table_report(str(tmp_path))
    assert report.batches == {n: (f"file://{tmp_path}/part-{n}.parquet",) for n in range(head + 1)}
    assert report.older == ()


def test_files_whose_batch_was_compacted_away_are_kept_apart(tmp_path: Path) -> None:
    sink_log(tmp_path, 25, kept_from=15)
    (tmp_path / "_spark_metadata/9.compact").unlink()
    report = read_table_report(str(tmp_path))
    assert sorted(report.batches) == [15, 16, 17, 18, 20, 21, 22, 23, 24, 25]
    assert len(report.older) == 16
    assert report.as_dict()["files"] == 26
    assert report.findings == ()


def test_the_fingerprint_of_a_table_changes_with_every_batch(tmp_path: Path) -> None:
    sink_log(tmp_path, 2)
    before = read_table_report(str(tmp_path)).fingerprint
    put(tmp_path / "_spark_metadata/3", "v1")
    assert read_table_report(str(tmp_path)).fingerprint != before
    assert read_table_report(str(tmp_path)).batches[3] == ()


def test_a_table_without_a_log_remembers_nothing(tmp_path: Path) -> None:
    report = read_table_report(str(tmp_path))
    assert (report.kind, report.head, report.batches) == ("files", None, {})


@pytest.mark.parametrize("marker", ["_delta_log/0.json", "metadata/v1.metadata.json"])
def test_a_table_of_another_format_is_not_taken_for_a_file_table(tmp_path: Path, marker: str) -> None:
    put(tmp_path / marker, "{}")
    assert read_table_report(str(tmp_path)).kind == "unknown"


def test_a_table_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="does not exist"):
        read_table_report(str(tmp_path / "no"))


@pytest.mark.parametrize(
    ("head", "following", "code"),
    [
        (2, 3, None),
        (None, 0, None),
        (2, 0, "SINK_SWALLOWS"),
        (2, 2, "SINK_SWALLOWS"),
        (2, 4, "SINK_LOG_BEHIND"),
        (None, 3, "SINK_LOG_MISSING"),
    ],
)
def test_a_next_batch_fits_or_it_is_said_why_not(head: int | None, following: int, code: str | None) -> None:
    found = explain_batch_misfit(head, following)
    assert (found.code if found else None) == code
    assert found is None or found.severity is Severity.BLOCKER


@pytest.mark.parametrize(
    ("head", "limit", "swallowed", "doubled"),
    [
        (2, None, "de", ""),  # one batch with everything, and its number is taken
        (2, 1, "", ""),  # the same batches as before: harmless, by luck
        (2, 2, "de", ""),
        (0, 1, "", "bc"),
        (0, 2, "", "c"),
        (1, 2, "d", ""),
        (None, None, "", "abc"),
        (None, 1, "", "abc"),
    ],
)
def test_an_empty_reset_loses_and_doubles_what_its_batches_say(
    head: int | None, limit: int | None, swallowed: str, doubled: str
) -> None:
    fate = empty_reset(judge_risk(AGAIN, at(head)), files("a", "b", "c"), files("d", "e", start=10), limit)
    assert (names(fate["swallowed_waiting"]), names(fate["doubled"])) == (swallowed, doubled)


def test_an_unread_file_that_is_older_takes_its_place_by_time() -> None:
    fate = empty_reset(judge_risk(AGAIN, at(0)), files("b", "c", start=5), files("a"), 1)
    assert (names(fate["swallowed_waiting"]), names(fate["doubled"])) == ("a", "bc")


def test_with_latest_first_the_newest_files_take_the_first_batch_numbers() -> None:
    unread = files("d", "e", start=10)
    fate = empty_reset(judge_risk(AGAIN, at(2)), files("a", "b", "c"), unread, 1, latest_first=True)
    assert (names(fate["swallowed_waiting"]), names(fate["doubled"])) == ("ed", "ba")


def test_two_flows_of_one_file_table_are_found() -> None:
    flows = {"f_a": "/t", "f_b": "/t", "g": "/u"}
    found = several_writers("/t", flows)
    assert found is not None
    assert found.code == "SINK_SHARED"
    assert "f_a, f_b" in found.says
    assert several_writers("/u", flows) is None


def test_a_log_that_vanishes_midway_is_no_crash(tmp_path: Path) -> None:
    sink_log(tmp_path, 2)
    shutil.rmtree(tmp_path / "_spark_metadata")
    (tmp_path / "_spark_metadata").mkdir()
    assert read_table_report(str(tmp_path)).head is None
