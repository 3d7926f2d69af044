"""Why a flow, or a stream of a person's own, fails: cause, damage, severity, advice. Stored with a recovery and sent
by `diagnose` and `inspect`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Self

from pydantic import (
    ConfigDict,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass

from recovery.contracts.names import ChangeIntent
from recovery.contracts.value import Flag, Number, Value

FAMILY_UNKNOWN: Final = "unknown"
RESET_UNKNOWN: Final = "not known"
NOTHING: Final = "nothing"
"""What `damaged` holds where nothing is."""


class Storage(StrEnum):
    """Who can reach a flow's checkpoint."""

    REACHABLE = "reachable"
    """It is below a storage root that the pipeline names."""
    MANAGED = "managed"
    """It is inside the workspace: only its API resets it."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Advice:
    """One way on, and what decides on it."""

    says: str
    """What to do, for people."""
    strategy: str = ""
    """The strategy that does it; "": none of ours."""
    right_if: ChangeIntent | None = None
    """The answer that makes it the right one; None: it does not depend on that."""
    undoable: Flag | None = None
    """Whether it can be undone; None: not known."""


class StatefulOperators(Value):
    """Spark's names of the stateful operators, by id."""

    checkpoint: tuple[str, ...] = ()
    """Those whose state the checkpoint stores."""
    code: tuple[str, ...] | None = None
    """Those of the code; None: not known."""


class ChainedError(Value):
    """One exception of a chain of causes, as a flow's row, an update and a failure hold it, outermost first."""

    class_name: str = ""
    """Its class; "" where only a text was given."""
    message: str = ""
    """Its message; in a diagnosis cut where it is very long."""
    file: str | None = None
    """The file of people's code that raised it. Not stored where none did."""
    line: str | None = None
    """The line in it. Not stored where none did."""

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        stored: dict[str, Any] = handler(self)
        return {k: v for k, v in stored.items() if v is not None}


def read_chain(stored: object) -> tuple[ChainedError, ...]:
    """The chain as a row of this or an older release holds it, outermost first; what is no exception is left out."""
    return tuple(
        ChainedError(
            class_name=str(error.get("class_name") or ""),
            message=str(error.get("message") or ""),
            **{key: str(error[key]) for key in ("file", "line") if error.get(key)},
        )
        for error in (stored if isinstance(stored, list | tuple) else ())
        if isinstance(error, Mapping)
    )


class ErrorCause(ChainedError):
    """One exception of a chain that was diagnosed."""

    condition: str = ""
    """Spark's error condition in it, or our name of its text; "": none."""


class Diagnosis(Value):
    """The judgement of one failure. The defaults are for diagnoses of releases that did not store the field."""

    condition: str = ""
    """Spark's error condition, or our name of a failure that Spark does not name; "": none."""
    family: str = FAMILY_UNKNOWN
    """The family of that condition in the table of diagnosis."""
    title: str = ""
    """The cause in one sentence."""
    says: str = ""
    """What is known about it, for people."""
    damaged: str = ""
    """What is damaged, for people; `NOTHING` where nothing is, "" where that was not judged."""
    severity: Number = 3
    """From 1 to 5."""
    reset: str = RESET_UNKNOWN
    """Whether a reset is the answer, for people."""
    do: tuple[str, ...] = ()
    """The sentences of `advice`."""
    dont: tuple[str, ...] = ()
    """What not to do."""
    advice: tuple[Advice, ...] = ()
    """The ways on, safest first."""
    storage: Storage = Storage.REACHABLE
    """Who can reach the checkpoint."""
    operators: StatefulOperators = StatefulOperators()
    """Of the checkpoint and of the code."""
    causes: tuple[ErrorCause, ...] = ()
    """The chain of exceptions, outermost first."""
    attempts: Number | None = None
    """How often Spark tried; None: not known."""

    @property
    def is_anything_damaged(self) -> bool | None:
        """Whether something is damaged; None where that was not judged."""
        return self.damaged != NOTHING if self.damaged else None

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """From a call, or from what is stored. Advice that was stored as sentences alone recommends nothing."""
        if not isinstance(given, Mapping) or "advice" in given or "do" not in given:
            return handler(given)
        advice = [{"says": says, "right_if": ChangeIntent.UNKNOWN} for says in given["do"]]
        made = handler({**given, "advice": advice})
        made.__pydantic_fields_set__.discard("advice")
        return made


class LastGoodBatch(Value):
    """The last batch of a flow that ended well before its recovery was opened."""

    batch: Number
    """Its number."""
    at: str
    """When it began, as its progress event has it, in ISO form."""


class StoredDiagnosis(Diagnosis):
    """As it is stored with the recovery that was opened for it."""

    failed_at: str | None = None
    """When the flow began to fail, in ISO form; None: not known."""
    last_good: LastGoodBatch | None = None
    """The last batch that the poller saw end well. Not stored where it saw none."""

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        stored: dict[str, object] = handler(self)
        if self.last_good is None:
            stored.pop("last_good", None)
        return stored
