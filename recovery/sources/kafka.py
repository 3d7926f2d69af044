"""The Kafka source: a position is the next offset of every partition. Pure.

Source: KafkaSourceOffset and JsonUtils of Spark's connector (the offset line), ConsumerStrategy and
KafkaOffsetReaderAdmin (which partitions, `startingOffsets`), KafkaMicroBatchStream (new partitions begin at their
earliest offset).
"""

from collections.abc import Iterable, Set
from dataclasses import replace

from recovery.contracts.amounts import Amount
from recovery.contracts.readers import ReaderOptions
from recovery.sources.base import (
    Distance,
    EmptyStart,
    PartChange,
    PartMove,
    PositionPart,
    Precision,
    SourceRetention,
    StartCandidate,
    StartChoice,
    StartOption,
)
from recovery.sources.comparing import NOTHING_READ, format_time, instead_of, option_of, require_one_wish
from recovery.sources.kafka_facts import (
    EARLIEST,
    LATEST,
    NAMED,
    KafkaFacts,
    Key,
    Offsets,
    Span,
    name_of,
    parse_offsets,
    write_offsets,
)
from recovery.sources.kafka_positions import (
    SHOWN,
    UNASKED,
    choose_offsets,
    join_shown,
    name_partitions,
    resolve_offsets,
)

__all__ = [
    "CAN",
    "KIND",
    "UNIT",
    "KafkaFacts",
    "compare_positions",
    "find_empty_start",
    "find_position",
    "find_start_option",
    "judge_reach",
    "label_position",
    "list_parts",
    "measure_distance",
]

KIND = "kafka"
UNIT = "record"
CAN = ("at_ms", "by_hand", "earliest", "latest", "parts")
PLACE = (
    'beside .option("subscribe", …) of this source in the code; Spark looks at it only while the checkpoint is '
    "empty, so it may stay there"
)
DATA_LOSS = (
    'With failOnDataLoss "true", the default, Spark stops where records are gone between a position and the first '
    'one that is kept; with "false" it goes on silently.'
)
DATA_LOSS_TOO = (
    "The same holds where a partition of the checkpoint is no longer read, and where one that came later does not "
    "begin at 0 any more."
)
LEFT = "The code no longer reads it: what follows its position is lost to the stream."
UNTOLD = "A topic of this name is not the one that the checkpoint read, so rows cannot be counted."


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """A part for each partition, by topic and number."""
    return tuple(_build_part(key, at) for key, at in parse_offsets(offset_json).items())


def label_position(offset_json: str | None) -> str:
    """The position for people: the next offset of the first partitions, and how many more there are."""
    return join_shown([part.label for part in list_parts(offset_json)]) or NOTHING_READ


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    """Every partition of either position. A named offset (-1, -2) can be compared with itself only."""
    old, new = parse_offsets(before), parse_offsets(after)
    return tuple(
        _compare_partition(key, old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys())
    )


def _compare_partition(key: Key, old: int | None, new: int | None) -> PartChange:
    before = None if old is None else _build_part(key, old)
    after = None if new is None else _build_part(key, new)
    return PartChange(name_of(key), before, after, _compare_offsets(old, new))


def _compare_offsets(old: int | None, new: int | None) -> PartMove:
    if old is None or new is None:
        return PartMove.NEW if old is None else PartMove.GONE
    if old == new:
        return PartMove.SAME
    if min(old, new) < 0:
        return PartMove.UNCLEAR
    return PartMove.FORWARD if new > old else PartMove.BACK


def _build_part(key: Key, at: int) -> PositionPart:
    return PositionPart(name_of(key), str(at), f"{key[0]} partition {key[1]} at {NAMED.get(at, at)}")


def measure_distance(start: str | None, end: str | None, facts: KafkaFacts) -> Distance:
    """Records between two positions, whichever is first. A partition that only one of them has begins at its lowest.

    One that the code no longer reads, and the end does not name, has no part in it: what it loses is shown by
    `judge_reach` and `find_position`. Rows are None where a partition or its topic is no longer the one that was
    read. Bytes and time always are: brokers tell neither for a range.
    """
    both_offsets = parse_offsets(start), parse_offsets(end)
    if not all(facts.comparable(key, at) for offsets in both_offsets for key, at in offsets.items()):
        return Distance()
    first, last = (resolve_offsets(offsets, facts)[0] for offsets in both_offsets)
    first = {key: at for key, at in first.items() if key in last or facts.reads(key)}
    spans = _list_spans(first, last, facts)
    return Distance(rows=facts.rows((key, min(a, b), max(a, b)) for key, a, b in spans))


def _list_spans(start: Offsets, end: Offsets, facts: KafkaFacts) -> list[Span]:
    """Partitions of either side; all are there."""
    lows = {key: facts.topics[key[0]].partitions[key[1]].low for key in (*start, *end)}
    return [(key, start.get(key, low), end.get(key, low)) for key, low in sorted(lows.items())]


def judge_reach(offset_json: str | None, facts: KafkaFacts) -> SourceRetention:
    """Whether all that follows the position is still there, what is gone, and when retention takes the next of it."""
    offsets = parse_offsets(offset_json)
    if not offsets:
        return SourceRetention(None, "Nothing was read yet; the source begins where its own options say.")
    if facts.asked_at_ms is None:
        return SourceRetention(None, UNASKED)
    broken = {key: why for key, at in offsets.items() if (why := _explain_broken(key, at, facts))}
    broken = dict(sorted((broken | _came_cut(offsets, facts)).items()))
    if broken:
        also = f" {DATA_LOSS_TOO}" if any(k not in offsets or not facts.reads(k) for k in broken) else ""
        return SourceRetention(
            False,
            f"{_join_sentences(broken.values())} {DATA_LOSS}{also}",
            lost=Distance(rows=_count_taken(broken, offsets, facts)),
            parts=tuple(name_of(key) for key in broken),
        )
    until, first = _retention_end(offsets, facts)
    why = "Every record after the position is still there."
    if until is not None:
        why += f" Retention may take the first of them from {format_time(until)} on."
    if sized := sorted({t for t, _ in offsets if facts.topics[t].retention_bytes is not None}):
        why += f" {', '.join(sized)} is also cut by size, at a time that is not known beforehand."
    return SourceRetention(True, why, until_ms=until, parts=first)


def _explain_broken(key: Key, at: int, facts: KafkaFacts) -> str | None:
    """What keeps a partition from being read on from an offset, as a sentence."""
    (topic, number), partition = key, facts.partition(key)
    if topic not in facts.topics:
        return f"Topic {topic} is gone."
    if facts.remade(topic):
        return f"Topic {topic} was deleted and made again: its offsets are no longer those of the checkpoint."
    if partition is None:
        return f"Partition {number} of {topic} is gone."
    if at > partition.high:
        return (
            f"Partition {number} of {topic} ends at {partition.high}, before the position {at}: the topic was made "
            "again, or cut off."
        )
    if not facts.reads(key):
        return (
            f"The code no longer reads partition {number} of {topic}, of which the checkpoint has a position: what "
            "follows that is left unread."
        )
    if 0 <= at < partition.low:
        gone = f"offset {at} is" if at == partition.low - 1 else f"offsets {at} to {partition.low - 1} are"
        return f"Partition {number} of {topic} begins at {partition.low}: after the position {gone} gone."
    return None


def _came_cut(offsets: Offsets, facts: KafkaFacts) -> dict[Key, str]:
    """Partitions that came after the position and have lost their first records since (fetchEarliestOffsets)."""
    came = [key for key in facts.subscribed() if key not in offsets]
    lows = {key: partition.low for key in came if (partition := facts.partition(key))}
    return {
        key: f"Partition {key[1]} of {key[0]} came after the position and begins at {low}: its first records are gone."
        for key, low in lows.items()
        if low > 0
    }


def _count_taken(broken: Iterable[Key], offsets: Offsets, facts: KafkaFacts) -> Amount | None:
    """What no one will read; None where a partition or its topic is another one now, or gone."""
    if not all(facts.comparable(key, offsets.get(key, 0)) for key in broken):
        return None
    ends = resolve_offsets({key: EARLIEST if facts.reads(key) else LATEST for key in broken}, facts)[0]
    begins = resolve_offsets({key: offsets.get(key, 0) for key in broken}, facts)[0]
    return facts.rows((key, begins[key], end) for key, end in ends.items())


def _retention_end(offsets: Offsets, facts: KafkaFacts) -> tuple[int | None, tuple[str, ...]]:
    """When retention may take the first unread record, and of which partitions. None: never, or not known.

    Kafka deletes whole segments, when the newest record of one is too old: never before this, often later.
    """
    ends: dict[Key, int] = {}
    for key, at in resolve_offsets(offsets, facts)[0].items():
        topic, partition = facts.topics[key[0]], facts.topics[key[0]].partitions[key[1]]
        if topic.retention_ms is not None and "delete" in topic.cleanup and at in partition.times:
            ends[key] = partition.times[at] + topic.retention_ms
    first = min(ends.values(), default=None)
    return first, tuple(name_of(key) for key, end in ends.items() if end == first)


def find_start_option(offset_json: str | None, facts: KafkaFacts) -> StartOption:
    """`startingOffsets` for an empty checkpoint: as exact as the checkpoint itself.

    It must name every partition that the reader is given and no other, else Spark 4.2 stops ("you must specify all
    TopicPartitions"): partitions that were added since begin at their earliest offset, as they would with the
    checkpoint; those that are gone are left out, and said.
    """
    offsets = parse_offsets(offset_json)
    if not offsets:
        note = (
            "Nothing was read yet: the source begins where its own options say, with or without a checkpoint."
        )
        return StartOption(False, Precision.EXACT, note=note)
    start_offsets = {key: offsets.get(key, EARLIEST) for key in facts.subscribed() or offsets}
    notes = [DATA_LOSS]
    if added := [key for key in start_offsets if key not in offsets]:
        notes.append(f"Came later, and will be read from its first record on (-2): {name_partitions(added)}.")
    if gone := [key for key in offsets if key not in start_offsets]:
        notes.append(f"Left out, since it is no longer there or no longer read: {name_partitions(gone)}.")
    whole = judge_reach(offset_json, facts).readable is not False
    text = write_offsets(start_offsets)
    return StartOption(
        supported=True,
        precision=Precision.EXACT if whole else Precision.AT_MOST_ONCE,
        options={"startingOffsets": text},
        code=f'.option("startingOffsets", {text!r})',
        place=f"{instead_of(facts.starting)}{PLACE}",
        doubled=Amount(value=0),
        missed=Amount(value=0),  # against a seeded start: what retention took is gone for both
        note=" ".join(notes),
    )


def find_position(wanted: StartChoice, committed: str | None, facts: KafkaFacts) -> StartCandidate:
    """The position that a person names, for every partition, and what it costs.

    Raises Refused for a position by version or file, which Kafka does not have, and as `choose_offsets`.
    """
    require_one_wish(wanted, of="a Kafka source", can=CAN)
    starts, fallbacks = choose_offsets(wanted, committed, facts)
    before = parse_offsets(committed)
    strange = {key for key, at in before.items() if not facts.comparable(key, at)}
    not_told = {name_of(key): _why_strange(key, facts) for key in strange}
    kept = resolve_offsets({key: at for key, at in before.items() if key not in strange}, facts)[0]
    came = {key: 0 for key in starts if before and key not in before}  # what they lost was never read either
    spans = _list_spans(kept | came, starts | _end_offsets(kept.keys() - starts.keys(), facts), facts)
    left = dict.fromkeys(map(name_of, kept.keys() - starts.keys()), LEFT)
    after = write_offsets(starts)
    return StartCandidate(
        offset_json=after,
        label=label_position(after),
        precision=Precision.EXACT,
        lost=Distance(rows=facts.rows((key, a, b) for key, a, b in spans if b > a)),
        reread=Distance(rows=facts.rows((key, b, a) for key, a, b in spans if a > b)),
        changes=tuple(_mark_unclear(c, not_told.keys()) for c in compare_positions(committed, after)),
        fallbacks=fallbacks | not_told | left,
    )


def find_empty_start(options: ReaderOptions, facts: KafkaFacts | None) -> EmptyStart:
    """By `startingOffsets`, which is `latest` for a stream that names none (KafkaSourceProvider)."""
    if option_of(options, "startingTimestamp") or option_of(options, "startingOffsetsByTimestamp"):
        return EmptyStart(
            None, None, "The reader begins at a time, and which records that leaves out is not known here."
        )
    starting = (option_of(options, "startingOffsets") or "latest").strip().lower()
    if starting == "latest":
        return EmptyStart(
            False,
            None,
            "The reader's startingOffsets is latest, as it is where none is set: an empty checkpoint begins behind all "
            'that is there. Set it to "earliest" to read everything that is kept.',
        )
    if starting != "earliest":
        return EmptyStart(
            None, None, "The reader begins at its own offsets, and earlier records stay unread."
        )
    if facts is None or facts.asked_at_ms is None:
        return EmptyStart(True, None, UNASKED)
    cut = [key for key in facts.subscribed() if (partition := facts.partition(key)) and partition.low > 0]
    if cut or any("compact" in t.cleanup for t in facts.topics.values()):
        first = (
            f": {name_partitions(cut)} no longer begin at offset 0" if cut else ", as the topic is compacted"
        )
        return EmptyStart(True, False, f"Records that retention has taken are not read again{first}.")
    return EmptyStart(True, True, "Every partition is kept from offset 0 on.")


def skipped_to(committed: str | None, start: str | None, facts: KafkaFacts) -> str:
    """`start` with the ends of those partitions that were committed and no start can name, as no one reads them."""
    starts, before = parse_offsets(start), parse_offsets(committed)
    left = (key for key, at in before.items() if key not in starts and facts.comparable(key, at))
    return write_offsets(starts | _end_offsets(left, facts))


def _end_offsets(keys: Iterable[Key], facts: KafkaFacts) -> dict[Key, int]:
    return resolve_offsets(dict.fromkeys(keys, LATEST), facts)[0]


def _why_strange(key: Key, facts: KafkaFacts) -> str:
    return UNTOLD if facts.partition(key) else "It is no longer there, so it has no position."


def _mark_unclear(change: PartChange, strange: Set[str]) -> PartChange:
    """Two offsets of different topics cannot be compared, though both are numbers."""
    is_on_both_sides = change.before is not None and change.after is not None
    return replace(change, moved=PartMove.UNCLEAR) if is_on_both_sides and change.part in strange else change


def _join_sentences(sentences: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(sentences))
    more = f" {len(distinct) - SHOWN} more partitions are affected." if len(distinct) > SHOWN else ""
    return " ".join(distinct[:SHOWN]) + more
