"""How often something may fail before one has to wait; counted in the cache that all processes share."""

import hashlib
from typing import Final

from django.core.cache import cache

from recovery.errors import Denied

LIMITS: Final[dict[str, tuple[int, int]]] = {
    "token": (30, 300),  # wrong access tokens from one place
    "sign-in": (10, 300),  # refused sign-ins with one name, from anywhere
    "invitation": (20, 300),  # links that are no invitation, from one place
}
"""Kind: (failures, within how many seconds)."""


def check(kind: str, source: str) -> None:
    """Raise Denied (code `too_many`) when too much of this kind failed from there lately."""
    failures, seconds = LIMITS[kind]
    if (cache.get(_key(kind, source)) or 0) >= failures:
        raise Denied(
            f"Too many wrong {kind}s came from here. Wait {seconds // 60} minutes, then try again.",
            code="too_many",
        )


def failed(kind: str, source: str) -> None:
    """Count one more failure."""
    key = _key(kind, source)
    if cache.add(key, 1, timeout=LIMITS[kind][1]):
        return
    try:
        cache.incr(key)
    except ValueError:  # it expired between the two calls
        cache.set(key, 1, timeout=LIMITS[kind][1])


def _key(kind: str, source: str) -> str:
    return f"failures:{kind}:{hashlib.sha256(source.encode('utf-8', 'replace')).hexdigest()[:32]}"
