"""Where a replay goes back to, as a person names it."""

from typing import Self

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from recovery.contracts.value import Number, Value


class ReplayTarget(Value):
    """One field is set. What is kept is this wish; which batch it names is found out each time it is needed."""

    at_ms: Number | None = None
    """A time, in ms since 1970: the last batch that was planned at or before it."""
    version: Number | None = None
    """A version of the Delta table: the last batch that it holds."""
    batch: Number | None = None
    """A batch: the last one that stays."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        named = [value for value in (self.at_ms, self.version, self.batch) if value is not None]
        if len(named) != 1 or named[0] < 0:
            raise ValueError("a target is one time, one version or one batch")
        return self

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """What is set, and nothing else: the same wish is the same JSON."""
        fields: dict[str, object] = write(self)
        return {name: value for name, value in fields.items() if value is not None}
