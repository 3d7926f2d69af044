"""Freeze windows: wall clock of a zone, over the end of the week, over the change of the clocks."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.approvals.freezes import (
    Dated,
    UnreadableFreeze,
    Weekly,
    freeze_covering,
    parse_all,
    parse_freeze,
    read_stored_freeze,
)

WEEKEND = "Fri 18:00 - Mon 08:00 Europe/Berlin weekend"
HOLIDAYS = "2026-12-20 00:00 - 2027-01-04 06:00 Europe/Berlin holidays"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "moment", "covered"),
    [
        (WEEKEND, "2026-11-20T16:59", False),  # 17:59 in Berlin
        (WEEKEND, "2026-11-20T17:00", True),
        (WEEKEND, "2026-11-22T12:00", True),
        (WEEKEND, "2026-11-23T06:59", True),
        (WEEKEND, "2026-11-23T07:00", False),
        (WEEKEND, "2026-07-03T16:00", True),  # summer: 18:00 in Berlin is 16:00 UTC
        ("Tue 22:00 - Wed 04:00 UTC", "2026-11-25T03:59", True),
        ("Tue 22:00 - Wed 04:00 UTC", "2026-11-25T04:00", False),
        (HOLIDAYS, "2026-12-19T22:59", False),
        (HOLIDAYS, "2026-12-19T23:00", True),
        (HOLIDAYS, "2027-01-04T04:59", True),
        (HOLIDAYS, "2027-01-04T05:00", False),
        ("2026-10-25 02:30 - 2026-10-25 02:30 UTC", "2026-10-25T02:30", None),
        # 02:15 to 02:45 comes twice that night in Berlin: the longer window is meant
        ("2026-10-25 02:15 - 2026-10-25 02:45 Europe/Berlin", "2026-10-25T00:15", True),
        ("2026-10-25 02:15 - 2026-10-25 02:45 Europe/Berlin", "2026-10-25T01:44", True),
        ("2026-10-25 02:15 - 2026-10-25 02:45 Europe/Berlin", "2026-10-25T01:45", False),
    ],
)
def test_a_window_covers_its_wall_clock(line: str, moment: str, covered: bool | None) -> None:
    if covered is None:
        with pytest.raises(ValueError, match="ends before"):
            parse_freeze(line)
        return
    assert parse_freeze(line).covers(at(moment)) is covered


@pytest.mark.parametrize(
    ("line", "moment", "end"),
    [
        (WEEKEND, "2026-11-20T17:00", "2026-11-23T07:00"),
        (WEEKEND, "2026-11-23T06:00", "2026-11-23T07:00"),
        (HOLIDAYS, "2026-12-24T20:00", "2027-01-04T05:00"),
    ],
)
def test_it_says_when_it_is_over(line: str, moment: str, end: str) -> None:
    assert parse_freeze(line).ends(at(moment)) == at(end)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("Fri 18:00 - Mon 08:00", "no freeze window"),
        ("Fri 25:00 - Mon 08:00 UTC", "no freeze window"),
        ("Fri 18:00 - Fri 18:00 UTC", "same time of the week"),
        ("Fri 18:00 - Mon 08:00 Europe/Atlantis", "not known"),
        ("2026-02-30 00:00 - 2026-03-01 00:00 UTC", "not in the calendar"),
        ("always", "no freeze window"),
        ("0026-12-20 00:00 - 0027-01-04 06:00 UTC", "years 2000 to 9998"),
        ("1999-12-31 00:00 - 2027-01-04 06:00 UTC", "years 2000 to 9998"),
        ("2026-12-20 00:00 - 9999-01-04 06:00 UTC", "years 2000 to 9998"),
    ],
)
def test_what_is_no_window_is_refused_with_the_way_to_write_one(line: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_freeze(line)


def test_of_several_windows_the_one_that_ends_last_is_named() -> None:
    windows = parse_all(f"{WEEKEND}\n\n{HOLIDAYS}\n")
    found = freeze_covering(windows, at("2026-12-20T12:00"))
    assert str(found) == HOLIDAYS
    assert freeze_covering(windows, at("2026-11-25T12:00")) is None


@pytest.mark.parametrize(
    "line", ["0026-12-20 00:00 - 0027-01-04 06:00 UTC", "26-12-20 00:00 - 27-01-04 06:00 UTC", ""]
)
def test_a_kept_line_that_is_no_window_freezes_always_and_reads_as_it_stands(line: str) -> None:
    window = read_stored_freeze(line)
    assert window == UnreadableFreeze(line)
    assert window.covers(at("2026-11-20T17:00"))
    assert freeze_covering([parse_freeze(WEEKEND), window], at("2026-11-21T00:00")) is window
    assert str(window) == line


def test_a_kept_line_that_is_a_window_is_that_window() -> None:
    assert read_stored_freeze(HOLIDAYS) == parse_freeze(HOLIDAYS)


WRITTEN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d - \d{4}-\d\d-\d\d \d\d:\d\d UTC why")


@given(st.datetimes(), st.datetimes())
def test_any_dated_window_is_written_as_it_is_read(start: datetime, end: datetime) -> None:
    window = Dated(start.replace(second=0, microsecond=0), end.replace(second=0, microsecond=0), "UTC", "why")
    if start.year >= 2000 and window.start < window.end and end.year < 9999:
        assert parse_freeze(str(window)) == window
    assert WRITTEN.fullmatch(str(window))


minutes = st.integers(0, 7 * 1440 - 1)


@given(minutes, minutes, st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)))
def test_any_weekly_window_reads_as_it_was_written_and_ends_when_it_covers_no_more(
    start: int, end: int, moment: datetime
) -> None:
    if start == end:
        return
    window = Weekly(start, end, "Europe/Berlin", "why")
    assert parse_freeze(str(window)) == window
    now = moment.replace(tzinfo=UTC)
    if window.covers(now):
        over = window.ends(now)
        assert over > now
        assert not window.covers(over)
