"""Looks at one source of a flow as it really is: where it stands, what waits, what a wished start would cost.

Where the system behind the source cannot be asked, `SourceFacts.problem` says why in one sentence, and nothing is
known of what waits. No sentence holds an option of the reader: they may be passwords.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import SourceProgress
from recovery.errors import Refused, RepriseError
from recovery.sources import delta, file_facts, files, kafka, registry, slices
from recovery.sources.base import (
    Candidate,
    Position,
    Precision,
    SourceFacts,
    Spans,
    Wanted,
)
from recovery.sources.file_positions import FileCandidate
from recovery.sources.live import delta as live_delta
from recovery.sources.live import files as live_files
from recovery.sources.live import kafka as live_kafka
from recovery.sources.slices import Slice

NO_PLACE = "The code does not tell where this source reads from, so nobody could look."


def look(
    progress: SourceProgress,
    described: Mapping[str, Any],
    *,
    wanted: Wanted | None = None,
    noted: Mapping[str, str] | None = None,
) -> SourceFacts:
    """The source `progress` of a checkpoint, read as `described` ({format, path, options, location}) by the code.

    `wanted`: a start that somebody wishes. `noted`: ids of Kafka topics as they were seen before. Raises Unreachable
    for input files that cannot be listed, as Spark would; what else cannot be asked is in `problem`, and a wish that
    cannot be met too.
    """
    ask = ASK.get(progress.kind, _unasked)
    found = replace(ask(progress, described, wanted, noted), described=dict(described))
    if wanted is not None and found.start is None and found.problem is None:
        return replace(found, problem=f"A start cannot be chosen for a source of kind {progress.kind}.")
    return found


def between(described: Mapping[str, Any], kind: str, start: str | None, end: str | None) -> Slice | None:
    """What lies between two positions of a source that is no file source; None: it cannot be told."""
    try:
        if kind == kafka.KIND:
            asked = live_kafka.facts(_options(described), positions=[start, end])
            return slices.of_kafka(start, end, asked)
        if kind == delta.KIND:
            there = live_delta.read(
                _place(described), offsets=[start, end], options=_options(described), look=False
            )
            return slices.of_delta(start, end, there)
    except (RepriseError, Malformed):
        return None
    return None


def latest(described: Mapping[str, Any], kind: str, committed: str | None) -> str | None:
    """The position behind everything that a source has now; None: it cannot be told."""
    progress = SourceProgress(0, kind, committed)
    return look(progress, described).latest if kind in (kafka.KIND, delta.KIND) else None


def _files(
    progress: SourceProgress,
    described: Mapping[str, Any],
    wanted: Wanted | None,
    noted: Mapping[str, str] | None,
) -> SourceFacts:
    path, options = described.get("path") or "", _options(described)
    listing = live_files.listing(path, options=options) if path else ()
    found = files.source_facts(
        progress,
        listing,
        location=path or "unknown place",
        max_files_per_trigger=number(options, "maxFilesPerTrigger"),
        max_file_age_ms=(age := file_facts.max_age_ms(options)),
    )
    there = listing if path else None
    held = file_facts.facts_of(progress, there, asked_ms=_now(), max_file_age_ms=age)
    found = replace(
        found,
        options=options,
        facts=held,
        option=files.option(progress.offset_json, held),
    )
    return _with_file_start(found, held, wanted, progress.offset_json)


def _with_file_start(
    found: SourceFacts, held: file_facts.Facts, wanted: Wanted | None, committed: str | None
) -> SourceFacts:
    begun, problem = _met(lambda w: files.at(w, committed, held), wanted)
    start = begun if isinstance(begun, FileCandidate) else None
    done = [f.path for f in found.processed]
    waits = unread = [f.path for f in found.waiting]
    again: list[str] = []
    skipped: list[str] = []
    if start is not None:
        kept = {live_files.decoded(e.path): e for e in start.read}
        taken = [f.path for f in file_facts.unread(kept, held)[0]]
        again = [p for p in taken if p in set(done)]
        skipped = [p for p in waits if p not in set(taken)]
        waits = taken
    everything = tuple(dict.fromkeys((*done, *waits, *skipped)))
    return replace(
        found,
        start=start,
        reach=files.reach_from(start, committed, held),
        problem=problem,
        waiting=tuple(held.there[p] for p in waits),
        unread=file_facts.measured(waits, held),
        spans=Spans(
            processed=Slice("files", files=tuple(done)),
            waiting=Slice("files", files=tuple(waits)),
            reread=Slice("files", files=tuple(again)),
            skipped=Slice("files", files=tuple(skipped)),
            unread=Slice("files", files=tuple(unread)),
            everything=Slice("files", files=everything),
        ),
    )


def _kafka(
    progress: SourceProgress,
    described: Mapping[str, Any],
    wanted: Wanted | None,
    noted: Mapping[str, str] | None,
) -> SourceFacts:
    committed, options = progress.offset_json, _options(described)
    if not options:
        return _unasked(progress, described, wanted, noted, NO_PLACE)
    times = [wanted.at_ms] if wanted and wanted.at_ms is not None else []
    asked = live_kafka.facts(options, positions=[committed], times=times, noted=noted)
    start, problem = _met(lambda w: kafka.at(w, committed, asked), wanted)
    if start is not None:  # asked again, so that the records up to that start are counted too
        asked = live_kafka.facts(options, positions=[committed, start.offset_json], times=times, noted=noted)
        start = _met(lambda w: kafka.at(w, committed, asked), wanted)[0] or start
    end = kafka.at(Wanted(latest=True), committed, asked).offset_json
    begins = start.offset_json if start else committed

    def lies(first: str | None, last: str | None) -> Slice | None:
        return slices.of_kafka(first, last, asked)

    return replace(
        _about(progress, begins, kafka, asked, ", ".join(sorted(asked.read)) or "unknown topics"),
        start=start,
        problem=problem,
        latest=end,
        unread=kafka.distance(begins, end, asked),
        spans=Spans(
            processed=lies(None, committed) if committed else Slice("kafka"),
            waiting=lies(begins, end),
            reread=lies(begins, committed) if start else Slice("kafka"),
            skipped=lies(committed, begins) if start else Slice("kafka"),
            unread=lies(committed, end),
            everything=lies(None, end),
        ),
    )


def _delta(
    progress: SourceProgress,
    described: Mapping[str, Any],
    wanted: Wanted | None,
    noted: Mapping[str, str] | None,
) -> SourceFacts:
    committed, options, place = progress.offset_json, _options(described), _place(described)
    if not place:
        return _unasked(progress, described, wanted, noted, NO_PLACE)
    there = live_delta.read(place, offsets=[committed], options=options)
    start, problem = _met(lambda w: delta.at(w, committed, there), wanted)
    fresh = there.fresh()
    offsets = [committed, start.offset_json if start else None, fresh.as_json() if fresh else None]
    there = live_delta.read(place, offsets=[o for o in offsets if o], options=options, known=there)
    if start is not None:  # once more: commits up to that start are known now
        start = _met(lambda w: delta.at(w, committed, there), wanted)[0] or start
    end = delta.at(Wanted(latest=True), committed, there).offset_json
    begins = start.offset_json if start else committed

    def lies(first: str | None, last: str | None) -> Slice | None:
        return slices.of_delta(first, last, there)

    everything, waiting = lies(None, end), lies(begins, end)
    unread = lies(committed, end)
    return replace(
        _about(progress, begins, delta, there, place),
        start=start,
        problem=problem,
        latest=end,
        unread=delta.distance(begins, end, there),
        spans=Spans(
            processed=_without(everything, unread),
            waiting=waiting,
            reread=lies(begins, committed) if start else Slice("delta"),
            skipped=lies(committed, begins) if start else Slice("delta"),
            unread=unread,
            everything=everything,
        ),
    )


def _without(everything: Slice | None, unread: Slice | None) -> Slice | None:
    """What was read of a table, as far as it is in its newest state: all of that but the unread files."""
    if everything is None or unread is None:
        return None
    left = {path for _, paths in unread.versions for path in paths}
    held = ((v, tuple(p for p in paths if p not in left)) for v, paths in everything.versions)
    return replace(everything, versions=tuple((v, paths) for v, paths in held if paths))


def _about(progress: SourceProgress, begins: str | None, kind: Any, facts: Any, location: str) -> SourceFacts:
    """What every kind tells by its module; reach and start option are those of where the stream shall begin."""
    reach = kind.reach(begins, facts)
    return SourceFacts(
        position=Position(
            source=progress.name or progress.index,
            kind=progress.kind,
            offset_json=progress.offset_json,
            label=kind.label(progress.offset_json),
            precision=Precision.EXACT,
            reachable=reach.readable,
        ),
        location=location,
        reach=reach,
        option=kind.option(begins, facts),
        facts=facts,
    )


def _unasked(
    progress: SourceProgress,
    described: Mapping[str, Any],
    wanted: Wanted | None,
    noted: Mapping[str, str] | None,
    problem: str | None = None,
) -> SourceFacts:
    """A source whose system nobody can ask, or could not: its offset line is kept as it is."""
    kind = registry.of(progress.kind)
    try:
        label = kind.label(progress.offset_json)
    except Malformed:
        label = registry.of("unknown").label(progress.offset_json)
    return SourceFacts(
        position=Position(
            source=progress.name or progress.index,
            kind=progress.kind,
            offset_json=progress.offset_json,
            label=label,
            precision=Precision.UNKNOWN,
            reachable=None,
        ),
        location=str(described.get("location") or described.get("path") or "unknown place"),
        problem=problem,
    )


def _asked(ask: "Ask") -> "Ask":
    """The same, but for a system that does not answer: that is said, and stops nobody from seeing the rest."""

    def asked(
        progress: SourceProgress,
        described: Mapping[str, Any],
        wanted: Wanted | None,
        noted: Mapping[str, str] | None,
    ) -> SourceFacts:
        try:
            return ask(progress, described, wanted, noted)
        except RepriseError as problem:
            return _unasked(progress, described, wanted, noted, problem.sentence)
        except Malformed as problem:
            why = f"The position of source {progress.name or progress.index} cannot be read: {problem.why}."
            return _unasked(progress, described, wanted, noted, why)

    return asked


Ask = Callable[[SourceProgress, Mapping[str, Any], Wanted | None, Mapping[str, str] | None], SourceFacts]
ASK: dict[str, Ask] = {"files": _files, "kafka": _asked(_kafka), "delta": _asked(_delta)}


def _met(at: Callable[[Wanted], Candidate], wanted: Wanted | None) -> tuple[Candidate | None, str | None]:
    """The position that was wished, or the sentence that refuses it."""
    if wanted is None:
        return None, None
    try:
        return at(wanted), None
    except Refused as refusal:
        return None, refusal.sentence
    except Malformed as problem:
        return None, f"That is no position of this source: {problem.why}."


def number(options: Mapping[str, Any], name: str) -> int | None:
    """An option by name, as Spark reads it: the case does not matter."""
    value = next((v for k, v in options.items() if k.lower() == name.lower()), None)
    return int(value) if value is not None and str(value).isdigit() else None


def _options(described: Mapping[str, Any]) -> dict[str, Any]:
    return dict(described.get("options") or {})


def _place(described: Mapping[str, Any]) -> str:
    return str(described.get("location") or described.get("path") or "")


def _now() -> int:
    return int(time.time() * 1000)
