"""Which stores do not answer, counted in the cache that all processes share.

A store that gave no answer is left alone for a while: pages say so at once instead of waiting for it. After that, one
request tries it, for everybody. An answer closes the case; silence makes the pause longer.
"""

import hashlib
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

from django.core.cache import cache
from django.utils import timezone

from recovery.checkpoints.access import PATIENCE, shown_store
from recovery.errors import Unreachable

FIRST_PAUSE: Final = 15.0
LONGEST_PAUSE: Final = 120.0
"""Seconds for which a silent store is left alone: at first, and at most; each silence after a pause doubles it."""
REMEMBERED: Final = 900
"""Seconds after which the cache forgets a store that nobody asks for."""


@dataclass(frozen=True)
class Silence:
    """Of one store: since when it gives no answer, until when it is left alone (seconds since 1970), for how long."""

    since: float
    until: float
    pause: float


def silence_of(store: str) -> Silence | None:
    """None where it answers, as far as is known."""
    kept = cache.get(_key(store))
    try:
        return Silence(**kept) if isinstance(kept, dict) else None
    except TypeError:  # written by another version
        return None


class SharedBreaker:
    """`checkpoints.access.Breaker` over the shared cache."""

    def admit_request(self, store: str) -> bool:
        silence = silence_of(store)
        if silence is None:
            return False
        if timezone.now().timestamp() < silence.until or not cache.add(
            _key(store, "trial"), 1, timeout=PATIENCE + 1
        ):
            raise Unreachable(says(store, silence), code="store_silent")
        return True

    def note_silence(self, store: str) -> None:
        now, before = timezone.now().timestamp(), silence_of(store)
        if before is not None and now < before.until:
            return  # others asked before it was left alone: one silence
        pause = FIRST_PAUSE if before is None else min(before.pause * 2, LONGEST_PAUSE)
        since = now - PATIENCE if before is None else before.since
        cache.set(_key(store), asdict(Silence(since, now + pause, pause)), timeout=REMEMBERED)

    def note_answer(self, store: str) -> None:
        cache.delete(_key(store))


def says(store: str, silence: Silence) -> str:
    """For people: since when it gives no answer, and when it is asked again."""
    since, until = (datetime.fromtimestamp(at, UTC) for at in (silence.since, silence.until))
    return (
        f"{shown_store(store)} has not answered since {since:%H:%M:%S} UTC. It is left alone until "
        f"{until:%H:%M:%S} UTC, then asked again."
    )


def _key(store: str, of: str = "silence") -> str:
    return f"store:{of}:{hashlib.sha256(store.encode('utf-8', 'replace')).hexdigest()[:32]}"
