"""Freeze windows: times in which no plan is begun. Weekly or dated, in a zone's wall clock. Pure.

One line a window, the same text in the settings, in the database and in the audit log:
`Fri 18:00 - Mon 08:00 Europe/Berlin weekend`, `2026-12-20 00:00 - 2027-01-04 06:00 UTC holidays`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_CLOCK: Final = r"([01]\d|2[0-3]):([0-5]\d)"
_DAY: Final = rf"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_CLOCK}"
_DATE: Final = rf"(\d{{4}}-\d{{2}}-\d{{2}}) {_CLOCK}"
_TAIL: Final = r" +([A-Za-z][\w+\-/]*)(?: +(.*))?"
WEEKLY: Final = re.compile(rf"{_DAY} *[-–] *{_DAY}{_TAIL}")
YEARS: Final = range(2000, 9999)  # every moment of these is one in every zone
DATED: Final = re.compile(rf"{_DATE} *[-–] *{_DATE}{_TAIL}")


@dataclass(frozen=True)
class Weekly:
    """From `start` up to `end`, minutes of the week since Monday 00:00 on the zone's wall clock."""

    start: int
    end: int
    zone: str
    why: str = ""

    def covers(self, at: datetime) -> bool:
        local = at.astimezone(ZoneInfo(self.zone))
        minute = local.weekday() * 1440 + local.hour * 60 + local.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end  # over the end of the week

    def ends(self, at: datetime) -> datetime:
        """When the window that covers `at` is over."""
        local = at.astimezone(ZoneInfo(self.zone))
        monday = (local - timedelta(days=local.weekday())).date()
        for week in (0, 1):
            day = monday + timedelta(days=self.end // 1440 + 7 * week)
            end = datetime(day.year, day.month, day.day, self.end % 1440 // 60, self.end % 60, fold=1,
                           tzinfo=local.tzinfo)  # fmt: skip
            if end > at:
                return end.astimezone(UTC)
        raise AssertionError("a week holds the end of every weekly window")

    def __str__(self) -> str:
        return f"{_of_week(self.start)} - {_of_week(self.end)} {self.zone} {self.why}".rstrip()


@dataclass(frozen=True)
class Dated:
    """From `start` up to `end`, wall clock of the zone; where it is ambiguous the longer window is meant."""

    start: datetime  # without zone
    end: datetime
    zone: str
    why: str = ""

    def covers(self, at: datetime) -> bool:
        zone = ZoneInfo(self.zone)
        return self.start.replace(tzinfo=zone) <= at < self.end.replace(tzinfo=zone, fold=1)

    def ends(self, at: datetime) -> datetime:
        return self.end.replace(tzinfo=ZoneInfo(self.zone), fold=1).astimezone(UTC)

    def __str__(self) -> str:
        start, end = (at.isoformat(" ", "minutes") for at in (self.start, self.end))  # %Y does not pad a year
        return f"{start} - {end} {self.zone} {self.why}".rstrip()


@dataclass(frozen=True)
class UnreadableFreeze:
    """A kept line that is no window. No one knows when it freezes, so it does always, until it is written again."""

    line: str

    def covers(self, at: datetime) -> bool:
        return True

    def ends(self, at: datetime) -> datetime:
        return datetime.max.replace(tzinfo=UTC)

    def __str__(self) -> str:
        return self.line


Window = Weekly | Dated | UnreadableFreeze


def parse_freeze(line: str) -> Window:
    """One line. Raises ValueError with a sentence that says what is wrong and how it is written."""
    text = " ".join(line.split())
    if found := WEEKLY.fullmatch(text):
        day, hour, minute, day2, hour2, minute2, zone, why = found.groups()
        start, end = _minute(day, hour, minute), _minute(day2, hour2, minute2)
        if start == end:
            raise ValueError(f"{text!r} begins and ends at the same time of the week.")
        return Weekly(start, end, _zone(zone, text), why or "")
    if found := DATED.fullmatch(text):
        date, hour, minute, date2, hour2, minute2, zone, why = found.groups()
        try:
            begin = datetime.fromisoformat(f"{date} {hour}:{minute}")
            until = datetime.fromisoformat(f"{date2} {hour2}:{minute2}")
        except ValueError as error:
            raise ValueError(f"{text!r} names a day that is not in the calendar.") from error
        if begin.year not in YEARS or until.year not in YEARS:
            raise ValueError(f"{text!r} has a year that is not among the years {YEARS[0]} to {YEARS[-1]}.")
        if begin >= until:
            raise ValueError(f"{text!r} ends before it begins.")
        return Dated(begin, until, _zone(zone, text), why or "")
    raise ValueError(
        f"{text!r} is no freeze window. Write `Fri 18:00 - Mon 08:00 Europe/Berlin why` or "
        "`2026-12-20 00:00 - 2027-01-04 06:00 Europe/Berlin why`."
    )


def parse_all(text: str) -> tuple[Window, ...]:
    """One window a line; empty lines are left out. Raises ValueError for the first that is none."""
    return tuple(parse_freeze(line) for line in text.splitlines() if line.strip())


def read_stored_freeze(line: str) -> Window:
    """One kept line: never an error, since the page on which it is repaired shows it as well."""
    try:
        return parse_freeze(line)
    except ValueError:
        return UnreadableFreeze(line)


def freeze_covering(windows: Iterable[Window], at: datetime) -> Window | None:
    """The window in which `at` lies; of several, the one that ends last."""
    found = [w for w in windows if w.covers(at)]
    return max(found, key=lambda w: w.ends(at), default=None)


def _minute(day: str, hour: str, minute: str) -> int:
    return DAYS.index(day) * 1440 + int(hour) * 60 + int(minute)


def _of_week(minute: int) -> str:
    return f"{DAYS[minute // 1440]} {minute % 1440 // 60:02}:{minute % 60:02}"


def _zone(name: str, text: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"{text!r} names zone {name!r}, which is not known. Try Europe/Berlin or UTC."
        ) from error
    return name
