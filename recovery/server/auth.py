"""Bearer tokens: made here, kept as SHA-256 only, compared in constant time."""

import hashlib
import hmac
import secrets
from pathlib import Path

from recovery.errors import Unreachable, WrongUse
from recovery.foreign import ForeignFolder
from recovery.server.models import ApiToken
from recovery.server.problems import ApiProblem


def digest_token(token: str) -> str:
    """SHA-256 of a token, in hex. Tokens are 256 random bits, so no salt or stretching is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def authenticate_header(header: str | None) -> ApiToken:
    """The owner of an `Authorization: Bearer …` header. Raises ApiProblem 401."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ApiProblem(
            401, "UNAUTHENTICATED", "Send a personal access token: Authorization: Bearer <token>."
        )
    wanted = digest_token(token.strip())
    for known in ApiToken.objects.filter(sha256=wanted):
        if hmac.compare_digest(known.sha256, wanted):
            return known
    raise ApiProblem(401, "UNAUTHENTICATED", "The access token is not valid here.")


def private_write(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all.

    A crash leaves the old file or the new one, never half a secret.
    """
    ForeignFolder(path.parent).write(path.name, text.encode())


def provide_token(path: Path, *, name: str = "token-file") -> str:
    """The token in `path`, made and written (0600) when there is none; its hash is put on record.

    Raises Unreachable when the file can be neither read nor written, WrongUse for a token too short.
    """
    try:
        token = path.read_text().strip() if path.exists() else ""
        if not token:
            token = "dapi" + secrets.token_hex(32)
            private_write(path, token + "\n")
        if path.stat().st_mode & 0o077:  # a secret of a container is where no one may change it
            path.chmod(0o600)
    except OSError as error:
        raise Unreachable(
            f"The token file {path} cannot be used: {error.strerror}. Name another one."
        ) from error
    if len(token) < 20:
        raise WrongUse(
            f"The token in {path} is shorter than 20 characters; remove the file to have one made."
        )
    ApiToken.objects.filter(name=name).exclude(sha256=digest_token(token)).delete()
    ApiToken.objects.get_or_create(sha256=digest_token(token), defaults={"name": name})
    return token
