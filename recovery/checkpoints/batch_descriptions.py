"""A batch's positions in people's words: a source's position, what it took, what moved. Pure."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from recovery.checkpoints import formats, positions
from recovery.checkpoints.batches import BatchSource, Difference, SourceStep
from recovery.checkpoints.logpages import LogSpan
from recovery.checkpoints.report import Outcome

# What the next run with the same code comes to: `The next run ...`.
OUTCOMES = {
    Outcome.FAILS: "fails",
    Outcome.UNREADABLE_TABLE: "ends well, and the table cannot be read any more",
    Outcome.LOSES: "ends well, and rows are lost",
    Outcome.DOUBLES: "ends well, and rows are there twice",
    Outcome.UNKNOWN: "was not judged",
    Outcome.OPEN: "is not promised: it depends on what no file here shows",
    Outcome.GOES_ON: "goes on",
}


def next_run(outcome: str) -> str:
    """One sentence for the outcome of a finding or a report; "" for what is none (older records hold none)."""
    known = next((o for o in Outcome if o.value == outcome), None)
    return f"The next run {OUTCOMES[known]}." if known else ""


def describe_line(kind: str, offset_json: str | None) -> str:
    """The position of a line: `log entry 12`, `orders[0] at 123`; other sources' lines speak for themselves."""
    if offset_json is None:
        return "nothing read yet"
    if kind == "files":
        return f"log entry {formats.log_offset(offset_json)}"
    read, position = positions.read_position(offset_json, None)
    return positions.describe_position(read, position) if position is not None else "as the source wrote it"


def describe_intake(source: BatchSource) -> str:
    """What a batch read of this source, as far as its files say."""
    if source.files is not None:
        return in_between(source.files)
    if not source.begins:
        return "not known: the batch before is gone, so it is not known where it began"
    if source.begins_json == source.offset_json:
        return "nothing new"
    return _describe_move(source.kind, source.begins_json, source.offset_json)


def describe_step(step: SourceStep) -> str:
    """What is between two batches' positions of one source."""
    if step.change in ("added", "removed"):
        return f"the source was {step.change}"
    if step.change == "same":
        return "the same position"
    return (
        in_between(step.files)
        if step.files is not None
        else _describe_move(step.kind, step.before_json, step.after_json)
    )


def operators_untold(difference: Difference) -> str:
    """Why nothing is said of state operators; "" where both commits tell them."""
    numbers = difference.operators_untold
    if not numbers:
        return ""
    who = "Not recorded in either batch" if len(numbers) == 2 else f"Batch {numbers[0]} does not say"
    return f"{who}: only commits of state format 2 name operators."


def in_between(files: LogSpan) -> str:
    """`no file`, `1 file, a.json`, `3 files, a.json to c.json`; what could not be read behind it."""
    if files.upto < files.after:
        return f"the position went back, from log entry {files.after} to {files.upto}"
    names = [file_name(e.path) for e in (*files.first[:1], *files.first[-1:])]
    if files.count > len(files.first):
        ends = f", the first {names[0]}"
    else:
        ends = f", {names[0]} to {names[-1]}" if files.count > 1 else f", {names[0]}" if names else ""
    count = _count_noun(files.count, "file") if files.count else "no file"
    return f"{count}{ends}" + (f"; not whole: {files.why}" if files.why else "")


def file_name(path: str) -> str:
    """The last part of a URL-encoded URI."""
    return unquote(path.rstrip("/").rsplit("/", 1)[-1])


def changed_partitions(
    before_json: str | None, after_json: str | None
) -> list[tuple[str, int | None, int | None]]:
    """(`topic[partition]`, offset before, offset after) of two Kafka lines where they differ; [] for others."""
    old, new = (_kafka_offsets(line) for line in (before_json, after_json))
    if old is None or new is None:
        return []
    return [(key, old.get(key), new.get(key)) for key in sorted({*old, *new}) if old.get(key) != new.get(key)]


def _kafka_offsets(line: str | None) -> dict[str, int] | None:
    if line is None:
        return {}
    kind, position = positions.read_position(line, None)
    if kind != "kafka" or position is None:
        return None
    held: Mapping[str, Mapping[str, Any]] = position
    return {f"{topic}[{p}]": int(o) for topic, partitions in held.items() for p, o in partitions.items()}


def _describe_move(kind: str, before_json: str | None, after_json: str | None) -> str:
    moved = changed_partitions(before_json, after_json) if kind == "kafka" else []
    if not moved:
        return "its position moved"
    known = [(b, a) for _, b, a in moved if b is not None and a is not None]
    new = len(moved) - len(known)
    more = f"; {_count_noun(new, 'partition')} in one of them only" if new else ""
    return f"{_count_noun(sum(a - b for b, a in known), 'offset')} in {_count_noun(len(known), 'partition')}{more}"


def _count_noun(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
