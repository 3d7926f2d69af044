"""The one id that joins what a request set in motion: page or command, Celery tasks, calls of the Pipelines API.

Kept in a context variable, so that it need not be handed through every function. Who begins something binds
it, who leaves this process sends it: Celery messages carry it as a header, HTTP calls as `X-Request-ID`.
"""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

HEADER: Final = "X-Request-ID"
_GIVEN: Final = re.compile(r"[A-Za-z0-9._-]{8,64}")
_ID: Final[ContextVar[str]] = ContextVar("request_id", default="")


def current() -> str:
    """The id that is bound here; empty outside of any request."""
    return _ID.get()


def new(kind: str) -> str:
    """A fresh id: `req-` for a page, `cmd-` for a command, `task-` for what beat woke."""
    return f"{kind}-{uuid.uuid4().hex[:12]}"


def accepted(given: str, kind: str) -> str:
    """An id from outside where it has the form of one, else a fresh one: it goes into logs as it stands."""
    return given if _GIVEN.fullmatch(given) else new(kind)


@contextmanager
def bound(request_id: str) -> Iterator[str]:
    """Everything in the block belongs to `request_id`."""
    token = _ID.set(request_id)
    try:
        yield request_id
    finally:
        _ID.reset(token)
