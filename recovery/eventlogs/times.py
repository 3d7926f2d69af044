"""Times of event logs: milliseconds since 1970, and ISO text. Pure."""

from datetime import UTC, datetime


def moment_of(ms: int) -> datetime:
    """In UTC. Raises nothing: a time beyond the calendar is its beginning."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def read_ms(text: object) -> int | None:
    """ISO text as milliseconds since 1970, UTC where it names no zone; None for any other value."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
