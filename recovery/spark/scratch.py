"""A rehearsal from the asker's side: two questions, and the files of the scratch folder between them.

`<scratch>/input` holds the copy of the input, `checkpoint` and `rows` what the query left, `settings` how Spark writes
a header, where the request brought none. Who answers runs the pipeline's code and has no key to any storage: what is
not written by Spark is written from here, through `Store`.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le, MaxLen

from recovery.checkpoints import empty_checkpoint, formats
from recovery.checkpoints.file_listing import MAX_SMALL_BYTES
from recovery.checkpoints.inspection import inspect_checkpoint
from recovery.checkpoints.storage import Store, reaching
from recovery.errors import Refused
from recovery.spark import replayed
from recovery.spark.asking import checked, sent

if TYPE_CHECKING:
    from recovery.spark.api import RehearsalRequest

Count = Annotated[int, Ge(0)]
Ask = Callable[..., Mapping[str, Any]]
FOLDERS = {"input", "settings", "checkpoint", "rows"}
GRACE_SECONDS = 30.0  # for the child to stop a query that ran out of time, and to say so
NAMED_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


@dataclass(frozen=True)
class StagedRehearsal:
    """What `stage` answers (`recovery.spark.rehearsing.stage`)."""

    cuts: Mapping[Annotated[str, MaxLen(6)], Count] = field(default_factory=dict)
    before: Annotated[tuple[Annotated[int, Ge(0), Le(10_000)], ...], MaxLen(10_000)] = ()
    sources: Annotated[int, Ge(0), Le(10_000)] = 0
    why: Annotated[str, MaxLen(100_000)] = ""
    problem: Annotated[str, MaxLen(100_000)] | None = None


@dataclass(frozen=True)
class RehearsalRun:
    """What `rehearse` answers (`recovery.spark.rehearsing.run`)."""

    rows: Count | None = None
    late: Count | None = None
    later: Count | None = None
    batches: Count | None = None
    problem: Annotated[str, MaxLen(100_000)] | None = None


def rehearse_flow(request: "RehearsalRequest", *, timeout: float, ask: Ask) -> dict[str, Any]:
    """The fields of `api.Rehearsal`. Raises `Refused` where the scratch folder is there already."""
    until = time.monotonic() + timeout
    if (request.conf or {}).get(NAMED_SOURCES) == "true":
        return {"problem": "The flow's sources have names, which a rehearsal cannot give to copies of them."}
    if Store.open(request.scratch).exists():
        raise Refused(f"{request.scratch} is there already; a rehearsal needs a new folder.")
    sent_request = sent(request)
    staged = checked(StagedRehearsal, ask("stage", sent_request, seconds=timeout))
    if staged.problem is not None:
        return {"problem": staged.problem}
    place = f"{request.scratch.rstrip('/')}/checkpoint"
    first = empty_checkpoint.header_line(_conf(request), request.watermark_ms or 0)
    planned = staged.before if request.replay is not None and request.replay.first else ()
    lines = ['{"logOffset":0}' if n in planned else "-" for n in range(staged.sources)]
    logs = {n: replayed.source_log(request.scratch, n) for n in planned}
    empty_checkpoint.lay_skeleton(place, ["v1", first, *lines], logs=logs, guard=lambda: None)
    sent_request |= {"cuts": dict(staged.cuts), "before": list(staged.before)}

    def run(question: str) -> RehearsalRun:
        seconds = max(1.0, until - time.monotonic())
        return checked(
            RehearsalRun, ask(question, {**sent_request, "seconds": seconds}, seconds=seconds + GRACE_SECONDS)
        )

    ran = RehearsalRun()
    if request.replay is not None:
        ran = run("replay")
        replayed.set_watermark(place, request.replay.next_ms)
    if ran.problem is None and _has_input(request):
        ran = run("rehearse")
    if ran.problem is not None:
        return {"problem": ran.problem}
    replayed.forget_log(request.scratch)
    return {
        **asdict(ran),
        "watermark_ms": watermark(place),
        "output": f"{request.scratch.rstrip('/')}/rows",
        "checkpoint": place,
        "why": staged.why,
    }


def _has_input(request: "RehearsalRequest") -> bool:
    """Whether the query runs over more than what was processed: without that it leaves empty state, and does."""
    return request.replay is None or bool(request.study.sets or request.study.slices)


def _conf(request: "RehearsalRequest") -> Mapping[str, str]:
    """Settings of the state: those that are given, else those that Spark wrote for this session."""
    if request.conf is not None:
        return request.conf
    with reaching(request.scratch):
        data = Store.open(request.scratch).read("settings/checkpoint/offsets/0", MAX_SMALL_BYTES)
    conf: Mapping[str, str] = json.loads(formats.text_of(data).split("\n")[1])["conf"]
    return conf


def watermark(place: str) -> int | None:
    """The watermark with which the batch after the last committed one would begin, in epoch ms; None: none yet."""
    batch = inspect_checkpoint(place).last_committed
    with reaching(place):
        data = Store.open(place).read(f"commits/{batch}", MAX_SMALL_BYTES)
    return formats.parse_commit(data).watermark_ms or None


def clear_scratch(scratch: str) -> None:
    """Remove a rehearsal's folder; one that is gone is fine. Raises `Refused` for a folder that is none."""
    there = Store.open(scratch)
    with reaching(scratch):
        if not there.exists():
            return
        names = {entry.name for entry in there.entries()}
        if strange := names - FOLDERS:
            raise Refused(
                f"{scratch} holds more than a rehearsal leaves, {min(strange)}; nothing was removed.",
                code="scratch_in_use",
            )
        there.remove("")
