"""Signs a webhook, by the open Standard Webhooks scheme (version 1), which receivers have libraries for.

The signature is HMAC-SHA256 over `{id}.{timestamp}.{body}`, base64, led by `v1,`. So neither the body nor the
id that receivers deduplicate by can be changed, and an old request is recognised by its timestamp.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final

from recovery.errors import WrongUse

PREFIX: Final = "whsec_"
LEAST_BYTES: Final = 24


def key_of(secret: str) -> bytes:
    """`whsec_` + base64, or any other text as it is. Raises WrongUse for one that is too short or no base64."""
    try:
        key = (
            base64.b64decode(secret[len(PREFIX) :], validate=True)
            if secret.startswith(PREFIX)
            else secret.encode()
        )
    except (binascii.Error, ValueError):
        raise WrongUse("The signing secret begins with whsec_, but the rest is not base64.") from None
    if len(key) < LEAST_BYTES:
        raise WrongUse(f"The signing secret is too short: it needs at least {LEAST_BYTES} bytes.")
    return key


def sign_body(key: bytes, uid: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`; `timestamp` is in seconds since 1970."""
    made = hmac.new(key, f"{uid}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(made).decode()


def signed_headers(secret: str, uid: str, timestamp: int, body: bytes) -> dict[str, str]:
    """What a signed request carries. Raises WrongUse for a bad secret."""
    signature = sign_body(key_of(secret), uid, timestamp, body)
    return {"webhook-id": uid, "webhook-timestamp": str(timestamp), "webhook-signature": signature}
