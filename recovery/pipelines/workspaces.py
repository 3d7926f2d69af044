"""Turns a workspace's row into a client: secrets are references, read at the last moment, never stored."""

import os
from pathlib import Path

from recovery import outbound
from recovery.errors import WrongUse
from recovery.models import Workspace
from recovery.pipelines.client import PipelinesClient

LARGEST_SECRET = 64 * 1024


def secret(ref: str) -> str:
    """The secret behind `file:/path` or `env:NAME`. Raises WrongUse naming what is missing, never a value."""
    kind, _, rest = ref.partition(":")
    if kind == "env" and rest:
        found = os.environ.get(rest, "").strip()
        if not found:
            raise WrongUse(f"The environment variable {rest}, which holds a workspace's secret, is not set.")
        return found
    if kind == "file" and rest:
        return _from_file(Path(rest))
    raise WrongUse("A secret is given as file:/path or env:NAME. Correct the workspace's settings.")


def _from_file(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            found = file.read(LARGEST_SECRET).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise WrongUse(
            f"The file {path}, which holds a workspace's secret, cannot be read ({why}). "
            "Is the Pipelines API running on this machine?"
        ) from error
    if not found:
        raise WrongUse(f"The file {path}, which holds a workspace's secret, is empty.")
    return found


def client_for(workspace: Workspace, *, timeout: float = 30.0) -> PipelinesClient:
    """A client of the workspace's Pipelines API, which connects to allowed addresses only.

    Raises WrongUse when its token cannot be read.
    """
    token = secret(workspace.token_ref)
    return PipelinesClient(url=workspace.url, token=token, timeout=timeout, allowed=outbound.configured())


def spark_remote(workspace: Workspace) -> str:
    """The `sc://…` address (token included) of the workspace's Spark Connect. Raises WrongUse without one."""
    if not workspace.spark_remote_ref:
        raise WrongUse(
            f"Workspace {workspace.name} names no Spark Connect address, so its tables cannot be read. "
            "Add spark_remote to its settings."
        )
    return secret(workspace.spark_remote_ref)
