"""What waits behind a source's position, and until when: asked again and again, so it asks for no more than that.

Kafka is asked to count few records, and of a Delta table commits that were opened before are not opened again by the
same process. No sentence holds an option of the reader: they may be passwords.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from recovery.checkpoints.report import SourceProgress
from recovery.contracts.readers import SourceReader
from recovery.errors import Refused
from recovery.sources import delta, file_facts, files, iceberg, kafka, registry, unasked
from recovery.sources.base import Distance, PositionedSource, SourceRetention
from recovery.sources.delta_facts import DeltaFacts
from recovery.sources.live import delta as live_delta
from recovery.sources.live import file_source_facts
from recovery.sources.live import iceberg as live_iceberg
from recovery.sources.live import kafka as live_kafka
from recovery.sources.live.file_source_facts import end_of, require_place

COUNT_UP_TO: Final = 10_000  # records of Kafka that are read to be counted; more are estimated
HELD_TABLES: Final = 16  # whose commits this process remembers
HELD_FILES: Final = 50_000  # and of how many files at most, in each; some 300 bytes each

Ids = Mapping[str, str]  # topic -> its id


@dataclass(frozen=True)
class UnreadInput:
    """What follows a position. `waits`: up to the end as it is now, as far as it is known."""

    reach: SourceRetention
    waits: Distance = field(default_factory=Distance)


def count_unread(
    progress: SourceProgress, reader: SourceReader, *, noted: Callable[[Ids], Ids] = dict
) -> UnreadInput:
    """What follows the committed position of a source that the code reads through `reader`.

    `noted`: from the ids that topics have now to those that the position is meant for. Raises Unreachable and Refused
    where the system behind the source cannot be asked, Malformed for a position that is none.
    """
    ask = ASK.get(progress.kind)
    if ask is not None:
        return ask(progress, reader, noted)
    kind = registry.UNASKED.get(progress.kind, unasked.UNKNOWN)
    return UnreadInput(kind.judge_reach(progress.offset_json))


def _count_unread_files(
    progress: SourceProgress, reader: SourceReader, noted: Callable[[Ids], Ids]
) -> UnreadInput:
    require_place(reader)
    facts = file_source_facts.facts_of_files(progress, reader, file_source_facts.list_source_files(reader))
    at_entry = file_facts.log_entry_of(progress.offset_json)
    read = facts.read_at(-1 if at_entry is None else at_entry)
    waits = file_facts.list_unread(read, facts, planned=True).new
    return UnreadInput(
        files.judge_reach(progress.offset_json, facts, planned=True),
        file_facts.measure_files([f.path for f in waits], facts),
    )


def _count_unread_records(
    progress: SourceProgress, reader: SourceReader, noted: Callable[[Ids], Ids]
) -> UnreadInput:
    position = progress.offset_json
    asked = live_kafka.read_topic_facts(reader.options, positions=[position], count_up_to=COUNT_UP_TO)
    ids = {name: topic.topic_id for name, topic in asked.topics.items() if topic.topic_id}
    facts = replace(asked, noted=dict(noted(ids)))
    return UnreadInput(kafka.judge_reach(position, facts), _to_the_end(kafka, position, facts))


def _count_unread_versions(
    progress: SourceProgress, reader: SourceReader, noted: Callable[[Ids], Ids]
) -> UnreadInput:
    position, place = progress.offset_json, require_place(reader)
    known = _TABLES.get(place)
    facts = live_delta.read_table(place, offsets=[position], options=reader.options, known=known)
    _cache_commits(place, facts)
    return UnreadInput(delta.judge_reach(position, facts), _to_the_end(delta, position, facts))


_TABLES: "OrderedDict[str, DeltaFacts]" = OrderedDict()


def _cache_commits(place: str, facts: DeltaFacts) -> None:
    """Their own snapshots and listings are made again each time; the commits of a log never change."""
    _TABLES.pop(place, None)
    if sum(len(c.files) + len(c.removed) for c in facts.commits.values()) <= HELD_FILES:
        _TABLES[place] = replace(facts, snapshots={}, gone=frozenset())
    while len(_TABLES) > HELD_TABLES:
        _TABLES.popitem(last=False)


def _count_unread_snapshots(
    progress: SourceProgress, reader: SourceReader, noted: Callable[[Ids], Ids]
) -> UnreadInput:
    position, table = progress.offset_json, live_iceberg.read_table_facts(require_place(reader))
    facts = replace(table, skips=iceberg.list_skipped_kinds(reader.options))
    return UnreadInput(iceberg.judge_reach(position, facts), iceberg.measure_waiting(position, facts))


def _to_the_end(kind: PositionedSource[Any], position: str | None, facts: Any) -> Distance:
    """Distance() where there is no end to measure to, as of a topic that is gone."""
    try:
        return kind.measure_distance(position, end_of(kind, position, facts), facts)
    except Refused:
        return Distance()


Ask = Callable[[SourceProgress, SourceReader, Callable[[Ids], Ids]], UnreadInput]
ASK: Final[dict[str, Ask]] = {
    files.KIND: _count_unread_files,
    kafka.KIND: _count_unread_records,
    delta.KIND: _count_unread_versions,
    iceberg.KIND: _count_unread_snapshots,
}
