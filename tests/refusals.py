"""What refuses is asserted by its code; the words of each code are tested once, in `tests/unit/words`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from recovery.errors import RepriseError
from recovery.people.roles import LacksRight, Right

Raised = TypeVar("Raised", bound=Exception)


@contextmanager
def refused(
    code: str,
    kind: type[Raised] = RepriseError,  # type: ignore[assignment]
    *,
    names: Iterable[object] = (),
) -> Iterator[pytest.ExceptionInfo[Raised]]:
    """Fails unless what is inside raises an expected failure of this kind with this very code.

    `names`: values that its sentence has to name: ids, numbers, files.
    """
    with pytest.raises(kind) as caught:
        yield caught
    found = getattr(caught.value, "code", None)
    assert found == code, f"refused as {found}: {caught.value}"
    unnamed = [value for value in map(str, names) if value not in str(caught.value)]
    assert unnamed == [], f"{unnamed} not named in: {caught.value}"


@contextmanager
def lacking(right: Right, environment: str | None = None) -> Iterator[pytest.ExceptionInfo[LacksRight]]:
    """Fails unless what is inside is denied for want of this very right, there."""
    with refused("denied", LacksRight) as caught:
        yield caught
    assert (caught.value.right, caught.value.environment) == (right, environment)
