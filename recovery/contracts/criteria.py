"""What a proof measures."""

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from recovery.contracts import criterion_values
from recovery.contracts.value import Value


class Criterion(Value):
    """One thing to be measured after the rerun."""

    code: str
    """Which one; stable."""
    says: str
    """The same for people, in a sentence."""
    expected: criterion_values.Expected
    """What it is held to, fixed when the plan is sealed; each code has its own."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "expected" not in given:
            return given
        expected = criterion_values.read_expected(str(given.get("code")), given["expected"])
        if not isinstance(expected, criterion_values.ExpectedValue | Mapping):
            raise ValueError("what a criterion expects is an object")
        return {**given, "expected": expected}
