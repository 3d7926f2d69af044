"""What refuses is asserted by its code; the words of each code are tested once, in `tests/unit/words`."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from recovery.errors import RepriseError


@contextmanager
def refused(
    code: str, kind: type[RepriseError] = RepriseError
) -> Iterator[pytest.ExceptionInfo[RepriseError]]:
    """Fails unless what is inside raises an expected failure of this kind with this very code."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, f"refused as {caught.value.code}: {caught.value.sentence}"
