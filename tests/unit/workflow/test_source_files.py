"""Source files that were written again since the plan was sealed are seen, and no others."""

import getpass
import os
from pathlib import Path

import pytest

from recovery.checkpoints.report import CheckpointReport, Entries, SourceEntry, SourceProgress
from recovery.checkpoints.storage import Store
from recovery.contracts.measured import ChangedFiles, FileMark
from recovery.workflow.evidence import perhaps_read, read_since
from recovery.workflow.source_files import SHOWN, find_changed, owners_of
from tests.factories.plans import plan_contents, planned_input

AT = 1_700_000_000_123  # ms


def looked(folder: Path, files: dict[str, tuple[int, int]], *, sealed: bool = True) -> ChangedFiles | None:
    """After a rerun that read these files, each named with its size at the seal and the time that Spark listed."""
    paths = {name: f"file://{folder}/{name}" for name in files}
    report = log_of(folder, {name: read for name, (_, read) in files.items()})
    waiting = (
        [{"path": paths[n], "size": size, "mtime_ms": AT} for n, (size, _) in files.items()] if sealed else []
    )
    contents = plan_contents(inputs=[planned_input(location=str(folder))], waiting_files=waiting)
    return find_changed(contents, report, paths.values())


def log_of(folder: Path, files: dict[str, int]) -> CheckpointReport:
    """A checkpoint that has read these files, with the time of each as Spark listed it."""
    entries = Entries.from_entries(
        SourceEntry(f"file://{folder}/{name}", at, n) for n, (name, at) in enumerate(files.items())
    )
    source = SourceProgress(0, "files", '{"logOffset":1}', 1, entries)
    return CheckpointReport("/c", "structured-streaming", 0, "q", 1, 1, (source,))


@pytest.mark.parametrize(
    ("read", "now", "number", "replaced"),
    [(AT, AT, 0, 0), (AT + 5000, AT + 5000, 1, 1), (AT, AT + 5000, 1, 0), (AT + 5000, AT, 1, 1)],
    ids=["the same file", "replaced before it was read again", "replaced since", "replaced, and back again"],
)
def test_a_file_that_is_read_again_is_compared_with_what_was_read_before(
    tmp_path: Path, read: int, now: int, number: int, replaced: int
) -> None:
    put(tmp_path, "a.json", at=now)
    contents = plan_contents(inputs=[planned_input(location=str(tmp_path))])
    found = find_changed(
        contents,
        log_of(tmp_path, {"a.json": read}),
        [f"file://{tmp_path}/a.json"],
        before=log_of(tmp_path, {"a.json": AT}),
    )
    assert found is not None
    assert (found.number, found.replaced) == (number, replaced)


def put(folder: Path, name: str, size: int = 10, at: int = AT) -> None:
    (folder / name).write_bytes(b"x" * size)
    os.utime(folder / name, ns=(at * 1_000_000, at * 1_000_000))


CASES = {
    # size at the seal, time as read, size and time now (None: gone) -> changed, since it was read
    "nothing": ((10, AT), (10, AT), None),
    "written again after it was read": ((10, AT), (10, AT + 2000), True),
    "written again within the same second": ((10, AT), (10, AT + 1), True),
    "another size, its time set back": ((9, AT), (10, AT), False),
    "written again before it was read": ((10, AT + 5000), (10, AT + 5000), False),
    "gone": ((10, AT), None, True),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_is_not_what_it_was_is_seen(tmp_path: Path, case: str) -> None:
    then, now, since_read = CASES[case]
    if now is not None:
        put(tmp_path, "a.json", *now)
    found = looked(tmp_path, {"a.json": then})
    assert found is not None
    assert found.looked_at == 1
    assert [f.since_read for f in found.first] == ([] if since_read is None else [since_read])


def test_a_file_that_came_after_the_seal_is_compared_with_what_was_read_alone(tmp_path: Path) -> None:
    put(tmp_path, "a.json")
    found = looked(tmp_path, {"a.json": (10, AT)}, sealed=False)
    assert (found and found.number) == 0


def test_it_is_not_known_where_the_files_cannot_be_listed_and_never_called_unchanged(tmp_path: Path) -> None:
    assert looked(tmp_path / "away", {"a.json": (10, AT)}) is None


def test_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    found = looked(tmp_path, {f"{n:03}.json": (10, AT) for n in range(SHOWN + 5)})
    assert found is not None
    assert (found.number, len(found.first)) == (SHOWN + 5, SHOWN)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (FileMark(1, AT), FileMark(2, AT), True),
        (FileMark(None, AT), FileMark(2, AT), False),
        (FileMark(1, None), FileMark(1, AT), False),  # not known
        (FileMark(1, AT), FileMark(1, AT - AT % 1000), False),  # one store keeps whole seconds
        (FileMark(1, AT), FileMark(1, AT - AT % 1000 + 1000), True),
    ],
)
def test_marks_show_another_file_where_what_both_have_differs(
    one: FileMark, other: FileMark, apart: bool
) -> None:
    assert one.differs_from(other) is other.differs_from(one) is apart


def test_a_local_file_has_an_owner_and_one_that_is_gone_has_none(tmp_path: Path) -> None:
    put(tmp_path, "a b.json")
    there, gone = f"file://{tmp_path}/a b.json", f"file://{tmp_path}/gone.json"
    assert owners_of([there, gone, there]) == {there: getpass.getuser()}
    assert Store.open("memory://bucket").owner("a") == ""


def test_of_what_arrived_a_further_update_may_have_read_what_its_checkpoint_names(tmp_path: Path) -> None:
    entries = Entries.from_entries([SourceEntry("file:///in/a%20b.json", 0, 1)])
    source = SourceProgress(0, "files", '{"logOffset":1}', 1, entries)
    report = CheckpointReport("/c", "structured-streaming", 0, "q", 1, 1, (source,))
    arrived = ("file:///in/a b.json", "file:///in/waits.json", "source 1")
    assert perhaps_read(report, arrived) == ("file:///in/a b.json", "source 1")
    assert perhaps_read(report, ()) == ()


def test_what_waited_before_a_further_update_and_was_read_by_it_is_named() -> None:
    entries = [SourceEntry(f"file:///in/{n}%20.json", 0, n) for n in range(3)]
    files = SourceProgress(0, "files", '{"logOffset":2}', 2, Entries.from_entries(entries))
    topic = SourceProgress(1, "kafka", '{"t":{"0":9}}')
    report = CheckpointReport("/c", "structured-streaming", 0, "q", 1, 1, (files, topic))
    assert read_since(report, ('{"logOffset":0}', '{"t":{"0":9}}')) == (
        "file:///in/1 .json",
        "file:///in/2 .json",
    )
    assert read_since(report, ('{"logOffset":2}', '{"t":{"0":7}}')) == ("source 1",)
    assert read_since(report, ('{"logOffset":2}', '{"t":{"0":9}}')) == ()
    assert read_since(report, None) == ()
