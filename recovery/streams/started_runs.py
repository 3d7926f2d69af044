"""Which run came of which start, and which runs are their own: pure."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from recovery.eventlogs.seen import EarlyEnd, SeenRun
from recovery.eventlogs.times import moment_of
from recovery.eventlogs.values import Run, RunState
from recovery.models import StreamStart
from recovery.streams.signs import SKEWED
from recovery.streams.updates import CoveredEnd, StreamUpdate, build_update, build_update_since

EARLIER: Final = timedelta(seconds=30)
"""The driver's clock is another one: a run may seem to have begun so long before it was asked for."""


def match_runs(starts: Sequence[StreamStart], seen: Sequence[SeenRun]) -> dict[int, SeenRun]:
    """The run that came of each start: the one that was noted, else the first that began since and is no other's."""
    by_run = {s.run.run_id: s for s in seen}
    found = {start.pk: by_run[start.run_id] for start in starts if start.run_id in by_run}
    taken = {start.run_id for start in starts if start.run_id}
    for start in sorted((s for s in starts if not s.ended and not s.is_look), key=lambda s: s.asked_at):
        since = (start.asked_at - EARLIER).timestamp() * 1000
        mine = [
            s for s in seen if s.run.run_id not in taken and s.run.started_ms >= since and _is_after(s, start)
        ]
        if mine:
            found[start.pk] = mine[0]
            taken.add(mine[0].run.run_id)
    return found


def is_of_start(end: EarlyEnd, start: StreamStart) -> bool:
    """Is this what came of a start, which tells how it ended itself?"""
    began = moment_of(end.started_ms)
    return start.asked_at - EARLIER <= began and (start.ended_at is None or began <= start.ended_at)


def list_updates_of_other_runs(
    starts: Sequence[StreamStart],
    claimed: Mapping[int, SeenRun],
    seen: Sequence[SeenRun],
    alive: bool | None,
    now: datetime,
) -> Iterator[StreamUpdate]:
    """Of each run that came of no start, or that a start left going. `claimed`: as `match_runs` answers; `alive`: as in
    `build_update`."""
    ends = {start.pk: find_covered_end(start, starts) for start in starts if start.pk in claimed}
    left = {
        claimed[start.pk].run.run_id: ends[start.pk]
        for start in starts
        if start.pk in claimed and _has_left_run(start, claimed[start.pk], ends[start.pk])
    }
    claimed_runs = {run.run.run_id for run in claimed.values()}
    newest_open = next((run for run in reversed(seen) if run.run.state is RunState.RUNNING), None)
    for run in seen:
        # what runs is the newest one: an older one without an end was killed
        sure = alive if alive is False or run is newest_open else None
        if run.run.run_id in left:
            end = left[run.run.run_id]
            yield build_update_since(run, now, end, alive=sure, is_followed=run is not seen[-1])
        elif run.run.run_id not in claimed_runs:
            yield build_update(run, now, alive=sure, is_followed=run is not seen[-1])


def _has_left_run(start: StreamStart, seen: SeenRun, end: CoveredEnd) -> bool:
    """Did a start that counts as completed leave its run going? Its later batches and its end are a run's own. A
    program that stops its session leaves no end of its query: its application had ended by then, as far as clocks
    agree."""
    if start.ended == "COMPLETED" and any(end.is_before(body) for body in seen.run.batches):
        return True
    if start.ended != "COMPLETED" or seen.run.state is RunState.ENDED:
        return False
    if seen.run.state is not RunState.LEFT or seen.run.ended_ms is None or start.ended_at is None:
        return True
    return seen.run.ended_ms > (start.ended_at + SKEWED).timestamp() * 1000


def cut_run(seen: SeenRun | None, start: StreamStart, starts: Sequence[StreamStart]) -> Run | None:
    """The run that came of a start, without the batches that came once the recovery was done with it."""
    end = find_covered_end(start, starts)
    if seen is None or not start.ended or end.batch is None:
        return seen.run if seen else None
    own = tuple(body for body in seen.run.batches if not end.is_before(body))
    later = len(seen.run.batches) - len(own)
    return replace(seen.run, batches=own, batches_in_all=seen.run.batches_in_all - later)


def find_covered_end(start: StreamStart, starts: Sequence[StreamStart]) -> CoveredEnd:
    """Where the last start that looked at this one's run was over: itself, or a look of its plan."""
    later = sorted((s for s in starts if s.asked_at > start.asked_at), key=lambda s: s.asked_at)
    looks = [look for look in itertools.takewhile(lambda s: s.is_look, later) if look.ended == "COMPLETED"]
    last = max((start, *looks), key=lambda s: s.ended_at or s.asked_at)
    return CoveredEnd(last.ended_at or last.asked_at, last.batch_after)


def _is_after(seen: SeenRun, start: StreamStart) -> bool:
    """Not a run that had ended before it was asked for."""
    ended = seen.run.ended_ms
    return ended is None or ended >= start.asked_at.timestamp() * 1000
