"""How often something may be tried before one has to wait; counted in the cache that all processes share.

Counted without a lock: one that a busy machine or an ended process holds would refuse people who tried nothing.
"""

import hashlib
from typing import Final

from django.core.cache import cache

from recovery.errors import Denied

LIMITS: Final[dict[str, tuple[int, int]]] = {
    "token": (30, 300),  # wrong access tokens from one place
    "sign-in": (10, 300),  # refused sign-ins with one name, from anywhere
    "address": (60, 60),  # refused sign-ins from one address, with any name: good ones do not count
    "confirmation": (10, 60),  # refused confirmations of one person
    "invitation": (20, 300),  # links that are no invitation, from one place
    "forgotten": (10, 60),  # links for a new password asked for from one address
    "forgotten-mail": (3, 3600),  # the same for one mail address
}
"""Kind: (how many, within how many seconds)."""


def check_limit(kind: str, source: str) -> None:
    """Raise Denied (code `too_many`) when too much of this kind was counted from there lately."""
    seconds = LIMITS[kind][1]
    if is_over(kind, source):
        raise Denied(
            f"Too many wrong {kind}s came from here. Wait {seconds // 60} minutes, then try again.",
            code="too_many",
        )


def is_over(kind: str, source: str) -> bool:
    """Was as much of this kind counted from there as is allowed?"""
    return (cache.get(_cache_key(kind, source)) or 0) >= LIMITS[kind][0]


def count_try(kind: str, source: str) -> None:
    """Count one more."""
    key = _cache_key(kind, source)
    if cache.add(key, 1, timeout=LIMITS[kind][1]):
        return
    try:
        cache.incr(key)
    except ValueError:  # it expired between the two calls
        cache.set(key, 1, timeout=LIMITS[kind][1])


def _cache_key(kind: str, source: str) -> str:
    return f"failures:{kind}:{hashlib.sha256(source.encode('utf-8', 'replace')).hexdigest()[:32]}"
