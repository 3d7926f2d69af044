"""Looks at one source of a flow as it really is: where it is, what waits, what a wished start would cost.

Where the system behind the source cannot be asked, `SourceFacts.problem` says why in one sentence, and nothing is
known of what waits. No sentence holds an option of the reader: they may be passwords.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import SourceProgress
from recovery.checkpoints.uris import decode_uri
from recovery.contracts.readers import ReaderOptions, SourceReader
from recovery.errors import Refused, RepriseError
from recovery.numbers import whole
from recovery.sources import delta, file_facts, files, input_ranges, kafka, kept, registry, unasked
from recovery.sources.base import (
    InputSpans,
    Position,
    Precision,
    SourceFacts,
    StartCandidate,
    StartChoice,
)
from recovery.sources.comparing import option_of
from recovery.sources.file_positions import FileCandidate
from recovery.sources.input_ranges import InputRange
from recovery.sources.live import delta as live_delta
from recovery.sources.live import file_source_facts
from recovery.sources.live import kafka as live_kafka
from recovery.sources.live.file_source_facts import NO_PLACE, end_of, require_place
from recovery.sources.lost_position import bound_from_last_known


@dataclass(frozen=True)
class ProbeRequest:
    """One question about a source: the arguments of `probe_source`."""

    progress: SourceProgress
    reader: SourceReader
    wanted: StartChoice | None
    noted: Mapping[str, str] | None


def probe_source(
    progress: SourceProgress,
    reader: SourceReader,
    *,
    wanted: StartChoice | None = None,
    noted: Mapping[str, str] | None = None,
) -> SourceFacts:
    """The source `progress` of a checkpoint, read by the code through `reader`.

    `wanted`: a start that someone wishes. `noted`: ids of Kafka topics as they were seen before. Raises Unreachable
    for input files that cannot be listed, as Spark would; what else cannot be asked is in `problem`, and a wish that
    cannot be met too.
    """
    ask = ASK.get(progress.kind, _facts_without_probe)
    lost = progress.lost if progress.kind != files.KIND else None
    if lost is None:
        facts = ask(ProbeRequest(progress, reader, wanted, noted))
    else:
        from_known = replace(progress, offset_json=lost.known_json, lost=None)
        facts = bound_from_last_known(ask(ProbeRequest(from_known, reader, wanted, noted)), lost)
    facts = replace(facts, reader=reader)
    if wanted is not None and facts.start is None and facts.problem is None:
        return replace(facts, problem=f"A start cannot be chosen for a source of kind {progress.kind}.")
    return facts


def range_between(
    reader: SourceReader,
    kind: str,
    start: str | None,
    end: str | None,
    *,
    noted: Mapping[str, str] | None = None,
) -> InputRange | None:
    """What is between two positions of a source that is no file source; None: not known.

    `noted`: ids of the Kafka topics that the positions are of.
    """
    try:
        facts = _read_facts(reader, kind, [start, end], noted)
        return SLICED[kind](start, end, facts) if facts else None
    except (RepriseError, Malformed):
        return None


def latest_position(reader: SourceReader, kind: str, committed: str | None) -> str | None:
    """The position behind everything that a source has now; None: not known."""
    try:
        facts = _read_facts(reader, kind, [committed])
        return end_of(registry.POSITIONED[kind], committed, facts) if facts else None
    except (RepriseError, Malformed):
        return None


MOST_COMMITS = 5000  # of a Delta table, opened to see whether it ever lost a row


def keeps_all(facts: SourceFacts, before: str | None) -> bool:
    """Whether `facts.spans.processed` is all that was ever committed of a source that is no file source, and as far as
    `before`, an earlier position, was. False also where that is not known."""
    kind, committed, known_facts = facts.position.kind, facts.position.offset_json, facts.facts
    if known_facts is None:
        return False
    try:
        if kind == kafka.KIND:
            return kept.by_kafka(before, committed, known_facts)
        if kind != delta.KIND or known_facts.earliest > 0 or known_facts.latest >= MOST_COMMITS:
            return False
        place, options = require_place(facts.reader), facts.reader.options
        every = live_delta.read_table(
            place, offsets=(), options=options, known=known_facts, look=False, since=0
        )
        return kept.by_delta(before, committed, every)
    except (RepriseError, Malformed):
        return False


def list_remade_topics(reader: SourceReader, noted: Mapping[str, str]) -> tuple[str, ...]:
    """Kafka topics that are not there any more with the id that was noted; () where that is not known."""
    try:
        facts = _read_facts(reader, kafka.KIND, (), noted) if noted else None
    except RepriseError:
        return ()
    return tuple(t for t in noted if facts and (t not in facts.topics or facts.remade(t)))


SLICED: Mapping[str, Callable[..., InputRange | None]] = {
    kafka.KIND: input_ranges.of_kafka,
    delta.KIND: input_ranges.of_delta,
}


def _read_facts(
    reader: SourceReader,
    kind: str,
    positions: Sequence[str | None],
    noted: Mapping[str, str] | None = None,
) -> Any:
    """The facts of positions, without a record counted or a file looked for; None for kinds that are not asked."""
    options = reader.options
    if kind == kafka.KIND:
        return live_kafka.read_topic_facts(options, positions=positions, noted=noted, count_up_to=0)
    if kind == delta.KIND:
        return live_delta.read_table(require_place(reader), offsets=positions, options=options, look=False)
    return None


def _probe_files(asked: ProbeRequest) -> SourceFacts:
    progress, reader = asked.progress, asked.reader
    options, listed = reader.options, file_source_facts.list_source_files(reader)
    held = file_source_facts.facts_of_files(progress, reader, listed)
    facts = files.source_facts(
        progress,
        listed or (),
        location=reader.place or "unknown place",
        max_files_per_trigger=integer_option(options, "maxFilesPerTrigger"),
        options=options,
    )
    facts = replace(
        facts,
        options=options,
        facts=held,
        option=files.find_start_option(progress.offset_json, held),
    )
    return _with_file_start(facts, held, asked.wanted, progress.offset_json)


def _with_file_start(
    facts: SourceFacts, held: file_facts.FileSourceFacts, wanted: StartChoice | None, committed: str | None
) -> SourceFacts:
    begun, problem = _try_request(lambda w: files.find_position(w, committed, held), wanted)
    start = begun if isinstance(begun, FileCandidate) else None
    done = [f.path for f in facts.processed]
    waits = unread = [f.path for f in facts.waiting]
    skipped: list[str] = []
    if start is not None:
        kept = {decode_uri(e.path): e for e in start.read}
        taken = [f.path for f in file_facts.list_unread(kept, held).new]
        skipped = [p for p in waits if p not in set(taken)]
        waits = taken
    read, coming = set(done), set(waits)
    again = [p for p in waits if p in read]
    everything = tuple(f.path for f in held.in_turn(held.listing or ()))  # as an empty checkpoint reads them
    return replace(
        facts,
        start=start,
        reach=files.reach_from(start, committed, held),
        problem=problem,
        waiting=tuple(held.there[p] for p in waits),
        ignored=tuple(f for f in facts.ignored if f.path not in coming),
        unread=file_facts.measure_files(waits, held),
        spans=InputSpans(
            processed=InputRange("files", files=tuple(done)),
            waiting=InputRange("files", files=tuple(waits)),
            reread=InputRange("files", files=tuple(again)),
            skipped=InputRange("files", files=tuple(skipped)),
            unread=InputRange("files", files=tuple(unread)),
            everything=InputRange("files", files=everything),
        ),
    )


def _probe_kafka(asked: ProbeRequest) -> SourceFacts:
    committed, wanted, options = asked.progress.offset_json, asked.wanted, asked.reader.options
    if not options:
        return _facts_without_probe(asked, NO_PLACE)
    times = wanted.times if wanted else ()
    topics = live_kafka.read_topic_facts(options, positions=[committed], times=times, noted=asked.noted)
    start, problem = _try_request(lambda w: kafka.find_position(w, committed, topics), wanted)
    if start is not None:  # asked again, so that the records up to that start are counted too
        topics = live_kafka.read_topic_facts(
            options, positions=[committed, start.offset_json], times=times, noted=asked.noted
        )
        start = _try_request(lambda w: kafka.find_position(w, committed, topics), wanted)[0] or start
    end = end_of(kafka, committed, topics)
    begins = start.offset_json if start else committed

    def lies(first: str | None, last: str | None) -> InputRange | None:
        return input_ranges.of_kafka(first, last, topics)

    return replace(
        _facts_from_module(
            asked.progress, begins, kafka, topics, ", ".join(sorted(topics.read)) or "unknown topics"
        ),
        start=start,
        problem=problem,
        latest=end,
        unread=kafka.measure_distance(begins, end, topics),
        spans=InputSpans(
            processed=lies(None, committed) if committed else InputRange("kafka"),
            waiting=lies(begins, end),
            reread=lies(begins, committed) if start else InputRange("kafka"),
            skipped=lies(committed, kafka.skipped_to(committed, begins, topics))
            if start
            else InputRange("kafka"),
            unread=lies(committed, end),
            everything=lies(None, end),
        ),
    )


def _probe_delta(asked: ProbeRequest) -> SourceFacts:
    committed, wanted = asked.progress.offset_json, asked.wanted
    options, place = asked.reader.options, require_place(asked.reader)
    table = live_delta.read_table(place, offsets=[committed], options=options)
    start, problem = _try_request(lambda w: delta.find_position(w, committed, table), wanted)
    fresh = table.fresh()
    offsets = [committed, start.offset_json if start else None, fresh.as_json() if fresh else None]
    table = live_delta.read_table(place, offsets=[o for o in offsets if o], options=options, known=table)
    if start is not None:  # once more: commits up to that start are known now
        start = _try_request(lambda w: delta.find_position(w, committed, table), wanted)[0] or start
    end = end_of(delta, committed, table)
    begins = start.offset_json if start else committed

    def lies(first: str | None, last: str | None) -> InputRange | None:
        return input_ranges.of_delta(first, last, table)

    everything, unread = lies(None, end), lies(committed, end)
    spans = InputSpans(
        processed=_subtract_unread(everything, unread),
        waiting=lies(begins, end),
        reread=lies(begins, committed) if start else InputRange("delta"),
        skipped=lies(committed, begins) if start else InputRange("delta"),
        unread=unread,
        everything=everything,
    )
    held = (spans.processed, spans.waiting, spans.reread, spans.skipped, unread, everything)
    if any(s is not None and s.versions and not s.direct for s in held):
        table = live_delta.measure_table(table)
    return replace(
        _facts_from_module(asked.progress, begins, delta, table, place),
        start=start,
        problem=problem,
        latest=end,
        unread=delta.measure_distance(begins, end, table),
        spans=spans,
    )


def _subtract_unread(everything: InputRange | None, unread: InputRange | None) -> InputRange | None:
    """What was read of a table, as far as it is in its newest state: all of that but the unread files."""
    if everything is None or unread is None:
        return None
    if everything.changes or unread.changes or everything.snapshot_ms is not None:
        return _feed_without(everything, unread)
    left = {path for _, paths in unread.versions for path in paths}
    held = ((v, tuple(p for p in paths if p not in left)) for v, paths in everything.versions)
    return replace(everything, versions=tuple((v, paths) for v, paths in held if paths))


def _feed_without(everything: InputRange, unread: InputRange) -> InputRange | None:
    """Of a change feed: its changes up to the first unread one. None: it would begin with a snapshot of now, which is
    no change that was ever read."""
    if everything.versions or unread.versions or everything.changes is None:
        return None
    if unread.changes is None:
        return everything
    first, last = everything.changes[0], unread.changes[0] - 1
    return replace(everything, changes=(first, last) if first <= last else None)


def _facts_from_module(
    progress: SourceProgress, begins: str | None, kind: Any, facts: Any, location: str
) -> SourceFacts:
    """What every kind tells by its module; reach and start option are those of where the stream begins."""
    reach = kind.judge_reach(begins, facts)
    return SourceFacts(
        position=Position(
            source=progress.name or progress.index,
            kind=progress.kind,
            offset_json=progress.offset_json,
            label=kind.label_position(progress.offset_json),
            precision=Precision.EXACT,
            reachable=reach.readable,
        ),
        location=location,
        reach=reach,
        option=kind.find_start_option(begins, facts),
        facts=facts,
    )


def _facts_without_probe(asked: ProbeRequest, problem: str | None = None) -> SourceFacts:
    """A source whose system no one can ask, or could not: its offset line is kept as it is."""
    progress, reader = asked.progress, asked.reader
    kind = registry.source_kind_of(progress.kind)
    try:
        label = kind.label_position(progress.offset_json)
    except Malformed:
        label = unasked.UNKNOWN.label_position(progress.offset_json)
    return SourceFacts(
        position=Position(
            source=progress.name or progress.index,
            kind=progress.kind,
            offset_json=progress.offset_json,
            label=label,
            precision=Precision.UNKNOWN,
            reachable=None,
        ),
        location=reader.location or reader.path or "unknown place",
        problem=problem,
    )


def _catch_no_answer(ask: Callable[[ProbeRequest], SourceFacts]) -> Callable[[ProbeRequest], SourceFacts]:
    """The same, but for a system that does not answer: that is said, and stops no one from seeing the rest."""

    def answered(asked: ProbeRequest) -> SourceFacts:
        try:
            return ask(asked)
        except RepriseError as problem:
            return _facts_without_probe(asked, problem.sentence)
        except Malformed as problem:
            who = asked.progress.name or asked.progress.index
            return _facts_without_probe(asked, f"The position of source {who} cannot be read: {problem.why}.")

    return answered


ASK: Mapping[str, Callable[[ProbeRequest], SourceFacts]] = {
    files.KIND: _probe_files,
    kafka.KIND: _catch_no_answer(_probe_kafka),
    delta.KIND: _catch_no_answer(_probe_delta),
}


def _try_request(
    at: Callable[[StartChoice], StartCandidate], wanted: StartChoice | None
) -> tuple[StartCandidate | None, str | None]:
    """The position that was wished, or the sentence that refuses it."""
    if wanted is None:
        return None, None
    try:
        return at(wanted), None
    except Refused as refusal:
        return None, refusal.sentence
    except Malformed as problem:
        return None, f"That is no position of this source: {problem.why}."


def integer_option(options: ReaderOptions, name: str) -> int | None:
    """The whole number that an option holds; None where it holds none."""
    value = option_of(options, name)
    return None if value is None else whole(value)
