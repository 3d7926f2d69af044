"""Which source of the code is which of the checkpoint, and what Spark is asked to count of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from recovery.checkpoints.report import (
    CheckpointReport,
    Entries,
    Finding,
    Severity,
    SourceEntry,
    SourceProgress,
)
from recovery.contracts.amounts import Amount
from recovery.contracts.readers import SourceReader
from recovery.errors import Refused
from recovery.sources import file_facts, files
from recovery.sources.base import InputFile, InputSpans, Position, Precision, SourceFacts, StartChoice
from recovery.sources.delta_facts import DataFile, DeltaFacts, StreamedCommit
from recovery.sources.input_ranges import InputRange
from recovery.workflow.inputs import (
    identify_tables,
    inputs_of,
    match_sources,
    plan_counts,
    plan_moved_counts,
    with_rows,
)
from tests import delta_tables

KAFKA = SourceReader("kafka", options={"subscribe": "clicks"})
OTHER = SourceReader("kafka", options={"subscribe": "orders"})
FILES = SourceReader("json", "file:///in")


def progress(index: int, kind: str, line: str | None, *paths: str) -> SourceProgress:
    entries = Entries.from_entries(SourceEntry(p, 1, 0) for p in paths)
    position = {"clicks": {"0": 5}} if line and "clicks" in line else {"orders": {"0": 5}} if line else None
    return SourceProgress(
        index, kind, line, 0 if paths else None, entries, position=position if kind == "kafka" else None
    )


CLICKS = progress(0, "kafka", '{"clicks":{"0":5}}')
ORDERS = progress(1, "kafka", '{"orders":{"0":5}}')
READ = progress(1, "files", '{"logOffset":0}', "file:///in/a.json")


def report(*sources: SourceProgress) -> CheckpointReport:
    return CheckpointReport("/c", "structured-streaming", 0, "q", 1, 1, sources)


@pytest.mark.parametrize(
    ("held", "code", "old"),
    [
        ((CLICKS, READ), (KAFKA, FILES), [0, 1]),
        ((CLICKS, READ), (), [0, 1]),
        ((CLICKS, ORDERS), (OTHER, KAFKA), [1, 0]),
        ((CLICKS,), (FILES, KAFKA), [None, 0]),
        ((CLICKS, READ), (FILES,), [1]),
        ((CLICKS, READ), (FILES, KAFKA), [1, 0]),
        ((READ,), (replace(FILES, path="file:///elsewhere"),), [None]),
        ((READ,), (replace(FILES, path="file:///in/*.json"),), [1]),
        ((CLICKS,), (OTHER,), [None]),
        ((CLICKS,), (replace(KAFKA, options={"subscribePattern": "o.*"}),), [0]),
        ((CLICKS, READ), (OTHER, FILES), [None, 1]),
        ((progress(0, "kafka", None),), (OTHER,), [0]),
    ],
    ids=[
        *("as before", "code unknown", "swapped", "added", "removed", "kinds swapped", "another folder"),
        *("a pattern over the same folder", "another topic", "a pattern of topics: by order"),
        *("another topic beside the same folder", "nothing read yet: by order"),
    ],
)
def test_sources_go_on_as_what_they_were_wherever_the_code_puts_them(
    held: tuple[SourceProgress, ...], code: tuple[SourceReader, ...], old: list[int | None]
) -> None:
    found = match_sources(report(*held), code)
    assert [was for was, _ in found] == old
    assert [p.offset_json for _, p in found] == [
        None if was is None else next(s.offset_json for s in held if s.index == was) for was in old
    ]


def test_a_source_that_changed_its_place_keeps_the_folder_of_its_log() -> None:
    (_, moved), _ = match_sources(report(CLICKS, READ), (FILES, KAFKA))
    assert moved.index == 0
    assert moved.folder == "sources/1"


def test_a_wish_about_a_source_that_there_is_not_is_refused() -> None:
    with pytest.raises(Refused, match="no source 3"):
        inputs_of(report(CLICKS), (KAFKA,), wishes={"3": StartChoice(earliest=True)})


def source(**spans: InputRange | None) -> SourceFacts:
    files = (InputFile("a", 600, 1), InputFile("b", 600, 2))
    at = Position(0, "files", None, "", Precision.EXACT, True)
    return SourceFacts(at, "in", processed=files[:1], waiting=files[1:], spans=InputSpans(**spans))


def both(count: int) -> InputRange:
    return InputRange("kafka", start={"t": {"0": 0}}, end={"t": {"0": count}})


def test_what_one_source_cannot_tell_is_not_counted_for_the_others_alone() -> None:
    known = source(processed=InputRange("files", ("a",)), waiting=InputRange("files", ("b",)))
    unknown = source(processed=None, waiting=both(3))
    found = plan_counts((known, unknown), 10_000)
    assert set(found.sets) == {"waiting"}
    assert found.slices["waiting"] == {"1": both(3).as_dict()}
    assert not found.only_files


def test_a_file_that_two_sources_read_alike_is_named_once() -> None:
    one = source(waiting=InputRange("files", ("b",)))
    assert plan_counts((one, one), 10_000).sets == {"waiting": ("b",)}


def test_a_file_that_one_of_two_sources_alone_has_before_it_is_not_counted_for_both() -> None:
    """The other one has read it: what is counted of a folder is counted for every reader of it."""
    behind, ahead = (source(waiting=InputRange("files", paths)) for paths in (("a", "b"), ("b",)))
    assert plan_counts((behind, ahead), 10_000).sets == {}
    elsewhere = replace(
        ahead,
        processed=(),
        waiting=(InputFile("c", 600, 3),),
        spans=InputSpans(waiting=InputRange("files", ("c",))),
    )
    assert plan_counts((behind, elsewhere), 10_000).sets == {"waiting": ("a", "b", "c")}


def test_what_is_committed_is_left_out_where_all_of_it_is_too_much_to_read() -> None:
    files = {"processed": ("a",), "waiting": ("b",), "everything": ("a", "b")}
    one = source(**{name: InputRange("files", paths) for name, paths in files.items()})
    assert set(plan_counts((one,), 1000).sets) == {"waiting"}
    assert set(plan_counts((one,), 1200).sets) == {"processed", "waiting", "everything"}
    assert set(plan_counts((one,), 599).sets) == set()


DELTA = DeltaFacts(9, "t", "id", 0, 3, {v: StreamedCommit(v, v, grew=1000) for v in (1, 2, 3)}, size=9000)


@pytest.mark.parametrize(
    ("part", "size"),
    [
        (InputRange("delta", versions=((3, ("a",)),)), 9000),
        (InputRange("delta", versions=((2, ("a",)), (3, ("b",)))), 17_000),
        (InputRange("delta", versions=((3, ("a", "c")),), direct=True), 5),
    ],
    ids=["one version", "two versions", "files by themselves"],
)
def test_files_that_are_picked_out_of_a_version_weigh_as_much_as_all_of_it(
    part: InputRange, size: int
) -> None:
    held = {3: (DataFile("a", 2, 1), DataFile("c", 3, 1))}
    one = replace(source(waiting=part), facts=replace(DELTA, snapshots=held))
    assert set(plan_counts((one,), size - 1).sets) == set()
    assert set(plan_counts((one,), size).sets) == {"waiting"}


def test_files_of_a_version_whose_size_nobody_knows_are_not_counted() -> None:
    part = InputRange("delta", versions=((3, ("a",)),))
    one = replace(source(waiting=part), facts=replace(DELTA, size=None))
    assert set(plan_counts((one,), 10**18).sets) == set()


def test_records_of_kafka_weigh_too() -> None:
    one = source(waiting=both(10))
    assert set(plan_counts((one,), 9_999).sets) == set()
    assert set(plan_counts((one,), 10_000).sets) == {"waiting"}


def test_nothing_read_again_is_nothing_to_count() -> None:
    one = source(waiting=both(1), reread=InputRange("kafka"), skipped=both(2))
    assert set(plan_counts((one,), 10_000).sets) == {"waiting", "skipped"}


def started(wanted: StartChoice) -> SourceFacts:
    """A directory with two files, the first of which was read, started as wished."""
    told = file_facts.FileSourceFacts(
        log=(SourceEntry("file:///in/a.json", 1, 0),),
        listing=(InputFile("file:///in/a.json", 5, 1), InputFile("file:///in/b.json", 7, 2)),
        asked_ms=9,
    )
    start = files.find_position(wanted, '{"logOffset":0}', told)
    skipped = InputRange("files", files=("file:///in/b.json",) if start.lost.files != Amount(value=0) else ())
    again = InputRange("files", files=("file:///in/a.json",) if start.reread.files != Amount(value=0) else ())
    spans = InputSpans(InputRange("files"), InputRange("files"), again, skipped, InputRange("files"))
    position = Position(0, "files", '{"logOffset":0}', "", Precision.EXACT, True)
    return SourceFacts(position, "/in", start=start, facts=told, spans=spans, processed=told.listing or ())


def test_what_a_start_elsewhere_costs_is_counted_in_rows_where_files_alone_are_read() -> None:
    wishes = {"0": StartChoice(latest=True)}
    source = started(wishes["0"])
    assert source.start is not None
    assert source.start.lost.rows is None
    wanted = plan_moved_counts([source], 1000)
    assert wanted.sets == {"skipped": ("file:///in/b.json",)}
    found = with_rows([source], wishes, {"file:///in/b.json": 3})[0]
    assert found.start is not None
    assert (found.start.lost.rows, found.start.lost.files) == (Amount(value=3), Amount(value=1))


def test_nothing_is_counted_where_nothing_moves_or_the_limit_is_passed() -> None:
    source = started(StartChoice(latest=True))
    assert plan_moved_counts([started(StartChoice(by_hand='{"logOffset":0}'))], 1000).sets == {}
    assert plan_moved_counts([source], 1).sets == {}
    assert plan_moved_counts([], 1000).sets == {}


def test_rows_that_nobody_counted_stay_unknown() -> None:
    wishes = {"0": StartChoice(earliest=True)}
    found = with_rows([started(wishes["0"])], wishes, {})[0]
    assert found.start is not None
    assert (found.start.reread.rows, found.start.reread.files) == (None, Amount(value=1))


def test_delta_tables_tell_their_id_where_sources_have_to_be_told_apart(tmp_path: Path) -> None:
    """The checkpoint's one table is the second of the code: only its id says so."""
    there = delta_tables.table(tmp_path / "a", [[]], table_id="id-a")
    code = [SourceReader("delta", str(path)) for path in (tmp_path / "none", there)]
    held = SourceProgress(0, "delta", "{}", position={"reservoirId": "id-a"})
    identified = identify_tables(code, [held])
    assert [reader.table_id for reader in identified] == [None, "id-a"]
    assert [was for was, _ in match_sources(report(held), identified)] == [None, 0]
    assert identify_tables(code[1:], [held]) == tuple(code[1:])


def test_where_damage_hides_what_was_read_neither_that_nor_what_waits_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    blocked = Finding("OFFSETS_UNREADABLE", Severity.BLOCKER, "It cannot be read.", "Mend it.")
    code = (SourceReader("json", str(tmp_path)),)
    for broken, known in ((report(), True), (replace(report(), findings=(blocked,)), False)):
        (one,) = inputs_of(broken, code).sources
        assert (one.spans.processed is not None) is known
        assert (one.spans.waiting is not None) is known
        assert one.spans.everything is not None
