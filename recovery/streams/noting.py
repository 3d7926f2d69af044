"""What a poll keeps of adopted streams beside their updates: their signs, and how good a noted answer is."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.utils import timezone

from recovery.eventlogs.seen import SeenRun
from recovery.eventlogs.values import RunState
from recovery.models import LogFolder, Stream
from recovery.streams.places import find_other_checkpoint
from recovery.streams.running import RunningAnswer, answer_of
from recovery.streams.signs import FolderProblem, signs_of


def noted_answer(stream: Stream, seen: Sequence[SeenRun], now: datetime) -> RunningAnswer | None:
    """What the running command answered last, where that is newer than the event log; None where it is not."""
    answer = answer_of(stream)
    if answer.alive is None or answer.at is None or not answer.is_fresh(now):
        return None
    moved = seen[-1].moved_at if seen else None
    is_open = bool(seen) and seen[-1].run.state is RunState.RUNNING
    if is_open and moved is not None and moved > answer.at:
        return None  # the log has grown since
    if seen and not is_open and answer.alive and moved is not None and moved > answer.at:
        return None  # it has ended since
    return answer


def note_signs(streams: Iterable[Stream], seen: Mapping[int, Sequence[SeenRun]]) -> None:
    """`seen`: the runs of each stream, by its key. Writes what changed."""
    now, held = timezone.now(), list(streams)
    problems = problems_of({s.event_log for s in held if s.event_log})
    for stream in held:
        runs = seen.get(stream.pk, ())
        other = find_other_checkpoint(stream.checkpoint, runs)
        found = signs_of(runs, problems.get(stream.event_log), answer_of(stream), now, other)
        signs = [sign.as_json() for sign in found]
        if signs != stream.signs:
            Stream.objects.filter(pk=stream.pk).update(signs=signs)


def problems_of(folders: Iterable[str]) -> dict[str, FolderProblem]:
    """Of those folders of event logs that could not be read at the last look."""
    rows = LogFolder.objects.filter(folder__in=list(folders)).exclude(problem="")
    return {row.folder: FolderProblem(row.folder, row.problem, row.problem_since, row.log) for row in rows}
