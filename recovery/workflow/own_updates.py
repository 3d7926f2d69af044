"""Whose is an update that appeared after a step was about to start its own? Reads only.

A step notes the id of the update that it started. Where it died before it could, an update is taken for its own by
proof alone: the id of the request by which it was asked for, where the server keeps that; else its cause, its
selection and the time. What is neither proven nor ruled out is a person's to judge: another update that is waited for
in its place would be measured as if it were the plan's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from recovery import trace
from recovery.contracts.results import StartRequest, UpdateResult
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.events import as_object, details, when

FARTHEST: Final = 250
"""So many updates are looked through for the one that was the newest before the start."""
EARLIER, LATER = timedelta(minutes=2), timedelta(minutes=5)
"""Between the note of the start and the update's own time: the API's clock is another one, and a request takes time."""
BY_API: Final = ("", "API_CALL")
SELECTIONS: Final = ("refresh_selection", "full_refresh_selection")


class UpdateOwner(StrEnum):
    OWN = "own"
    OTHERS = "others"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class StartedUpdates:
    """What became of a start of which no update was noted. `own`: the update that is proven to be the step's, ""
    where there is none; `unclear`: those of which it is neither proven nor ruled out; `others`: somebody else's.
    `seen_all`: False where there are more updates than were looked through."""

    own: str = ""
    unclear: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    seen_all: bool = field(default=True)

    @property
    def proven(self) -> bool:
        """Is it known whether the step has started an update?"""
        return bool(self.own) or (not self.unclear and self.seen_all)


def note_request(selection: Mapping[str, Any], at: datetime) -> StartRequest:
    """What to keep of a start request that is about to be sent."""
    return StartRequest(selection=dict(selection), request_id=trace.current(), at=at.isoformat())


def find_own(client: PipelinesClient, pipeline_id: str, result: UpdateResult) -> StartedUpdates:
    """What a step has started since it noted the newest update. Raises Unreachable."""
    newer, seen_all = _newer(client, pipeline_id, result.newest_before)
    known = {result.ended, *result.updates}
    candidates = [u for u in newer if u.get("update_id") not in known]
    whose = {str(u["update_id"]): _judge(client, pipeline_id, u, result.asked) for u in candidates}
    own, unclear, others = (
        [u for u, of in whose.items() if of is one]
        for one in (UpdateOwner.OWN, UpdateOwner.UNKNOWN, UpdateOwner.OTHERS)
    )
    if len(own) == 1:
        return StartedUpdates(own[0], tuple(unclear), tuple(others), seen_all)
    return StartedUpdates("", (*own, *unclear), tuple(others), seen_all)


def _newer(
    client: PipelinesClient, pipeline_id: str, before: str | None
) -> tuple[Sequence[Mapping[str, Any]], bool]:
    """Updates newer than `before`, newest first, dry runs left out; and whether those are all."""
    listed = client.list_updates(pipeline_id, limit=FARTHEST)
    ids = [u["update_id"] for u in listed]
    seen_all = before in ids if before is not None else len(listed) < FARTHEST
    newer = listed[: ids.index(before)] if before in ids else listed
    return [u for u in newer if not u.get("validate_only")], seen_all


def _judge(
    client: PipelinesClient, pipeline_id: str, update: Mapping[str, Any], asked: StartRequest | None
) -> UpdateOwner:
    if asked is None:
        return UpdateOwner.UNKNOWN
    name = update["update_id"]
    first = client.events(pipeline_id, filter=f"update_id = '{name}'", order_by="timestamp asc", limit=25)
    said = next((details(e) for e in first if e.get("event_type") == "create_update"), {})
    request_id = str(as_object(said).get("x-reprise-request-id") or "")
    if request_id and asked.request_id:
        return UpdateOwner.OWN if request_id == asked.request_id else UpdateOwner.OTHERS
    if update.get("cause", "") not in BY_API or not _same_selection(update, asked.selection):
        return UpdateOwner.OTHERS
    created, noted = when(update.get("creation_time")), when(asked.at)
    in_time = created is not None and noted is not None and noted - EARLIER <= created <= noted + LATER
    return UpdateOwner.OWN if in_time else UpdateOwner.UNKNOWN


def _same_selection(update: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """By the last part of each name: an API may say more of a name than it was asked with."""
    same = all(_short(update.get(name)) == _short(asked.get(name)) for name in SELECTIONS)
    return same and bool(update.get("full_refresh")) == bool(asked.get("full_refresh"))


def _short(names: Any) -> set[str]:
    return {str(name).rsplit(".", 1)[-1].strip("`").lower() for name in names or ()}
