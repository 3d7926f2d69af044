"""Where an act comes from: task, session, address. Set once at the edge, read by every entry.

A web request and a task each set it before anything acts; code in between passes nothing along. The id that joins
what one request set in motion is `recovery.trace`'s.
"""

import hashlib
import ipaddress
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


def _no_session() -> str | None:
    return None


@dataclass(frozen=True)
class ActOrigin:
    """`session_key` is asked when an entry is written: a sign-in gives the session another key."""

    task_id: str = ""
    address: str = ""
    session_key: Callable[[], str | None] = _no_session

    @property
    def session(self) -> str:
        """A short hash: tells sessions apart, and opens none."""
        key = self.session_key()
        return hashlib.sha256(key.encode()).hexdigest()[:16] if key else ""


NOWHERE = ActOrigin()
_current: ContextVar[ActOrigin] = ContextVar("audit_origin", default=NOWHERE)


def current_origin() -> ActOrigin:
    return _current.get()


@contextmanager
def acting_from(origin: ActOrigin) -> Iterator[None]:
    """Entries written in the body come from there."""
    token = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(token)


def client_address(meta: Mapping[str, object], trusted_proxies: int) -> str:
    """The client's IP address: the peer's, or what the outermost of our own proxies says its peer was.

    X-Forwarded-For is a list to which each proxy appends its peer. With n trusted proxies the n-th from the end
    was written by a machine of ours; all before it is the client's own claim, and is not believed. "" if unknown.
    """
    peer = str(meta.get("REMOTE_ADDR") or "")
    if trusted_proxies > 0:
        claimed = [part.strip() for part in str(meta.get("HTTP_X_FORWARDED_FOR") or "").split(",")]
        peer = claimed[-trusted_proxies] if len(claimed) >= trusted_proxies else peer
    try:
        return str(ipaddress.ip_address(peer))[:45]
    except ValueError:
        return ""
