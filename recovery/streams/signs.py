"""What is odd about an adopted stream: codes with their parameters. The sentences are output only. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from recovery.eventlogs.seen import SeenRun
from recovery.eventlogs.values import RunState
from recovery.streams.running import RunningAnswer, RunningStatus
from recovery.streams.updates import SILENT_AFTER

HALF_AFTER: Final = timedelta(minutes=2)
"""A line that has no end for so long is left by a driver that was cut off."""
SKEWED: Final = timedelta(minutes=2)
"""Clocks that differ by less count as the same."""


class SignCode(StrEnum):
    """SILENT: its log has no end, and has not grown for long. LOGS_GONE: the folder of event logs is not there;
    LOGS_AWAY: it cannot be read; LOG_AWAY: a log in it cannot be. LOG_CLEANED: the log of its newest run was removed
    before its end was read; LOG_PART_CLEANED: some files of a rolling one were. LOG_CORRUPT: a log cannot be read on;
    LOG_HALF: its last line has no end. CLOCKS_APART: the driver's clock differs from ours. TWO_ATTEMPTS: two attempts
    of one application have no end. ANOTHER_CHECKPOINT: the newest run of its query names another folder than the
    stream's: one of both is a copy, or they are one folder under two names. RUNNING_UNKNOWN: the running command does
    not answer; RUNNING_DIFFERS: it answers that nothing runs while the log grows. PYTHON_NOT_USED: its program is
    studied by another Python than the one that was named."""

    SILENT = "stream_silent"
    LOGS_GONE = "event_logs_gone"
    LOGS_AWAY = "event_logs_unreadable"
    LOG_AWAY = "event_log_unreadable"
    LOG_CLEANED = "event_log_cleaned_up"
    LOG_PART_CLEANED = "event_log_part_cleaned_up"
    LOG_CORRUPT = "event_log_corrupt"
    LOG_HALF = "event_log_half_written"
    CLOCKS_APART = "clocks_apart"
    TWO_ATTEMPTS = "two_attempts"
    ANOTHER_CHECKPOINT = "another_checkpoint"
    RUNNING_UNKNOWN = "running_unknown"
    RUNNING_DIFFERS = "running_differs"
    PYTHON_NOT_USED = "spark_python_not_used"


@dataclass(frozen=True)
class Sign:
    """`at`: since when, ISO, "" where that is not known. `facts`: what the sentence names."""

    code: SignCode
    at: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def sign_from(stored: Any) -> Sign:
    """As `Sign.as_json` wrote it."""
    return Sign(SignCode(stored["code"]), str(stored["at"]), dict(stored["facts"]))


@dataclass(frozen=True)
class FolderProblem:
    """Why a folder of event logs could not be read: `code` of the refusal, since when; `log`: the one that could not
    be, "" for all."""

    folder: str
    code: str
    since: datetime | None
    log: str = ""


def signs_of(
    seen: Sequence[SeenRun],
    problem: FolderProblem | None,
    answer: RunningAnswer,
    now: datetime,
    other_checkpoint: str = "",
) -> tuple[Sign, ...]:
    """The most important first. `seen`: the runs of the stream, the oldest first. `other_checkpoint`: the
    one that its newest run names, where that is not the stream's; else ""."""
    newest = seen[-1] if seen else None
    signs = [
        _of_folder(problem),
        _of_attempts(seen),
        _of_checkpoint(other_checkpoint),
        *_of_answer(answer, newest, now),
    ]
    if newest is not None:
        signs += [_of_silence(newest, answer, problem, now), *_of_log(newest, now), _of_clock(newest)]
    return tuple(sign for sign in signs if sign is not None)


def sign_of_python(named: str, own: Path) -> Sign | None:
    """Where a Python was named for a program and it is not `own`, the server's, which studies every program. `named`
    is not followed where it is a link: the link of an environment leads out of it."""
    if not named or Path(named).parent.resolve() == own.parent.resolve():
        return None
    return Sign(SignCode.PYTHON_NOT_USED, facts={"python": named[:200]})


def _of_folder(problem: FolderProblem | None) -> Sign | None:
    if problem is None:
        return None
    if problem.log:
        return Sign(SignCode.LOG_AWAY, _iso(problem.since), {"folder": problem.folder, "log": problem.log})
    code = SignCode.LOGS_GONE if problem.code == "no_event_logs" else SignCode.LOGS_AWAY
    return Sign(code, _iso(problem.since), {"folder": problem.folder, "why": problem.code})


def _of_attempts(seen: Sequence[SeenRun]) -> Sign | None:
    """Attempts of one application with no end: the newest counts, and an older one may still write."""
    if len(seen) < 2 or not _is_open(seen[-1]):
        return None
    newest = seen[-1]
    others = [
        s for s in seen[:-1] if _is_open(s) and s.app.app_id == newest.app.app_id and s.log != newest.log
    ]
    if not others:
        return None
    facts = {"application": newest.app.app_id, "newest": newest.app.attempt, "other": others[-1].app.attempt}
    return Sign(SignCode.TWO_ATTEMPTS, _iso(newest.moved_at), facts)


def _of_checkpoint(other: str) -> Sign | None:
    return Sign(SignCode.ANOTHER_CHECKPOINT, facts={"named": other[:500]}) if other else None


def _of_silence(
    newest: SeenRun, answer: RunningAnswer, problem: FolderProblem | None, now: datetime
) -> Sign | None:
    is_known = answer.alive is not None and answer.is_fresh(now)
    if not _is_open(newest) or newest.is_gone or is_known or (problem is not None and not problem.log):
        return None
    if newest.moved_at is None or now - newest.moved_at <= SILENT_AFTER:
        return None
    return Sign(SignCode.SILENT, _iso(newest.moved_at), {"application": newest.app.app_id})


def _of_log(newest: SeenRun, now: datetime) -> list[Sign]:
    facts = {"log": newest.log, "application": newest.app.app_id}
    found = []
    if newest.is_gone and _is_open(newest):
        found.append(Sign(SignCode.LOG_CLEANED, _iso(newest.moved_at), facts))
    if newest.missed:
        found.append(Sign(SignCode.LOG_PART_CLEANED, "", {**facts, "files": str(newest.missed)}))
    if newest.problem:
        found.append(Sign(SignCode.LOG_CORRUPT, _iso(newest.moved_at), {**facts, "why": newest.problem}))
    if newest.is_half and newest.moved_at is not None and now - newest.moved_at > HALF_AFTER:
        found.append(Sign(SignCode.LOG_HALF, _iso(newest.moved_at), facts))
    return found


def _of_clock(newest: SeenRun) -> Sign | None:
    if abs(newest.skew) <= SKEWED:
        return None
    minutes = round(newest.skew.total_seconds() / 60)
    facts = {
        "application": newest.app.app_id,
        "minutes": str(abs(minutes)),
        "way": "ahead" if minutes > 0 else "behind",
    }
    return Sign(SignCode.CLOCKS_APART, "", facts)


def _of_answer(answer: RunningAnswer, newest: SeenRun | None, now: datetime) -> list[Sign]:
    if answer.answer is RunningStatus.UNKNOWN:
        return [Sign(SignCode.RUNNING_UNKNOWN, _iso(answer.at), {"why": answer.says})]
    if newest is None or not _is_open(newest) or answer.alive is not False or not answer.is_fresh(now):
        return []
    if newest.moved_at is None or answer.at is None or newest.moved_at <= answer.at:
        return []
    return [Sign(SignCode.RUNNING_DIFFERS, _iso(answer.at), {"application": newest.app.app_id})]


def _is_open(seen: SeenRun) -> bool:
    return seen.run.state is RunState.RUNNING


def _iso(at: datetime | None) -> str:
    return "" if at is None else at.isoformat(timespec="seconds")


def say_sign(sign: Sign) -> tuple[str, str]:
    """What is so, and what to do."""
    return _WORDS[sign.code](sign.facts)


def _of(says: str, do: str) -> Callable[[Mapping[str, str]], tuple[str, str]]:
    return lambda facts: (says.format(**facts), do.format(**facts))


_WORDS: Final[Mapping[SignCode, Callable[[Mapping[str, str]], tuple[str, str]]]] = {
    SignCode.SILENT: _of(
        "Application {application} has no end in its event log, and the log has not grown for more than 10 min.",
        "Check whether its driver is alive. A killed driver writes no end.",
    ),
    SignCode.PYTHON_NOT_USED: _of(
        "{python} is kept and not used: the server studies programs with its own Python and Spark.",
        "Compare what the code was found to do with what it does under its own Spark. The commands that start it may "
        "name any Python.",
    ),
    SignCode.LOGS_GONE: _of(
        "The folder of event logs {folder} no longer exists. The state shown is the last one that was read.",
        "Put the folder back, or name another one for this stream.",
    ),
    SignCode.LOGS_AWAY: _of(
        "The folder of event logs {folder} cannot be read. The state shown is the last one that was read.",
        "Test the workspace in Settings: its answer names what is missing.",
    ),
    SignCode.LOG_AWAY: _of(
        "Event log {log} in {folder} cannot be read; there may be others. It may belong to this stream.",
        "Let the console's user read it (Spark writes logs with mode 660), or move it away.",
    ),
    SignCode.LOG_CLEANED: _of(
        "Event log {log} was removed before its end was read, so how application {application} ended is not known.",
        "Let the clean-up keep logs for longer than a poll takes.",
    ),
    SignCode.LOG_PART_CLEANED: _of(
        "Files of rolling event log {log} were removed before they were read ({files}): batches in them are not shown.",
        "Nothing is lost in the stream. Let the clean-up keep more files.",
    ),
    SignCode.LOG_CORRUPT: _of(
        "Event log {log} cannot be read beyond a point: what came later is not known.",
        "Look at the checkpoint: it shows how far the stream came.",
    ),
    SignCode.LOG_HALF: _of(
        "The last line of event log {log} is half written: its driver was cut off, or the store shows the rest late.",
        "Wait: Reprise reads the line once it is whole.",
    ),
    SignCode.CLOCKS_APART: _of(
        "The clock of application {application} is about {minutes} min {way} of this console's, or its log comes late. "
        "Times shown are corrected.",
        "Synchronise both clocks with one time service.",
    ),
    SignCode.TWO_ATTEMPTS: _of(
        "Attempts {other} and {newest} of application {application} both have no end in their event logs.",
        "Make sure that attempt {other} is dead: two drivers must not write to one checkpoint.",
    ),
    SignCode.ANOTHER_CHECKPOINT: _of(
        "The newest run of this query writes to checkpoint {named}, by its event log: not this stream's folder.",
        "If both are one folder under two names, nothing is wrong. If one is a copy of the other, adopt both: each run "
        "then counts for the stream whose folder it names.",
    ),
    SignCode.RUNNING_UNKNOWN: _of(
        "It is not known whether the stream runs: its running command does not say.",
        "An admin can correct the command: {why}",
    ),
    SignCode.RUNNING_DIFFERS: _of(
        "The running command reports no run, and the event log of application {application} has grown since.",
        "Check that the command looks for the right program.",
    ),
}
