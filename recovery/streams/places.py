"""Whose a run is where a query id is in two folders because one is a copy."""

from collections.abc import Sequence
from functools import cached_property

from recovery.eventlogs.seen import SeenRun
from recovery.models import Stream
from recovery.streams import tailing
from recovery.streams.folders import is_same_place, spell_real_place
from recovery.streams.tailing import LogIndex


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
        return bool(checkpoint) and spell_real_place(checkpoint) in self._checkpoints

    @cached_property
    def _checkpoints(self) -> frozenset[str]:
        rows = Stream.objects.filter(pipeline__gone=False, pipeline__workspace__removed_at=None)
        return frozenset(spell_real_place(place) for place in rows.values_list("checkpoint", flat=True))
