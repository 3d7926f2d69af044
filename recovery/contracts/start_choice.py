"""A start position that a person names, as choices hold it and plans seal it."""

from collections.abc import Mapping

from pydantic import SerializerFunctionWrapHandler, model_serializer

from recovery.contracts.value import Flag, Number, Value


class StartChoice(Value):
    """A start position that a person names: one field is set, or `parts`, or both. What is kept is this wish, never
    what becomes of it."""

    at_ms: Number | None = None
    """A time, in milliseconds since the epoch."""
    version: Number | None = None
    """A version of a table."""
    file: str | None = None
    """Path of a file, as listed; the position is just after it."""
    by_hand: str | None = None
    """The source's own offset JSON."""
    earliest: Flag = False
    """The first input that the source still has."""
    latest: Flag = False
    """After the last input that the source has."""
    parts: Mapping[str, "StartChoice | None"] = {}
    """Wishes for single parts by their names (`orders-3`), each with one field set; None: as committed. A part that is
    not named starts as the one field above says, and as committed where none is set."""

    @property
    def times(self) -> tuple[int, ...]:
        """Every time in it, ms since the epoch: the source has to be asked for each."""
        named = [self.at_ms, *(part.at_ms for part in self.parts.values() if part)]
        return tuple(dict.fromkeys(ms for ms in named if ms is not None))

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """What is set, and nothing else: the same wish is the same JSON, however it was written."""
        fields: dict[str, object] = write(self)
        return {
            name: value for name, value in fields.items() if value not in (None, {}) and value is not False
        }
