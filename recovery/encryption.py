"""Keeps what must be read again and must not lie open in the database: encrypted by a key made of the secret key."""

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.encoding import force_bytes

from recovery.errors import Refused


def keys(purpose: str) -> MultiFernet:
    """The key in force first, then those that SECRET_KEY_FALLBACKS keeps for reading; others for each purpose."""
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    made = [hashlib.sha256(f"reprise {purpose}\0".encode() + force_bytes(s)).digest() for s in secrets]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in made])


def encrypted(text: str, purpose: str) -> str:
    return keys(purpose).encrypt(text.encode()).decode()


def decrypted(text: str, purpose: str) -> str:
    """Raises Refused for one that was written under a secret key that is not known any more."""
    try:
        return keys(purpose).decrypt(text.encode()).decode()
    except InvalidToken:
        raise Refused(
            "It was encrypted under another secret key; give the former one (REPRISE_SECRET_KEY_FALLBACKS).",
            code="other_secret_key",
        ) from None
