"""The environments whose pipelines this server runs, and its refusal of every other (REPRISE_ENVIRONMENTS).

One server has one Spark driver, which holds the pipelines of one server apart from nothing (ADR 19). So where
development and production must not trust each other, each has a server of its own, and that server runs no code of
another environment: not as an update, not to answer a question. A pipeline names its environment by a tag.
"""

from collections.abc import Mapping
from typing import Any, Final

from recovery.server.problems import ApiProblem, invalid_request

TAG: Final = "environment"


def name_environment(spec: Mapping[str, Any], environments: tuple[str, ...]) -> dict[str, Any]:
    """The settings with the tag of their environment: the first of this server's where they name none, so that whoever
    reads them knows it. No environments: as they are. Raises ApiProblem 400 for a pipeline of another environment."""
    if not environments:
        return dict(spec)
    tags = {**(spec.get("tags") or {})}
    tags[TAG] = tags.get(TAG) or environments[0]
    named = {**spec, "tags": tags}
    refuse_pipeline(named, environments)
    return named


def refuse_pipeline(spec: Mapping[str, Any], environments: tuple[str, ...]) -> None:
    """Raises ApiProblem 400 for settings that do not name an environment of this server. It is asked at each start:
    the settings may be older than the environments."""
    environment = str((spec.get("tags") or {}).get(TAG) or "")
    if environments and environment not in environments:
        raise invalid_request(
            f"This server runs pipelines of {_join_all(environments)} alone, and this one is tagged "
            f"{environment[:80]!r}. Make it on the server of its environment, or save its settings here with another "
            "tag."
        )


def refuse_question(environment: str, environments: tuple[str, ...]) -> None:
    """Raises ApiProblem 403 for a question about a pipeline of another environment, or of none: its code would run
    beside that of this server's pipelines."""
    if environments and environment not in environments:
        text = (
            f"This server answers questions about pipelines of {_join_all(environments)} alone, and this one is about "
            f"{environment[:80]!r}. Name the server of that environment in Settings > Workspaces > Questions."
        )
        raise ApiProblem(403, "PERMISSION_DENIED", text, environment=environment[:80])


def _join_all(environments: tuple[str, ...]) -> str:
    return " and ".join(environments)
