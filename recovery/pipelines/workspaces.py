"""Turns a workspace's row into a client: secrets are read at the last moment, by reference or decrypted."""

from typing import Final

from recovery import outbound, references
from recovery.encryption import decrypted
from recovery.errors import Refused, Unreachable, WrongUse
from recovery.models import Workspace
from recovery.pipelines.client import PipelinesClient
from recovery.spark.asking import Service

TOKEN: Final = "workspace token"  # noqa: S105  (the purpose of a key)
QUESTIONS: Final = "workspace questions"
"""Purposes of the keys that encrypt what is kept in the database."""


def secret(ref: str) -> str:
    """The secret behind `file:/path` or `env:NAME`. Raises WrongUse naming what is missing or odd, never a value."""
    return sendable(_behind(ref), ref)


def is_sendable(value: str) -> bool:
    """Can it go into a header of HTTP and an address as it is: one line of ASCII without blanks?"""
    return value.isascii() and value.isprintable() and " " not in value


def sendable(value: str, where: str) -> str:
    """The secret, when it can be sent: a client's error shows another. Raises WrongUse (`odd_secret`)."""
    if not is_sendable(value):
        raise WrongUse(
            f"A workspace's secret ({where}) is one line of ASCII without blanks. Correct it there.",
            code="odd_secret",
        )
    return value


def _behind(ref: str) -> str:
    kind, _, rest = ref.partition(":")
    if kind == "env" and rest:
        found = references.from_environment(rest)
        if not found:
            raise WrongUse(f"The environment variable {rest}, which holds a workspace's secret, is not set.")
        return found
    if kind == "file" and rest:
        return _from_file(rest)
    raise WrongUse("A secret is given as file:/path or env:NAME. Correct the workspace's settings.")


def _from_file(path: str) -> str:
    try:
        found = references.from_file(path)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise WrongUse(
            f"The file {path}, which holds a workspace's secret, cannot be read ({why}). "
            "Is the Pipelines API running on this machine?"
        ) from error
    if not found:
        raise WrongUse(f"The file {path}, which holds a workspace's secret, is empty.")
    return found


def token_of(workspace: Workspace) -> str:
    """The bearer token.

    Raises WrongUse where its reference leads nowhere or it cannot be sent, Refused where it cannot be decrypted.
    """
    if workspace.token_kept:
        return sendable(decrypted(workspace.token_kept, TOKEN), "kept encrypted")
    return secret(workspace.token_ref)


def client_for(workspace: Workspace, *, timeout: float = 30.0) -> PipelinesClient:
    """A client of the workspace's Pipelines API, which connects to allowed addresses only.

    Raises WrongUse when its token cannot be read, Refused (`workspace_off`) for one that is switched off or removed.
    """
    refuse_inactive(workspace)
    return connected(workspace, timeout=timeout)


def connected(workspace: Workspace, *, timeout: float) -> PipelinesClient:
    """As `client_for`, of a workspace that is switched off as well: for its test."""
    if workspace.has_streams:
        from recovery.streams.client import (
            StreamsClient,
        )  # speaks for plain streams in the words of this room

        return StreamsClient(workspace)
    return PipelinesClient(
        url=workspace.url, token=token_of(workspace), timeout=timeout, allowed=outbound.configured()
    )


def refuse_inactive(workspace: Workspace) -> None:
    """Raise Refused (`workspace_off`) unless the workspace may be spoken to."""
    if not workspace.active:
        state = "was removed" if workspace.removed_at else "is switched off"
        raise Refused(
            f"Workspace {workspace.name} {state}: nothing is read or changed there. An admin can "
            f"{'add it again' if workspace.removed_at else 'switch it on'} in Settings.",
            code="workspace_off",
        )


def questions_service(workspace: Workspace, environment: str) -> Service:
    """Who answers questions about the code and the tables of a workspace's pipelines in this environment.

    Raises Unreachable (`no_questions`) where no one is named: what only Spark can tell is not known then. Raises
    WrongUse where the service's token leads nowhere, Refused where it cannot be decrypted.
    """
    if not workspace.questions_url:
        raise Unreachable(
            f"Workspace {workspace.name} names no questions service, so its code is not studied and its rows are not "
            "counted. Name a Pipelines API server of Reprise in Settings, Workspaces, Questions.",
            code="no_questions",
        )
    return Service(
        url=workspace.questions_url,
        token=_questions_token(workspace),
        spark=workspace.questions_spark,
        allowed=outbound.configured(),
        environment=environment,
    )


def _questions_token(workspace: Workspace) -> str:
    """Its own, or the workspace's where that is the service itself: no token goes to another address."""
    if workspace.questions_token_kept:
        return sendable(decrypted(workspace.questions_token_kept, QUESTIONS), "kept encrypted")
    if workspace.questions_token_ref:
        return secret(workspace.questions_token_ref)
    if workspace.questions_url.rstrip("/") == workspace.url.rstrip("/"):
        return token_of(workspace)
    raise WrongUse(
        f"The questions service of workspace {workspace.name} has no token. Give it one in Settings.",
        code="no_questions_token",
    )
