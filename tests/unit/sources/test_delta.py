"""Positions in a Delta table: what a line says, what lies between, what an option would do, what stops a stream."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoints.formats import Malformed
from recovery.contracts.amounts import Amount
from recovery.errors import Refused
from recovery.sources import delta
from recovery.sources.base import Distance, PartMove, PositionedSource, Precision, StartChoice
from recovery.sources.delta_facts import (
    BASE,
    DeltaFacts,
    DeltaOffset,
    DeltaReadOptions,
    commit_of,
    parse_offset,
)
from recovery.sources.live import delta as live
from tests.delta_tables import EPOCH_MS, SCHEMA, TABLE, add, info, metadata, remove, table

HOUR, DAY = 3_600_000, 24 * 3_600_000
KIND: PositionedSource[DeltaFacts] = delta


def line(version: int, index: int = BASE, *, initial: bool = False, table_id: str = TABLE) -> str:
    return DeltaOffset(table_id, version, index, initial).as_json()


def read(where: Path, *lines: str | None, look: bool = False, **options: Any) -> DeltaFacts:
    """Facts without looking for data files, which these tables do not have; asked an hour after the first commit."""
    return live.read_table(str(where), offsets=lines, options=options, now_ms=EPOCH_MS + HOUR, look=look)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Version 0: two files; 1: five files of 1 to 5 rows; 2: nothing but properties; 3: one file."""
    return table(
        tmp_path / "table",
        [
            [add("a"), add("b")],
            [add(f"c{n}", n) for n in range(1, 6)],
            [info("SET TBLPROPERTIES")],
            [add("d", 7)],
        ],
    )


WRITTEN = '{"sourceVersion":%d,"reservoirId":"t","reservoirVersion":%d,"index":%d,"isStartingVersion":%s}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WRITTEN % (1, 12, -1, "false"), DeltaOffset("t", 12, BASE)),
        (WRITTEN % (1, 12, 2, "false"), DeltaOffset("t", 12, 2)),
        (WRITTEN % (1, 0, 1, "true"), DeltaOffset("t", 0, 1, True)),
        (WRITTEN % (3, 2, -20, "false"), DeltaOffset("t", 2, -20)),
        (WRITTEN % (3, 2, -19, "false"), DeltaOffset("t", 2, -19)),
        (WRITTEN % (3, 2, -100, "false"), DeltaOffset("t", 2, BASE)),
    ],
)
def test_a_line_is_read_as_delta_reads_it(text: str, expected: DeltaOffset) -> None:
    assert parse_offset(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "{}",
        WRITTEN % (0, 1, 0, "false"),
        WRITTEN % (2, 1, 0, "false"),
        WRITTEN % (4, 1, 0, "false"),
        WRITTEN % (3, 1, -1, "false"),
        WRITTEN % (1, 1, -20, "false"),
        WRITTEN % (1, -1, 0, "false"),
        WRITTEN % (1, 1, (1 << 63) - 101, "false"),
        WRITTEN % (1, 1, 0, '"no"'),
        '{"sourceVersion":1,"reservoirId":"","reservoirVersion":1,"index":0,"isStartingVersion":false}',
    ],
)
def test_a_line_that_delta_refuses_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        parse_offset(text)


@given(
    st.integers(0, 1 << 40),
    st.sampled_from([BASE, -20, -19, 0, 5, 1 << 40]),
    st.booleans(),
    st.text(min_size=1).filter(lambda t: t.encode(errors="replace") == t.encode("utf-8", "replace")),
)
def test_a_line_that_is_written_reads_back_the_same(
    version: int, index: int, initial: bool, name: str
) -> None:
    offset = DeltaOffset(name.encode("utf-8", "replace").decode(), version, index, initial)
    assert parse_offset(offset.as_json()) == offset


@pytest.mark.parametrize(
    ("offset_json", "words"),
    [
        (None, "nothing read yet"),
        (line(12), "version 12, from its beginning"),
        (line(12, 2), "version 12, file 3"),
        (line(4, 0, initial=True), "first snapshot (version 4), file 1"),
        (line(4, -19), "version 4, after its change of schema"),
    ],
)
def test_a_position_is_said_in_words(offset_json: str | None, words: str) -> None:
    assert KIND.label_position(offset_json) == words


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        (line(1), line(1), [PartMove.SAME]),
        (line(1), line(1, 0), [PartMove.FORWARD]),
        (line(2), line(1, 4), [PartMove.BACK]),
        (line(2, 1, initial=True), line(3), [PartMove.FORWARD]),
        (line(3), line(2, 1, initial=True), [PartMove.BACK]),
        (line(2, 1, initial=True), line(2), [PartMove.UNCLEAR]),
        (line(2, 1, initial=True), line(4, 1, initial=True), [PartMove.UNCLEAR]),
        (line(2), line(2, table_id="another"), [PartMove.GONE, PartMove.NEW]),
        (None, line(2), [PartMove.NEW]),
        (line(2), None, [PartMove.GONE]),
    ],
)
def test_two_positions_are_compared(before: str | None, after: str | None, moved: list[PartMove]) -> None:
    assert [c.moved for c in KIND.compare_positions(before, after)] == moved


@pytest.mark.parametrize(
    ("start", "end", "rows", "files"),
    [
        (line(0), line(4), 26, 8),
        (line(1, 2), line(4), 16, 3),
        (line(1, 2), line(1, 3), 4, 1),
        (line(1, 4), line(2), 0, 0),
        (line(3), line(1, 0), 14, 4),
        (line(0, 0, initial=True), line(1), 2, 1),
        (line(1, 0, initial=True), line(3), 17, 6),
        (line(2), line(0), 19, 7),
        (None, line(0, 0, initial=True), 2, 1),
        (None, line(2), 19, 7),
    ],
)
def test_what_lies_between_is_counted_from_the_log(
    plain: Path, start: str | None, end: str, rows: int, files: int
) -> None:
    """From a snapshot too: those of one version are read by time and path."""
    facts = read(plain, start, end)
    found = KIND.measure_distance(start, end, facts)
    assert (found.rows and found.rows.value, found.files and found.files.value) == (rows, files)
    assert found.rows
    assert found.rows.exact
    assert KIND.measure_distance(end, start, facts).rows == found.rows


def test_a_file_that_a_change_feed_tells_twice_counts_twice(tmp_path: Path) -> None:
    """Added in version 1, removed in version 2; the snapshot of version 1 has it once."""
    where = table(tmp_path / "t", [[add("a", 3)], [add("b", 5)], [remove("b", 5)]])
    ends = [line(0), line(1, BASE, initial=True)]
    facts = read(where, *ends, readChangeFeed="true")
    assert KIND.measure_distance(line(0), line(3), facts).rows == Amount(value=3 + 5 + 5)
    assert KIND.measure_distance(ends[1], ends[0], facts).rows == Amount(value=0)
    assert KIND.measure_distance(line(3), ends[1], facts).rows == Amount(value=3 + 5 + 5)


def test_where_a_start_by_time_would_begin_is_not_guessed(plain: Path) -> None:
    facts = read(plain, None, line(0), startingTimestamp="2026-01-01")
    assert KIND.measure_distance(None, line(1), facts) == Distance()
    assert KIND.judge_reach(None, facts).readable is None


def test_earlier_commits_are_read_for_a_position_that_may_be_chosen(plain: Path) -> None:
    wanted = StartChoice(version=0)
    facts = read(plain, line(3))
    assert KIND.find_position(wanted, line(3), facts).reread == Distance()
    facts = live.read_table(
        str(plain), offsets=[line(3)], options={}, since=0, known=facts, now_ms=facts.asked_ms, look=False
    )
    assert KIND.find_position(wanted, line(3), facts).reread.rows == Amount(value=19)


def test_time_between_two_positions_is_that_of_their_commits(plain: Path) -> None:
    found = KIND.measure_distance(line(1), line(3), read(plain, line(1)))
    assert found.seconds
    assert found.seconds.value == 120


def test_files_without_statistics_are_estimated_and_it_is_said(tmp_path: Path) -> None:
    where = table(tmp_path / "t", [[add("a", 10, size=100)], [add("b", None, size=50)]])
    found = KIND.measure_distance(line(0), line(2), read(where, line(0)))
    assert found.rows
    assert (found.rows.value, found.rows.exact) == (15, False)
    assert "1 of 2 files have no row count" in found.rows.why
    none = KIND.measure_distance(line(1), line(2), read(where, line(1)))
    assert (none.rows, none.files and none.files.value) == (None, 1)


def test_rows_that_are_marked_as_deleted_do_not_count(tmp_path: Path) -> None:
    where = table(tmp_path / "t", [[add("a", 10, deletionVector={"pathOrInlineDv": "x", "cardinality": 4})]])
    found = KIND.measure_distance(line(0), line(1), read(where, line(0)))
    assert found.rows
    assert found.rows.value == 6


@pytest.mark.parametrize(
    ("actions", "options", "paths"),
    [
        ([add("a"), add("b", dataChange=False)], {}, ["a"]),
        ([add("a"), remove("b")], {}, ["a"]),
        ([add("a"), remove("b")], {"SkipChangeCommits": "true"}, []),
        ([add("a"), remove("b", dataChange=False)], {"skipChangeCommits": True}, ["a"]),
        ([add("a"), remove("b")], {"readChangeFeed": "true"}, ["a", "b"]),
        ([add("a"), remove("b"), {"cdc": {"path": "c", "size": 1}}], {"readChangeFeed": "true"}, ["c"]),
        ([add("a", dataChange=False), remove("b", dataChange=False)], {"readChangeFeed": "true"}, []),
        (
            [
                info(
                    "MERGE",
                    operationMetrics=dict.fromkeys(
                        ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"), "0"
                    ),
                ),
                add("a"),
                remove("b"),
            ],
            {"readChangeFeed": "true"},
            [],
        ),
    ],
)
def test_a_stream_reads_of_a_commit_what_its_options_say(
    actions: list[dict[str, Any]], options: dict[str, Any], paths: list[str]
) -> None:
    assert [f.path for f in commit_of(3, 0, actions, DeltaReadOptions.from_options(options)).files] == paths


MARKS, MORE = ({"pathOrInlineDv": name, "cardinality": n} for name, n in (("x", 3), ("y", 5)))


@pytest.mark.parametrize(
    ("went", "came", "rows"),
    [
        ({}, {"deletionVector": MARKS}, Amount(value=3)),
        ({"deletionVector": MORE}, {}, Amount(value=5)),
        ({"deletionVector": MARKS}, {"deletionVector": MORE}, None),
    ],
    ids=["rows are deleted", "rows come back", "which of them is not known"],
)
def test_of_marks_in_a_file_a_change_feed_yields_the_marked_rows_alone(
    tmp_path: Path, went: dict[str, Any], came: dict[str, Any], rows: Amount | None
) -> None:
    """DELETE by a deletion vector takes the file and puts it back: neither the file's 100 rows nor 97 of them came."""
    deleted = [remove("a", **went), add("a", 100, **came)]
    where = table(tmp_path / "t", [[add("a", 100)], deleted])
    found = KIND.measure_distance(line(1), line(2), read(where, line(1), readChangeFeed="true"))
    assert found.rows == rows
    assert all(
        f.vector for f in commit_of(1, 0, deleted, DeltaReadOptions(change_feed=True)).files
    )  # no footer is asked


def test_a_whole_version_is_an_exact_start(plain: Path) -> None:
    told = KIND.find_start_option(line(1), read(plain, line(1), readChangeFeed="true"))
    assert (told.supported, told.precision) == (True, Precision.EXACT)
    assert told.code == '.option("readChangeFeed", "true").option("startingVersion", "1")'
    assert told.doubled
    assert told.doubled.value == 0


@pytest.mark.parametrize("version", [1, 4])
@pytest.mark.parametrize("own", ["startingTimestamp", "startingVersion"])
def test_the_option_takes_the_place_of_the_readers_own(plain: Path, own: str, version: int) -> None:
    """Delta refuses startingVersion and startingTimestamp together."""
    told = KIND.find_start_option(line(version), read(plain, line(version), **{own: "2026-01-01"}))
    assert told.place.startswith(f"instead of {own}, to be taken out of the code; on the reader")


def test_a_start_inside_a_version_doubles_what_is_before_it(plain: Path) -> None:
    told = KIND.find_start_option(line(1, 2), read(plain, line(1, 2)))
    assert (told.precision, told.options) == (Precision.AT_LEAST_ONCE, {"startingVersion": "1"})
    assert told.doubled
    assert told.doubled.value == 1 + 2 + 3
    assert "startingVersion 2 would miss 9 rows" in told.note


def test_a_version_that_is_read_to_its_last_file_doubles_nothing_by_the_option_of_the_next(
    plain: Path,
) -> None:
    """A change feed's position stays there."""
    facts = read(plain, line(1, 0), readChangeFeed="true")
    last = len(facts.commits[1].files) - 1
    told = KIND.find_start_option(line(1, last), facts)
    assert (told.precision, told.options["startingVersion"]) == (Precision.EXACT, "2")
    newest = KIND.find_start_option(line(facts.latest, len(facts.commits[facts.latest].files) - 1), facts)
    assert newest.options["startingVersion"] == "latest"


@pytest.mark.parametrize(
    ("offset_json", "supported", "says"),
    [
        (None, True, "begins with the table as it is"),
        (line(4), True, "not committed yet"),
        (line(5), False, "beyond the table"),
        (line(3, 1, initial=True), False, "No option begins within a snapshot"),
        (line(1, table_id="old"), False, "another table"),
    ],
)
def test_where_an_option_cannot_say_it_the_reason_is_given(
    plain: Path, offset_json: str | None, supported: bool, says: str
) -> None:
    told = KIND.find_start_option(offset_json, read(plain, offset_json))
    assert told.supported is supported
    assert says in told.note


@pytest.mark.parametrize(
    ("wanted", "expected", "lost", "reread"),
    [
        (StartChoice(version=3), line(3), 12, 0),
        (StartChoice(version=0), line(0), 0, 4 + 3),
        (StartChoice(latest=True), line(4), 12 + 7, 0),
        (StartChoice(earliest=True), line(0), 0, 4 + 3),
        (StartChoice(file="c4"), line(1, 3), 7, 0),
        (StartChoice(file="c5"), line(2), 12, 0),
        (StartChoice(by_hand=line(1, 0)), line(1, 0), 0, 2),
        (StartChoice(by_hand=line(3, BASE, initial=True)), line(3, BASE, initial=True), 0, 4 + 3),
        (StartChoice(at_ms=EPOCH_MS + 60_000), line(1), 0, 3),
        (StartChoice(at_ms=EPOCH_MS + 60_001), line(2), 12, 0),
        (StartChoice(at_ms=EPOCH_MS - DAY), line(0), 0, 4 + 3),
        (StartChoice(at_ms=EPOCH_MS + HOUR), line(4), 12 + 7, 0),
    ],
)
def test_a_chosen_position_tells_what_is_lost_and_read_again(
    plain: Path, wanted: StartChoice, expected: str, lost: int, reread: int
) -> None:
    """Against one that has read two files of version 1, with 3 rows."""
    where = line(1, 1)
    more = [wanted.by_hand] if wanted.by_hand else []
    chosen = KIND.find_position(wanted, where, read(plain, where, line(0), *more))
    assert chosen.offset_json == expected
    assert (chosen.lost.rows and chosen.lost.rows.value) == lost
    assert (chosen.reread.rows and chosen.reread.rows.value) == reread
    assert chosen.fallbacks == {}


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (StartChoice(version=5), "the log holds 0 to 3, and 4 would be read next"),
        (StartChoice(version=-1), "out of bounds"),
        (StartChoice(at_ms=EPOCH_MS + HOUR + 1), "still to come"),
        (StartChoice(file="zzz"), "has the file zzz"),
        (StartChoice(by_hand=line(1, 5)), "has 5 files to read, so index 5 is out of bounds"),
        (StartChoice(by_hand=line(9)), "out of bounds"),
        (StartChoice(by_hand=line(1, table_id="old")), "names table old"),
        (StartChoice(by_hand=line(9, initial=True)), "does not follow from the log"),
        (StartChoice(), "Name exactly one position of a Delta table"),
    ],
)
def test_a_wish_out_of_bounds_is_refused_with_the_bounds(plain: Path, wanted: StartChoice, says: str) -> None:
    with pytest.raises(Refused, match=says):
        KIND.find_position(wanted, line(1), read(plain, line(0)))


def test_a_log_that_begins_late_bounds_every_wish(plain: Path) -> None:
    facts = read(plain, line(0))
    late = replace(facts, earliest=2, times={v: t for v, t in facts.times.items() if v >= 2})
    with pytest.raises(Refused, match="from version 2 on"):
        KIND.find_position(StartChoice(at_ms=EPOCH_MS + 60_000), line(2), late)
    with pytest.raises(Refused, match="holds 2 to 3"):
        KIND.find_position(StartChoice(version=1), line(2), late)
    assert (
        "before 2 are no longer in the log"
        in KIND.find_position(StartChoice(earliest=True), line(2), late).fallbacks[TABLE]
    )


def test_of_what_was_not_read_nothing_is_said(plain: Path) -> None:
    facts = read(plain, line(3))
    assert KIND.measure_distance(line(0), line(3), facts) == Distance()
    assert KIND.judge_reach(line(0), facts).readable is None


RENAMED = SCHEMA.replace('"id"', '"key"')
WIDER = SCHEMA.replace("}]", '}, {"name": "more", "type": "string", "nullable": true, "metadata": {}}]')


@pytest.mark.parametrize(
    ("actions", "options", "says"),
    [
        ([add("x")], {}, ""),
        ([remove("a")], {}, "DELTA_SOURCE_IGNORE_DELETE"),
        ([remove("a")], {"ignoreDeletes": "true"}, ""),
        ([remove("a"), add("x")], {}, "DELTA_SOURCE_TABLE_IGNORE_CHANGES"),
        ([remove("a"), add("x")], {"ignoreDeletes": "true"}, "DELTA_SOURCE_TABLE_IGNORE_CHANGES"),
        ([remove("a"), add("x")], {"skipChangeCommits": "true"}, ""),
        ([remove("a"), add("x")], {"ignoreChanges": "true"}, ""),
        ([remove("a"), add("x")], {"readChangeFeed": "true"}, ""),
        ([remove("a", dataChange=False), add("x", dataChange=False)], {}, ""),
        ([metadata(schema=RENAMED)], {}, "The schema before version 1"),
        ([metadata(schema=WIDER)], {}, ""),
    ],
)
def test_what_stops_a_stream_is_said_before_it_does(
    tmp_path: Path, actions: list[dict[str, Any]], options: dict[str, Any], says: str
) -> None:
    where = table(tmp_path / "t", [[add("a")], actions, [add("z")]])
    facts = replace(read(where, line(0, 0), **options), looked=True)
    told = KIND.judge_reach(line(0, 0), facts)
    assert told.readable is (not says)
    assert says in told.why


def test_until_when_is_the_earlier_of_log_and_files(tmp_path: Path) -> None:
    """A log's file goes at the first midnight after its retention; a removed file when VACUUM may take it."""
    gone = EPOCH_MS + 5 * HOUR
    commits = [
        [add("a")],
        [add("b")],
        [remove("b", at_ms=gone, dataChange=False), add("c", dataChange=False)],
    ]
    where = table(tmp_path / "t", commits, **{"delta.logRetentionDuration": "interval 2 days"})
    facts = replace(read(where, line(1), line(2)), looked=True)
    due = EPOCH_MS + 60_000 + 2 * DAY
    midnight = -(-due // DAY) * DAY
    assert KIND.judge_reach(line(1), facts).until_ms == midnight
    slow = replace(facts, log_retention_ms=None)
    assert KIND.judge_reach(line(1), slow).until_ms == gone + 7 * DAY
    assert KIND.judge_reach(line(2), slow).until_ms is None


def test_files_that_are_gone_are_counted_in_rows(plain: Path) -> None:
    facts = read(plain, line(1, 1), look=True)
    told = KIND.judge_reach(line(1, 1), facts)
    assert told.readable is False
    assert told.lost
    assert told.lost.rows
    assert (told.lost.rows.value, told.lost.files and told.lost.files.value) == (19, 4)
