"""Numbers and times in people's words: every number with its unit, every time with its zone. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from django.utils.dateparse import parse_datetime

from recovery.contracts.amounts import Bound


def format_number(value: int | float | None) -> str:
    """`1,204,880`; None is `unknown`, never 0."""
    return "unknown" if value is None else f"{value:,}"


def format_bounded(value: int | None, bound: Bound) -> str:
    """`12`, `at most 12`, `about 12`; None is `not known`."""
    return "not known" if value is None else f"{bound.before_number}{value:,}"


def format_count(value: int | None, noun: str, plural: str = "") -> str:
    """`1 row`, `2 rows`, `unknown rows`."""
    return f"{format_number(value)} {noun if value == 1 else plural or noun + 's'}"


def format_size(value: int | None) -> str:
    """Bytes as `702 B`, `1.9 KiB`, `2.4 MiB`."""
    if value is None:
        return "unknown size"
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def format_duration(seconds: float | None) -> str:
    """`under 0.1 s`, `0.3 s`, `12 s`, `4 min 10 s`, `1 h 14 min`, `3 d 2 h`; None is `unknown`."""
    if seconds is None:
        return "unknown"
    if 0 < seconds < 0.05:
        return "under 0.1 s"
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = int(seconds)
    for size_, unit, small, sub in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size_:
            rest = whole % size_ // small
            return f"{whole // size_} {unit}" + (f" {rest} {sub}" if rest else "")
    return f"{whole} s"


StoredMoment = datetime | str | float | None
"""A moment as it is stored: a datetime, ISO text, or milliseconds since the epoch; None: none is known."""


def parse_moment(value: StoredMoment) -> datetime | None:
    """A datetime from a datetime, ISO text or milliseconds since the epoch; None when it is none of these.

    A file may hold any number: one that is no date of a calendar is None too.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            return None
    moment = (
        value if isinstance(value, datetime) else parse_datetime(value) if isinstance(value, str) else None
    )
    if moment is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC) if moment else None


def format_clock(value: StoredMoment, now: datetime, *, zone: bool = True) -> str:
    """`03:24:02 UTC` today, `20 Nov 2026, 03:24:02 UTC` on another day."""
    at = parse_moment(value)
    if at is None:
        return "unknown"
    text = at.strftime("%H:%M:%S")
    if at.date() != now.astimezone(UTC).date():
        text = f"{at.day} {at.strftime('%b %Y')}, {text}"
    return f"{text} UTC" if zone else text


def format_date(value: StoredMoment) -> str:
    """`22 Dec 2026, 08:23 UTC`: a moment that is days away."""
    at = parse_moment(value)
    return f"{at.day} {at.strftime('%b %Y, %H:%M')} UTC" if at else "unknown"


def format_exact(value: StoredMoment) -> str:
    """`03:24:02.182`: time within a log, in UTC."""
    at = parse_moment(value)
    return at.strftime("%H:%M:%S.%f")[:-3] if at else "unknown"


def format_ago(value: StoredMoment, now: datetime) -> str:
    """`12 s ago`, `4 min ago`; `just now` under two seconds; `in 3 min` for what is to come."""
    at = parse_moment(value)
    if at is None:
        return "at an unknown time"
    seconds = (now - at).total_seconds()
    if seconds < -2:
        return f"in {_coarse_duration(-seconds)}"
    return "just now" if seconds < 2 else f"{_coarse_duration(seconds)} ago"


def _coarse_duration(seconds: float) -> str:
    """Relative times need no tenths and, beyond a minute, no seconds."""
    if seconds < 60:
        return f"{int(seconds)} s"
    return (
        format_duration(int(seconds) // 60 * 60)
        if seconds < 86400
        else format_duration(int(seconds) // 3600 * 3600)
    )


def shorten_hash(digest: str | None) -> str:
    """`4f9a1c03` of a long hash."""
    return (digest or "none")[:8]


def name_tail(path: str | None) -> str:
    """The last part of a path or dotted name, for people; the whole is shown elsewhere."""
    return (path or "").rstrip("/").rsplit("/", 1)[-1]


def last_part(name: str | None) -> str:
    """`customers_changes` of `spark_catalog.crm.customers_changes`."""
    return (name or "").rsplit(".", 1)[-1]


def format_ranges(numbers: Sequence[int]) -> str:
    """`3`, `0 to 4`, `0 to 2, 5` of ascending numbers; empty for none."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join(" to ".join(map(str, run)) for run in runs)
