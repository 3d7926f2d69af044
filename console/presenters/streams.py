"""The pages that adopt a stream and change what is said of it: what its checkpoint shows, what would help next."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from console.presenters import status, words
from console.presenters.flow import Fact
from recovery.checkpoints.report import CheckpointReport
from recovery.diagnosis.operators import operator_word
from recovery.sources import labels
from recovery.streams.preview import LogFacts, NeedAnswer, Preview, SinkFacts, StreamNeed, list_answers
from recovery.streams.running import RunningAnswer, RunningStatus
from recovery.streams.signs import Sign, say_sign

BADGES: Final = {
    NeedAnswer.FOUND: status.Badge("ok", "Found"),
    NeedAnswer.SAID: status.Badge("ok", "Given"),
    NeedAnswer.MISSING: status.Badge("pending", "Not yet"),
    NeedAnswer.UNREADABLE: status.Badge("failed", "Not readable"),
}
TITLES: Final = {
    StreamNeed.SINK: "Sink",
    StreamNeed.EVENT_LOG: "Event log",
    StreamNeed.PROGRAM: "Program",
    StreamNeed.RUNNER: "How it starts and stops",
    StreamNeed.OWNER: "Owner",
}
BUYS: Final = {
    StreamNeed.SINK: "rows can be counted, and a recovery proven.",
    StreamNeed.EVENT_LOG: "the cause in words, rates, the live state.",
    StreamNeed.PROGRAM: "which line changed, and what the next start would do, without running a batch.",
    StreamNeed.RUNNER: "a recovery that needs no one at the keyboard.",
    StreamNeed.OWNER: "the right people are asked before rows are lost.",
}


@dataclass(frozen=True)
class NeedRow:
    """One thing that would help. `found`: what is known of it by now; `buys`: what it is for."""

    code: str
    title: str
    badge: status.Badge
    found: str
    buys: str


@dataclass(frozen=True)
class SignRow:
    badge: status.Badge
    kind: str
    code: str
    says: str
    do: str
    file: str = ""
    spark: str = ""
    next_run: str = ""


def stream_facts(preview: Preview, now: datetime) -> tuple[list[Fact], list[Fact]]:
    """What the checkpoint shows, in two columns: how far the stream came, and what it keeps."""
    report, standing = preview.report, preview.standing
    ended_ms = standing.committed_ms
    ended = None if ended_ms is None else datetime.fromtimestamp(ended_ms / 1000, UTC)
    age = f"{words.format_clock(ended, now)}, {words.format_ago(ended, now)}" if ended else ""
    sources = [f"{s.kind}: {labels.describe_progress(s)}" for s in report.sources]
    named = ("the event log names it too", "in-event-log") if preview.logs.newest_run else ("", "")
    first = [
        Fact("Query id", report.query_id or "not known", *named),
        Fact("Last batch", _batch_text(report.last_committed, "committed"), age),
        Fact("Planned", _planned_text(report), _planned_means(report)),
        Fact("Sources", str(len(sources)), "; ".join(sources)),
    ]
    return first, [*_state_facts(report), _files_fact(report)]


def _batch_text(number: int | None, how: str) -> str:
    return "none" if number is None else f"{number:,}, {how}"


def _is_open(report: CheckpointReport) -> bool:
    planned, committed = report.last_planned, report.last_committed
    return planned is not None and (committed is None or planned > committed)


def _planned_text(report: CheckpointReport) -> str:
    return f"{report.last_planned:,}, not committed" if _is_open(report) else "nothing beyond it"


def _planned_means(report: CheckpointReport) -> str:
    return "the next start runs it again, over the same rows" if _is_open(report) else ""


def _state_facts(report: CheckpointReport) -> list[Fact]:
    steps = [
        f"{operator_word(o.name)}, {words.format_count(o.partitions, 'partition')}"
        for o in report.state_operators
    ]
    if not steps:
        return [Fact("State", "no stateful step", "as far as its files show")]
    return [Fact("State", words.format_count(len(steps), "step"), "; ".join(steps))]


def _files_fact(report: CheckpointReport) -> Fact:
    if report.blockers:
        return Fact("Files", "damaged", report.blockers[0].says)
    return Fact(
        "Files",
        "complete",
        "every file that a restart needs can be read; whether the program fits is another question",
    )


def list_needs(preview: Preview) -> list[NeedRow]:
    """In the order of use."""
    by_whom = "By commands." if preview.runner == "command" else "By hand, until you change it."
    words_of = {
        StreamNeed.SINK: _sink_words(preview.sink),
        StreamNeed.EVENT_LOG: _log_words(preview.logs),
        StreamNeed.PROGRAM: f"`{preview.program}`." if preview.program else "Its Python file.",
        StreamNeed.RUNNER: by_whom,
        StreamNeed.OWNER: f"{preview.owner}." if preview.owner else "A team, or who is on call.",
    }
    return [
        NeedRow(str(need), TITLES[need], BADGES[answered], words_of[need], BUYS[need])
        for need, answered in list_answers(preview).items()
    ]


def _sink_words(facts: SinkFacts) -> str:
    if facts.problem is not None:
        return facts.problem.sentence
    place = facts.sink.place or facts.sink.dataset
    if not place:
        return "The path or the name of the table that it writes."
    how = "By its newest batch in the event log." if facts.is_read else ""
    kind = "" if facts.sink.dataset else " Its format is not known yet: no file in it shows it."
    return f"`{place}`. {how}{kind}".strip()


def _log_words(logs: LogFacts) -> str:
    if logs.problem is not None:
        return logs.problem.sentence
    if logs.newest_run is not None:
        newest = logs.newest_run
        count = words.format_count(logs.application_count, "application")
        return f"`{logs.folder}`: {count} with this query id, newest `{newest.app.app_id}`, Spark {newest.app.version}."
    if logs.folder:
        return f"`{logs.folder}`: no application with this query id yet."
    return "The folder that `spark.eventLog.dir` names."


def count_answered(preview: Preview) -> int:
    """How many need nothing more."""
    return sum(answer in (NeedAnswer.FOUND, NeedAnswer.SAID) for answer in list_answers(preview).values())


def typed_values(preview: Preview, typed: Mapping[str, str]) -> dict[str, str]:
    """What the fields hold: what was typed, else what is known."""
    known = preview.known
    kept = {
        "sink": known.sink if known else preview.sink.sink.place,
        "event_log": known.event_log if known and known.event_log else preview.logs.folder,
        "program": known.program if known else "",
        "arguments": "\n".join(known.arguments) if known else "",
        "runner": known.runner if known else "by-hand",
        "start": shlex.join(known.start) if known else "",
        "stop": shlex.join(known.stop) if known else "",
        "running": shlex.join(known.running) if known else "",
        "owner": known.owner if known else "",
        "name": preview.name,
        "environment": preview.environment,
    }
    return {name: typed.get(name, value) for name, value in kept.items()}


def sign_rows(signs: Sequence[Sign]) -> list[SignRow]:
    """As findings show them."""
    badge = status.Badge("attention", "Warning")
    return [SignRow(badge, "warning", str(sign.code), *say_sign(sign)) for sign in signs]


def running_fact(answer: RunningAnswer, now: datetime) -> Fact | None:
    """`Runs: yes`, with the age of the answer; None without a command."""
    word = {
        RunningStatus.RUNNING: "yes",
        RunningStatus.NOT_RUNNING: "no",
        RunningStatus.UNKNOWN: "not known",
        RunningStatus.NOT_ASKED: "not asked yet",
    }[answer.answer]
    if answer.at is None:
        return None if answer.answer is RunningStatus.NOT_ASKED else Fact("Runs", word)
    old = "" if answer.is_fresh(now) else ", too old to count"
    return Fact("Runs", word, f"by its command, {words.format_ago(answer.at, now)}{old}")
