"""Asks a workspace for pipelines, several at a time, and reads what is new of each. Writes nothing: no thread here
touches the database.
"""

import contextvars
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final

from django.utils import timezone

from recovery.errors import RepriseError, Unreachable
from recovery.models import Workspace
from recovery.pipelines import folding, losses
from recovery.pipelines.client import ApiDenied, PipelinesClient
from recovery.pipelines.events import ENDED
from recovery.pipelines.workspaces import client_for

UPDATES: Final = 15
EVENTS: Final = 2000
TIMEOUT: Final = 15.0
BACK: Final = 10
"""So many older updates that were never read are read at each poll, where a loss of rows could hide in them."""
FARTHEST: Final = 250
"""So far back the update is looked for that was counted last; what ran before is not known then."""
AT_ONCE: Final = 8
"""Pipelines of a workspace that are asked for at the same time."""


@dataclass(frozen=True)
class PolledPipeline:
    """A pipeline to ask for: its entry in the list, the key of its row (None: it has none yet), and the updates that
    the row keeps. `counted`: those of which the batches of its flows into file tables were counted last. `unknown`:
    flows of which no update that was read tells how they are."""

    entry: Mapping[str, Any]
    row: int | None
    updates: Sequence[Mapping[str, Any]]
    counted: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        return str(self.entry.get("pipeline_id") or "")


@dataclass(frozen=True)
class OlderUpdates:
    """What was read back of updates that no poll has read. `updates`: newest first, from the newest one to the one that
    was counted last; `readings`: of those that were read now; `left`: is there more to read? `missed`: updates that
    were counted last, and of which the API tells no more."""

    updates: Sequence[Mapping[str, Any]] = ()
    readings: Sequence[folding.FoldedUpdate] = ()
    left: bool = False
    missed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PipelineReply:
    """What the API says of one pipeline: its own answer, its newest updates, newest first, and what was read of those
    that had not been read yet, oldest first. `older`: what else was read, for what it says of lost rows. `passing`: a
    copy that a validation made."""

    answer: Mapping[str, Any]
    updates: Sequence[Mapping[str, Any]] = ()
    readings: Sequence[folding.FoldedUpdate] = ()
    older: OlderUpdates = OlderUpdates()
    passing: bool = False


class ClientPool:
    """As many clients of one workspace as ask at the same time: one alone is not safe across threads. Raises as
    `workspaces.client_for`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._all: list[PipelinesClient] = []
        self.first = self._make()
        self._all = [self.first]
        self._failure: RepriseError | None = None

    def _make(self) -> PipelinesClient:
        if self._workspace.has_streams and self._all:
            return self.first  # it has read all by now, and no thread may touch the database
        return client_for(self._workspace, timeout=TIMEOUT)

    def close(self) -> None:
        for client in self._all:
            client.close()

    def answers(
        self, asked: Sequence[PolledPipeline]
    ) -> Iterator[tuple[PolledPipeline, PipelineReply | RepriseError]]:
        """What the workspace says of each pipeline, in order, asked AT_ONCE at a time. After one that it could not be
        asked for, no further question is begun; those left have that error too."""
        while len(self._all) < min(AT_ONCE, len(asked)):
            self._all.append(self._make())
        free: SimpleQueue[PipelinesClient] = SimpleQueue()
        for client in self._all:
            free.put(client)

        def answer(one: PolledPipeline) -> PipelineReply | RepriseError:
            client = free.get()
            try:
                return _ask(client, one) if self._failure is None else self._failure
            except (Unreachable, ApiDenied) as failure:
                self._failure = failure
                return failure
            except RepriseError as error:
                return error
            finally:
                free.put(client)

        with ThreadPoolExecutor(len(self._all), "poll") as pool:
            context = contextvars.copy_context()
            calls = [pool.submit(context.copy().run, answer, one) for one in asked]
            yield from ((one, call.result()) for one, call in zip(asked, calls, strict=True))


def _ask(client: PipelinesClient, asked: PolledPipeline) -> PipelineReply:
    """Ask for one pipeline and read what is new of it. Writes nothing."""
    answer = client.get_pipeline(asked.id)
    if ((answer.get("spec") or {}).get("tags") or {}).get("reprise") == "validation":
        return PipelineReply(answer, passing=True)
    updates = _updates(client, asked.id, answer.get("latest_updates"), asked.updates)
    unread = folding.to_read(updates, first_look=not asked.updates)
    readings = [_read(client, asked.id, u) for u in reversed(unread)]
    readings = [*_read_of_unknown(client, asked, updates, readings), *readings]
    return PipelineReply(answer, updates, readings, _read_back(client, asked, updates, readings))


def _read_of_unknown(
    client: PipelinesClient,
    asked: PolledPipeline,
    updates: Sequence[Mapping[str, Any]],
    readings: Sequence[folding.FoldedUpdate],
) -> list[folding.FoldedUpdate]:
    """Of older updates, BACK at most, until each flow is in one that ran it: a flow that failed is not unknown because
    others ran since. Oldest first."""
    now = {r.id: folding.remembered(r) for r in readings}
    seen = [now.get(str(u["update_id"]), u) for u in updates]
    defined = set() if asked.updates else {name for r in readings for name in r.definitions}
    left = {name for name in asked.unknown | defined if not folding.is_told(seen, name)}
    found: list[folding.FoldedUpdate] = []
    for update in seen:
        if not left or len(found) == BACK:
            break
        if folding.whole(update) or update.get("state") not in ENDED or update.get("validate_only"):
            continue
        if str(update["update_id"]) not in now:
            found.insert(0, _read(client, asked.id, update))
            left = {name for name in left if not folding.is_told([folding.remembered(found[0])], name)}
    return found


def _read_back(
    client: PipelinesClient,
    asked: PolledPipeline,
    updates: Sequence[Mapping[str, Any]],
    readings: Sequence[folding.FoldedUpdate],
) -> OlderUpdates:
    """Read what ran since the update that was counted last, or all in sight where a table of files is seen first."""
    if not asked.counted and not any(r.file_batches for r in readings):
        return OlderUpdates(updates)
    listed, ids = updates, {u.get("update_id") for u in updates}
    if not asked.counted <= ids:
        known = {u.get("update_id"): u for u in updates}
        farther = client.list_updates(asked.id, limit=FARTHEST)
        listed = [known.get(u.get("update_id"), u) for u in farther if u.get("update_id")]
    names = [str(u.get("update_id")) for u in listed]
    missed = asked.counted.difference(names)
    if missed or not asked.counted:
        listed, missing = updates, len(updates)
    else:
        missing = max(names.index(name) for name in asked.counted)
        listed = listed[: missing + 1]
    now = {r.id for r in readings}
    left = [
        u
        for u in reversed(listed[:missing])
        if not losses.is_whole(u) and str(u.get("update_id")) not in now and u.get("state") in ENDED
    ]
    read = [_read(client, asked.id, u) for u in left[:BACK]]
    return OlderUpdates(listed, read, len(left) > len(read), missed)


def _updates(
    client: PipelinesClient, pipeline_id: str, latest: Any, kept: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """The newest updates, newest first, with what is known of each; asked for only when something moved."""
    if isinstance(latest, list) and kept:
        states = [(u.get("update_id"), u.get("state")) for u in latest]
        if states == [(u.get("update_id"), u.get("state")) for u in kept[: len(states)]]:
            return kept
    elif latest == [] and not kept:
        return []
    # a run that was taken for cancelled may have gone on: its log tells of its end later
    known = {(u["update_id"], u.get("state")): u for u in kept if u.get("read")}
    newest = [u for u in client.list_updates(pipeline_id, limit=UPDATES) if u.get("update_id")]
    return [known.get((u["update_id"], u.get("state")), u) for u in newest]


def _read(client: PipelinesClient, pipeline_id: str, update: Mapping[str, Any]) -> folding.FoldedUpdate:
    """What the events of one update say. Definitions come first in an update, so a long one is read from
    both ends."""
    chosen = f"update_id = '{update['update_id']}'"
    events = list(client.events(pipeline_id, filter=chosen, limit=EVENTS))
    if len(events) >= EVENTS:
        events += client.events(pipeline_id, filter=chosen, order_by="timestamp asc", limit=250)
    return folding.read(update, events, now=timezone.now())
