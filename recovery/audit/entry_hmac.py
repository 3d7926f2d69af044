"""A seal on each entry: an HMAC that our processes can make, and whoever only writes into the database cannot.

The chain and the anchors say nothing of the very end, which the next anchor would sign as it is. So each entry
carries `<key id>:<HMAC-SHA256 over its number and hash>`, by a key made of the secret key, and an anchor is signed only
over entries whose seals were checked. Behind an anchor a seal by a key that is known no more is let be: its secret key
has been changed since, and the anchor represents it.
"""

import hashlib
import hmac
from functools import lru_cache
from typing import Final

from django.conf import settings
from django.utils.encoding import force_bytes

FROM_FORMAT: Final = 3
"""Entries of this format and later are sealed; formats never go back."""


def seal_entry(seq: int, hash: str) -> str:
    """What the entry of this number and hash carries, by the key in force."""
    return _make_seal(_derive_key(settings.SECRET_KEY), seq, hash)


def seal_fits(given: str, seq: int, hash: str) -> bool | None:
    """Is this the entry's seal? None for one by a key that is not known here."""
    for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        key = _derive_key(secret)
        if given.partition(":")[0] == _key_id(key):
            return hmac.compare_digest(given.encode(), _make_seal(key, seq, hash).encode())
    return None


def _make_seal(key: bytes, seq: int, hash: str) -> str:
    mac = hmac.new(key, f"{seq}\n{hash}".encode(), hashlib.sha256).hexdigest()
    return f"{_key_id(key)}:{mac}"


@lru_cache(maxsize=16)
def _derive_key(secret: str | bytes) -> bytes:
    return hashlib.sha256(b"reprise audit entries\0" + force_bytes(secret)).digest()


@lru_cache(maxsize=16)
def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"id\0" + key).hexdigest()[:16]
