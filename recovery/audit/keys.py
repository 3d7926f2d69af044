"""The keys of the audit log: one private Ed25519 key that signs, and every public key that ever signed.

None of them is in the database: whoever can write there can neither sign nor make us believe another key. The
private key comes from `REPRISE_AUDIT_KEY` or its `_FILE`, else from `audit.key` in REPRISE_HOME, which is made when
missing. `audit.keys` in REPRISE_AUDIT_FOLDER lists the public ones, a line each: key id, base64 of its 32 bytes,
since when. To verify, only that list is needed.
"""

import base64
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings
from django.utils import timezone

from recovery.audit.offline.archive import key_id as key_id
from recovery.errors import Refused, Unreachable


def own_file() -> Path:
    return Path(settings.REPRISE_HOME) / "audit.key"


def list_file() -> Path:
    return Path(settings.REPRISE_AUDIT_FOLDER) / "audit.keys"


def signing_key() -> Ed25519PrivateKey:
    """The key that signs now; it is put on the list of public keys. Raises Unreachable when it cannot be read."""
    try:
        text = settings.REPRISE_AUDIT_KEY.encode() or _own_text()
        key = ser.load_pem_private_key(text, password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Unreachable(
            f"The key that signs the audit log cannot be read ({type(error).__name__}). "
            f"Check REPRISE_AUDIT_KEY, or {own_file()}.",
            code="key_unreadable",
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise Unreachable(
            "The key that signs the audit log must be an Ed25519 key, in PEM.", code="key_unreadable"
        )
    _list_key(public_bytes(key))
    return key


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    """The 32 bytes of its public half."""
    return key.public_key().public_bytes(ser.Encoding.Raw, ser.PublicFormat.Raw)


def public_keys() -> dict[str, bytes]:
    """Every key on the list, by id. A line whose id is not its key's is left out. Raises OSError."""
    if not list_file().exists():
        return {}
    known = {}
    for line in list_file().read_text("ascii", "replace").splitlines():
        parts = line.split()
        try:
            key = base64.b64decode(parts[1], validate=True)
        except (IndexError, ValueError):
            continue
        if key_id(key) == parts[0]:
            known[parts[0]] = key
    return known


def is_signed_by(public_key: bytes, signature: str, message: bytes) -> bool:
    """Did the owner of this key sign this message?"""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def renew_key() -> Ed25519PrivateKey:
    """Put another key into `audit.key`; the old public one stays on the list. Raises Refused for a key from outside."""
    if settings.REPRISE_AUDIT_KEY:
        raise Refused(
            "The key comes from REPRISE_AUDIT_KEY: change it where it is kept and start all processes again. "
            "The old public key stays on the list."
        )
    with _hold_turn():
        _write_private(own_file())
    return signing_key()


def _own_text() -> bytes:
    if not own_file().exists():
        with _hold_turn():
            if not own_file().exists():
                _write_private(own_file())
    return own_file().read_bytes()


def _write_private(file: Path) -> None:
    """Written aside, put on disk, then renamed: a crash leaves the old key or the new one, never half a key."""
    pem = Ed25519PrivateKey.generate().private_bytes(
        ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption()
    )
    draft = file.with_name("audit.key.new")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(pem)
        stream.flush()
        os.fsync(stream.fileno())
    draft.rename(file)


def _list_key(key: bytes) -> None:
    if key_id(key) in public_keys():
        return
    with _hold_turn():
        if key_id(key) in public_keys():
            return
        line = f"{key_id(key)} {base64.b64encode(key).decode()} {timezone.now():%Y-%m-%dT%H:%M:%SZ}\n"
        list_file().parent.mkdir(parents=True, exist_ok=True)
        with list_file().open("a", encoding="ascii") as stream:
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())


@contextmanager
def _hold_turn() -> Iterator[None]:
    """One process at a time makes a key or lists one."""
    file = own_file().with_name("audit.key.turn")
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
