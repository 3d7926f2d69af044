"""Which environment a pipeline is in: what its tag (or its workspace) says, but never weaker rules at once.

Who may change a tag would else go around votes and roles: retag to development, seal, run, tag back. So a move to an
environment that asks for less waits: `REPRISE_RETAG_HOURS` from when the poller first saw the tag, and until no
recovery of the pipeline is open. Meanwhile everything (rights, rules, votes, the audit log) goes by the stricter
one. The wish is an entry of the audit log, which waits for review, as soon as it is seen. A stricter environment
holds at once.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from recovery.approvals.rules import asks_less, at_text
from recovery.approvals.selectors import rule_for
from recovery.audit.actions import append_entry
from recovery.models import Pipeline, Recovery
from recovery.people.roles import SYSTEM

RETAG = "pipeline.retag"
MOVE = "pipeline.move"


@dataclass(frozen=True)
class EnvironmentMove:
    """What is to be written into the row, and, where something changed, the entry that tells of it."""

    environment: str
    wanted: str = ""
    since: datetime | None = None
    action: str = ""
    says: str = ""

    def values(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "wanted_environment": self.wanted,
            "wanted_since": self.since,
        }


def judge(row: Pipeline, environment: str, now: datetime) -> EnvironmentMove:
    """What becomes of a pipeline whose tag says `environment`. `row` is locked by the caller."""
    was, name = row.environment, row.name
    if environment == was:
        says = f"The tag of {name} says {was} again: it does not move to {row.wanted_environment}."
        return (
            EnvironmentMove(was, action=RETAG, says=says) if row.wanted_environment else EnvironmentMove(was)
        )
    if not asks_less(rule_for(environment), rule_for(was)):
        return EnvironmentMove(environment, action=MOVE, says=f"{name} moved from {was} to {environment}.")
    if row.wanted_environment != environment or row.wanted_since is None:
        says = (
            f"The tag of {name} is now {environment}. Its rules ask for less, so {was} holds until "
            f"{at_text(now + _delay())} at least, and while a recovery is open."
        )
        return EnvironmentMove(was, environment, now, RETAG, says)
    if now < row.wanted_since + _delay() or _is_open(row):
        return EnvironmentMove(was, environment, row.wanted_since)
    return EnvironmentMove(
        environment,
        action=MOVE,
        says=f"{name} moved from {was} to {environment}, tagged so since {at_text(row.wanted_since)}.",
    )


def note(row: Pipeline, move: EnvironmentMove) -> None:
    """The entry, last in the transaction of the change, in the environment that held until now."""
    if move.action:
        before = {"environment": row.environment, "wanted": row.wanted_environment}
        append_entry(
            action=move.action, outcome="done", by=SYSTEM, target_kind="pipeline", target=row.name, says=move.says,
            environment=row.environment, before=before,
            after={"environment": move.environment, "wanted": move.wanted},
        )  # fmt: skip


def moves_at(row: Pipeline) -> datetime | None:
    """When a pipeline that waits may move at the earliest."""
    return row.wanted_since + _delay() if row.wanted_environment and row.wanted_since else None


def _delay() -> timedelta:
    return timedelta(hours=settings.REPRISE_RETAG_HOURS)


def _is_open(row: Pipeline) -> bool:
    return Recovery.objects.filter(flow__pipeline=row, active=True).exists()
