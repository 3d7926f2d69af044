"""A checkpoint without state: whether the query keeps any is known, hinted at, or known to the code alone."""

import shutil
from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.absent import KeepsState
from recovery.checkpoints.report import CheckpointReport, Outcome
from tests.damages import frozen
from tests.written_by_others import unpack

UNTOLD, WATERMARK, MISSING = "STATE_UNTOLD", "STATE_UNTOLD_WATERMARK", "STATE_MISSING"
YES, NO, UNKNOWN = KeepsState
OPEN, FAILS, GOES_ON = Outcome.OPEN, Outcome.FAILS, Outcome.GOES_ON


def laid_out(base: str, root: Path) -> Path:
    frozen.lay_out(frozen.load(base), root / "place")
    return root / "place/flow/0"


def said_of_state(report: CheckpointReport) -> tuple[Outcome, set[str]]:
    return report.outcome, {f.code for f in report.findings} & {UNTOLD, WATERMARK, MISSING}


def stateless(base: str, root: Path) -> Path:
    """A good checkpoint of a query without a stateful step."""
    where = laid_out(base, root)
    assert not (where / "state").exists()
    return where


def bereft(base: str, root: Path) -> Path:
    """One that has lost all of its state."""
    where = laid_out(base, root)
    shutil.rmtree(where / "state")
    return where


def emptied(base: str, root: Path) -> Path:
    """One whose operators are gone, and not the directory above them."""
    where = laid_out(base, root)
    shutil.rmtree(where / "state")
    (where / "state").mkdir()
    return where


@pytest.mark.parametrize(
    ("make", "base", "keeps_state", "outcome", "codes"),
    [
        (stateless, "files to a file table", UNKNOWN, OPEN, {UNTOLD}),
        (bereft, "dropDuplicates", UNKNOWN, OPEN, {UNTOLD}),
        (bereft, "windows", UNKNOWN, OPEN, {WATERMARK}),
        (stateless, "files to a file table", NO, GOES_ON, set()),
        (bereft, "dropDuplicates", YES, FAILS, {MISSING}),
        (emptied, "dropDuplicates", UNKNOWN, FAILS, {MISSING}),
        (emptied, "dropDuplicates", NO, GOES_ON, set()),  # the code has dropped it since
        (bereft, "RocksDB, commits in format 2", UNKNOWN, FAILS, {MISSING}),
        (laid_out, "dropDuplicates", UNKNOWN, GOES_ON, set()),
        (laid_out, "dropDuplicates", YES, GOES_ON, set()),
    ],
)
def test_what_no_file_tells_is_not_promised(
    tmp_path: Path, make: object, base: str, keeps_state: KeepsState, outcome: Outcome, codes: set[str]
) -> None:
    where = make(base, tmp_path)  # type: ignore[operator]
    assert said_of_state(inspect_checkpoint(str(where), keeps_state=keeps_state)) == (outcome, codes)


def test_who_compares_the_operators_of_the_code_is_told_of_lost_state_alone(tmp_path: Path) -> None:
    assert said_of_state(inspect_checkpoint(str(bereft("windows", tmp_path / "a")))) == (GOES_ON, set())
    assert said_of_state(inspect_checkpoint(str(emptied("windows", tmp_path / "b")))) == (FAILS, {MISSING})


def test_asynchronous_progress_tells_that_there_is_none(tmp_path: Path) -> None:
    where = unpack("spark-4.2.0", "async-progress", tmp_path) / "checkpoint"
    assert said_of_state(inspect_checkpoint(str(where), keeps_state=UNKNOWN)) == (GOES_ON, set())


def test_a_commit_of_format_2_that_names_no_operator_tells_that_there_is_none(tmp_path: Path) -> None:
    where = stateless("files to a file table", tmp_path)
    newest = where / "commits/2"
    newest.write_text('v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}')
    assert said_of_state(inspect_checkpoint(str(where), keeps_state=UNKNOWN)) == (GOES_ON, set())


@pytest.mark.parametrize("keeps_state", list(KeepsState))
def test_before_a_batch_is_committed_there_is_no_state_to_miss(
    tmp_path: Path, keeps_state: KeepsState
) -> None:
    where = unpack("spark-4.2.0", "files-to-files", tmp_path) / "checkpoint"
    for name in ("offsets", "commits"):
        for file in (where / name).iterdir():
            if file.name not in ("0", ".0.crc") or name == "commits":
                file.unlink()
    assert said_of_state(inspect_checkpoint(str(where), keeps_state=keeps_state))[1] == set()
