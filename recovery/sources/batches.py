"""How a stream cuts what waits into batches: the limits that a reader's options set. Pure.

Where the cuts are decides which rows come behind the watermark, and which repeats are still remembered. A rehearsal
that says what an update writes makes the same cuts. Facts (Spark 4.2, Delta 4.4): FileStreamSource.fetchMaxOffset,
KafkaMicroBatchStream.rateLimit, DeltaSource.AdmissionLimits; an update (trigger AvailableNow) has them all.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import TypeVar

from recovery.numbers import whole
from recovery.sources.input_ranges import InputRange

T = TypeVar("T")
MOST = 200  # batches; each takes about a second
DELTA_FILES = 1000  # DeltaOptions.MAX_FILES_PER_TRIGGER_OPTION_DEFAULT


@dataclass(frozen=True)
class BatchCuts:
    """`cuts`: what each batch reads, in order; () where nothing waits. `why`: why the true cuts may be others ("": they
    are not)."""

    cuts: tuple[InputRange, ...]
    why: str = ""


def split_batches(waits: InputRange, options: Mapping[str, str]) -> BatchCuts:
    """The batches in which an update reads `waits`, in the order in which it lists it. `options` are the reader's."""
    if waits.empty:
        return BatchCuts(())
    lower = {name.lower(): value for name, value in options.items()}
    if unknown := next((n for n in ("maxbytespertrigger", "minoffsetspertrigger") if n in lower), None):
        return BatchCuts((waits,), f"its batches depend on {_SPELLED[unknown]}")
    if waits.changes is not None:
        return BatchCuts((waits,), "the changes of its table are read in one")
    limit = _limit_of(waits.kind, lower)
    if limit is None:
        return BatchCuts((waits,))
    cuts = []
    for cut in _CUT[waits.kind](waits, limit):
        cuts.append(cut)
        if len(cuts) > MOST:
            return BatchCuts((waits,), f"it would take more than {MOST} batches, and was read in one")
    newest_first = waits.kind == "files" and lower.get("latestfirst", "").strip().lower() == "true"
    return BatchCuts(tuple(cuts), "its newest files come first (latestFirst)" if newest_first else "")


_SPELLED = {"maxbytespertrigger": "maxBytesPerTrigger", "minoffsetspertrigger": "minOffsetsPerTrigger"}
_NAMED = {"files": "maxfilespertrigger", "kafka": "maxoffsetspertrigger", "delta": "maxfilespertrigger"}


def _limit_of(kind: str, lower: Mapping[str, str]) -> int | None:
    limit = whole(lower.get(_NAMED.get(kind, ""), "").strip())
    return limit or (DELTA_FILES if kind == "delta" else None)


def _split_by(limit: int, items: Iterable[T]) -> Iterator[tuple[T, ...]]:
    left = iter(items)
    while some := tuple(islice(left, limit)):
        yield some


def _split_files(waits: InputRange, limit: int) -> Iterator[InputRange]:
    for some in _split_by(limit, waits.files):
        yield InputRange("files", files=some)


def _split_versions(waits: InputRange, limit: int) -> Iterator[InputRange]:
    one_by_one = [(version, path) for version, paths in waits.versions for path in paths]
    for some in _split_by(limit, one_by_one):
        together = groupby(some, key=lambda pair: pair[0])
        versions = tuple((v, tuple(path for _, path in pairs)) for v, pairs in together)
        yield replace(waits, versions=versions)


def _split_offsets(waits: InputRange, limit: int) -> Iterator[InputRange]:
    """Each partition gives its share of the limit by what is left in it; rounded down, but one at least."""
    at, end = _flatten_offsets(waits.start), _flatten_offsets(waits.end)
    while left := {key: end[key] - at[key] for key in at if end[key] > at[key]}:
        total = sum(left.values())
        share = {key: limit * (size / total) for key, size in left.items()}
        to = {
            key: min(
                end[key], at[key] + (math.ceil(share[key]) if share[key] < 1 else math.floor(share[key]))
            )
            if key in left
            else end[key]
            for key in at
        }
        yield InputRange("kafka", start=_by_topic(at), end=_by_topic(to))
        at = to


def _flatten_offsets(held: Mapping[str, Mapping[str, int]]) -> dict[tuple[str, str], int]:
    return {(topic, p): offset for topic, partitions in held.items() for p, offset in partitions.items()}


def _by_topic(at: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in at.items():
        topics.setdefault(topic, {})[partition] = offset
    return topics


_CUT = {"files": _split_files, "kafka": _split_offsets, "delta": _split_versions}


def join_slices(parts: Sequence[InputRange]) -> InputRange | None:
    """Several slices of one source as one, in their order. None: of other kinds, or they leave something out."""
    first, *rest = parts
    for part in rest:
        if part.kind != first.kind:
            return None
        if part.empty:
            continue
        if first.empty:
            first = part
        elif part.kind == "kafka":
            behind = _flatten_offsets(first.end)
            if any(behind.get(key, offset) != offset for key, offset in _flatten_offsets(part.start).items()):
                return None
            start = {**_flatten_offsets(part.start), **_flatten_offsets(first.start)}
            first = InputRange(
                "kafka", start=_by_topic(start), end=_by_topic({**behind, **_flatten_offsets(part.end)})
            )
        elif first.changes or part.changes:
            return None  # of no feed more than one slice is ever asked
        else:
            first = InputRange(
                first.kind,
                files=first.files + part.files,
                versions=first.versions + part.versions,
                direct=first.direct and part.direct,
            )
    return first
