"""Which folder is a stream's, and whose a run is where a query id is in two folders because one is a copy."""

import os
from collections.abc import Sequence
from functools import cached_property

from recovery.checkpoints import access
from recovery.checkpoints.uris import spell_place
from recovery.errors import RepriseError
from recovery.eventlogs.seen import SeenRun
from recovery.models import Stream
from recovery.streams import tailing
from recovery.streams.tailing import LogIndex


def real_place(place: str) -> str:
    """The one spelling of a place; links on this machine are followed. Raises WrongUse, Refused."""
    read = access.read_place(place)
    return spell_place(place) if read.store else os.path.realpath(read.path)


def is_same_place(place: str, other: str) -> bool:
    """Whether both are one folder, however each is spelled; links on this machine are followed."""
    return spell_place(place) == spell_place(other) or _real_or_spelled(place) == _real_or_spelled(other)


def find_other_checkpoint(checkpoint: str, seen: Sequence[SeenRun]) -> str:
    """The checkpoint that the newest run names, where that is another folder than this one; else "". Spark's plans name
    the folder of stateful queries and of those that write a file table only."""
    named = seen[-1].run.checkpoint if seen else ""
    return "" if not named or is_same_place(named, checkpoint) else named


def leave_out_other_checkpoints(checkpoint: str, seen: Sequence[SeenRun]) -> list[SeenRun]:
    """Without the runs that name another folder than this one."""
    return [run for run in seen if not find_other_checkpoint(checkpoint, [run])]


class CheckpointOwners:
    """The adopted streams by their folders, read once, when a run first names another folder than its stream's."""

    def list_runs(self, stream: Stream, index: LogIndex | None = None) -> list[SeenRun]:
        """The runs of a stream that its logs have, the oldest first: without those that name the checkpoint of another
        adopted stream, which has the same query id. `index`: of the logs, where it is at hand."""
        runs_of = tailing.runs_of if index is None else index.runs_of
        seen = runs_of(stream.event_log, stream.query_ids) if stream.event_log else []
        return [run for run in seen if not self._is_adopted(find_other_checkpoint(stream.checkpoint, [run]))]

    def _is_adopted(self, checkpoint: str) -> bool:
        return bool(checkpoint) and _real_or_spelled(checkpoint) in self._checkpoints

    @cached_property
    def _checkpoints(self) -> frozenset[str]:
        rows = Stream.objects.filter(pipeline__gone=False, pipeline__workspace__removed_at=None)
        return frozenset(_real_or_spelled(place) for place in rows.values_list("checkpoint", flat=True))


def _real_or_spelled(place: str) -> str:
    try:
        return real_place(place)
    except RepriseError:  # a log names whatever its program was given
        return spell_place(place)
