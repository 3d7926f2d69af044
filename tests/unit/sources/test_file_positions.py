"""Positions of a file source: what lies between, what can still be read, what a person's wish costs."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoints.report import Entries, SourceEntry, SourceProgress
from recovery.checkpoints.uris import decode_uri
from recovery.contracts.amounts import Amount, Bound
from recovery.errors import Refused
from recovery.sources import files
from recovery.sources.base import Distance, InputFile, PartMove, StartChoice
from recovery.sources.file_facts import facts_of

DAY = 86_400_000
T = 100 * DAY


def entry(name: str, log_id: int, mtime: int = T) -> SourceEntry:
    return SourceEntry(f"file:///in/{name}", mtime, log_id)


def there(name: str, mtime: int = T, size: int = 10) -> InputFile:
    return InputFile(f"file:///in/{name}", size, mtime)


def facts(
    log: Sequence[SourceEntry], listing: Sequence[InputFile] | None, **more: int
) -> files.FileSourceFacts:
    rows = {f"file:///in/{name}": 3 for name in "abcdefg"}
    return files.FileSourceFacts(
        tuple(log), None if listing is None else tuple(listing), rows, asked_ms=T + DAY, **more
    )


LOG = [entry("a", 0, T), entry("b", 0, T + 1), entry("c", 1, T + 1), entry("d", 2, T + 2)]
LISTED = [there(n, T + i) for n, i in (("a", 0), ("b", 1), ("c", 1), ("d", 2), ("e", 2), ("f", 3))]
AT_1 = '{"logOffset":1}'


def names(read: Sequence[SourceEntry]) -> str:
    return "".join(decode_uri(e.path)[-1] for e in read)


def test_what_lies_between_two_positions_is_counted() -> None:
    known = facts(LOG, LISTED)
    assert files.measure_distance(None, AT_1, known) == Distance(
        Amount(value=9), Amount(value=3), Amount(value=30), None
    )
    one = files.measure_distance('{"logOffset":0}', '{"logOffset":2}', known)
    assert (one.rows, one.files, one.bytes) == (Amount(value=6), Amount(value=2), Amount(value=20))
    assert one.seconds is not None
    assert not one.seconds.exact
    assert files.measure_distance(AT_1, '{"logOffset":9}', known) == Distance()


def test_rows_and_bytes_that_are_not_known_are_not_made_up() -> None:
    gone = facts([entry("x", 0), entry("a", 1)], [there("a")])
    found = files.measure_distance(None, AT_1, gone)
    assert (found.rows, found.files) == (None, Amount(value=2))
    assert found.bytes == Amount(value=10, bound=Bound.ESTIMATE, why="1 file not there to be measured")


@pytest.mark.parametrize(
    ("log", "listing", "readable", "lost", "says"),
    [
        (LOG, LISTED, True, None, "Every file"),
        (LOG, None, None, None, "could not be listed"),
        (LOG, LISTED[:3], False, 1, "1 file after this position is gone, such as d."),
        (LOG, LISTED[1:], True, None, "Every file"),  # one that was read is gone: nobody needs it
        (
            LOG,
            [*LISTED, there("g", T - 8 * DAY)],
            False,
            1,
            "older than the newest one read by more than maxFileAge",
        ),
        (LOG, [there("a", T + 9), *LISTED[1:]], True, None, "written again after being read, such as a"),
    ],
)
def test_what_can_still_be_read(
    log: Sequence[SourceEntry],
    listing: Sequence[InputFile] | None,
    readable: bool | None,
    lost: int | None,
    says: str,
) -> None:
    found = files.judge_reach(AT_1, facts(log, listing))
    assert found.readable is readable
    assert says in found.why
    assert (found.lost and found.lost.files) == (lost and Amount(value=lost))


@pytest.mark.parametrize(
    ("wanted", "line", "read", "lost", "reread", "moved"),
    [
        (StartChoice(file="/in/c"), AT_1, "abc", 0, 0, PartMove.SAME),
        (StartChoice(file="file:///in/a"), '{"logOffset":0}', "a", 0, 2, PartMove.BACK),
        (StartChoice(file="/in/e"), '{"logOffset":3}', "abcde", 2, 0, PartMove.FORWARD),
        (
            StartChoice(at_ms=T + 1),
            '{"logOffset":0}',
            "a",
            0,
            2,
            PartMove.BACK,
        ),  # b and c share that time: both come again
        (StartChoice(at_ms=T + 2), AT_1, "abc", 0, 0, PartMove.SAME),
        (StartChoice(at_ms=T + 3), '{"logOffset":3}', "abcde", 2, 0, PartMove.FORWARD),
        (StartChoice(earliest=True), '{"logOffset":-1}', "", 0, 3, PartMove.BACK),
        (StartChoice(latest=True), '{"logOffset":3}', "abcdef", 3, 0, PartMove.FORWARD),
        (StartChoice(by_hand='{"logOffset":2}'), '{"logOffset":2}', "abcd", 1, 0, PartMove.FORWARD),
        (StartChoice(by_hand='{"logOffset":-1}'), '{"logOffset":-1}', "", 0, 3, PartMove.BACK),
    ],
    ids=str,
)
def test_a_wish_says_what_it_costs(
    wanted: StartChoice, line: str, read: str, lost: int, reread: int, moved: PartMove
) -> None:
    found = files.find_position(wanted, AT_1, facts(LOG, LISTED))
    assert (found.offset_json, names(found.read)) == (line, read)
    assert (found.lost.files, found.reread.files) == (Amount(value=lost), Amount(value=reread))
    assert (found.lost.rows, found.reread.rows) == (Amount(value=3 * lost), Amount(value=3 * reread))
    assert [c.moved for c in found.changes] == [moved]
    assert not found.fallbacks


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (StartChoice(file="/in/zzz"), "/in/zzz is neither in the source's log"),
        (StartChoice(at_ms=T + 2 * DAY), "is in the future"),
        (StartChoice(by_hand='{"logOffset":7}'), "up to 2"),
        (StartChoice(version=3), "cannot be positioned by a version"),
    ],
)
def test_a_wish_out_of_bounds_is_refused_with_the_bounds(wanted: StartChoice, says: str) -> None:
    with pytest.raises(Refused, match=says):
        files.find_position(wanted, AT_1, facts(LOG, LISTED))


def test_what_cannot_be_had_as_wished_is_said() -> None:
    gone = files.find_position(StartChoice(earliest=True), AT_1, facts(LOG, LISTED[1:]))
    assert gone.fallbacks == {"directory": "1 file that would be read again is gone."}
    assert gone.reread.files == Amount(value=2)
    early = files.find_position(StartChoice(at_ms=5), AT_1, facts(LOG, LISTED))
    assert "begins with the oldest" in early.fallbacks["directory"]
    late = facts([entry("a", 0, T), entry("b", 1, T - 9 * DAY)], [there("a"), there("b", T - 9 * DAY)])
    found = files.find_position(StartChoice(file="/in/a"), AT_1, late)
    assert found.reread.files == Amount(value=0)
    assert found.fallbacks == {"directory": "1 file would be too old to be read again (maxFileAge)."}
    anew = files.find_position(
        StartChoice(earliest=True), AT_1, facts(LOG, [*LISTED, there("g", T - 8 * DAY)])
    )
    assert "ignores now as too old would be read" in anew.fallbacks["directory"]


def test_a_file_that_spark_ignores_is_not_lost_by_skipping_it() -> None:
    found = files.find_position(
        StartChoice(latest=True), AT_1, facts(LOG, [*LISTED[:3], there("g", T - 8 * DAY)])
    )
    assert found.lost.files == Amount(value=0)


def test_facts_come_from_a_source_s_progress() -> None:
    done = SourceProgress(0, "files", AT_1, 1, Entries.from_entries(LOG[:3]), Entries.from_entries(LOG[3:]))
    found = facts_of(done, LISTED, asked_ms=T + DAY)
    assert (len(found.log), found.newest_entry) == (4, 2)
    assert files.describe_progress(done) == "3 read, newest c (log entry 1); 1 planned, not committed"


logs = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 3), st.integers(0, 9)), max_size=8)
listings = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 9)), max_size=8, unique_by=lambda f: f[0]
)
wishes = st.one_of(
    st.builds(StartChoice, at_ms=st.integers(0, 9)),
    st.builds(StartChoice, file=st.sampled_from(["/in/a", "/in/d"])),
    st.just(StartChoice(earliest=True)),
    st.just(StartChoice(latest=True)),
    st.integers(-1, 3).map(lambda n: StartChoice(by_hand=f'{{"logOffset":{n}}}')),
)


@given(logs, listings, wishes, st.integers(-1, 3))
def test_every_file_is_read_lost_or_to_come(
    log: list[tuple[str, int, int]], listing: list[tuple[str, int]], wanted: StartChoice, at: int
) -> None:
    """Of files that are there: a candidate's log has exactly those that will not come; the forecast is the rest."""
    known = facts([entry(n, i, m) for n, i, m in log], [there(n, m) for n, m in listing])
    done = set(known.read_at(at))
    try:
        found = files.find_position(wanted, f'{{"logOffset":{at}}}', known)
    except Refused:
        return
    kept = {decode_uri(e.path) for e in found.read}
    assert len(kept) == len(found.read)
    assert max((e.batch_id for e in found.read), default=-1) == int(found.offset_json[13:-1])
    assert found.lost.files == Amount(value=len({p for p in known.there if p in kept and p not in done}))
    assert found.reread.files == Amount(value=len({p for p in known.there if p in done and p not in kept}))


def test_a_file_that_spark_has_forgotten_is_said_to_be_read_a_second_time() -> None:
    known = facts([entry("a", 0, T - 29 * DAY), entry("b", 1, T)], [there("a", T + 1), there("b", T)])
    told = files.judge_reach(AT_1, known)
    assert told.readable is True
    assert "such as a" in told.why
    assert "a second time, and rows that were in it before come twice" in told.why
    fresh = files.find_empty_start({}, known)
    assert (fresh.again, fresh.whole) == (True, False)
    assert "1 file was written again after being read, such as a" in fresh.why


def test_a_wish_counts_a_file_that_spark_has_forgotten_as_read_again_and_not_as_skipped() -> None:
    known = facts([entry("a", 0, T - 29 * DAY), entry("b", 1, T)], [there("a", T + 1), there("b", T)])
    found = files.find_position(StartChoice(latest=True), AT_1, known)
    assert (found.lost.files, found.reread.files) == (Amount(value=0), Amount(value=1))


def test_with_file_name_only_what_is_left_out_is_said() -> None:
    listed = [there("x/a"), there("y/a"), there("z/b")]
    told = files.judge_reach('{"logOffset":0}', facts([entry("x/a", 0)], listed, name_only=True))
    assert (told.readable, told.stops) == (False, False)
    assert told.lost is not None
    assert told.lost.files == Amount(value=1)
    assert "1 file has the name of a file that was read (fileNameOnly), such as y/a" in told.why


def test_which_of_two_unread_files_of_one_name_spark_reads_is_not_known_where_batches_are_limited() -> None:
    listed = [there("x/a"), there("y/a")]
    told = files.judge_reach(None, facts([], listed, name_only=True, limited=True))
    assert told.readable is None
    assert "More than one unread file is called a" in told.why
    assert files.find_empty_start({}, facts([], listed, name_only=True, limited=True)).whole is None
    assert files.judge_reach(None, facts([], listed, name_only=True)).readable is True  # one batch takes both


def test_just_after_a_file_goes_by_the_order_in_which_spark_takes_them() -> None:
    wanted = StartChoice(file="file:///in/f")
    assert names(files.find_position(wanted, AT_1, facts(LOG[:3], LISTED, latest_first=True)).read) == "abcf"
    assert set(names(files.find_position(wanted, AT_1, facts(LOG[:3], LISTED)).read)) == set("abcdef")
