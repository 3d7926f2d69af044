"""The offsets that a person's wish names, partition by partition, checked against what the brokers hold. Pure."""

from collections.abc import Iterable, Mapping

from recovery.checkpoints.formats import Malformed
from recovery.errors import Refused
from recovery.sources.base import StartChoice
from recovery.sources.comparing import format_time
from recovery.sources.kafka_facts import (
    EARLIEST,
    NAMED,
    KafkaFacts,
    Key,
    Offsets,
    PartitionFacts,
    name_of,
    parse_offsets,
)

SHOWN = 5
UNASKED = "Kafka was not asked, so it is not known what is still there."
Chosen = tuple[dict[Key, int], dict[str, str]]
"""Next offset of each partition, and by its name the sentence where the wish was not met as it was said."""


def choose_offsets(wanted: StartChoice, committed: str | None, facts: KafkaFacts) -> Chosen:
    """Where each partition starts. One that is left out begins at its first record, as Spark begins new ones.

    Raises Refused for offsets out of bounds, for partitions that are not there, and for those that a whole line leaves
    out; and where the brokers were not asked, at all or for a time of the wish.
    """
    if wanted.by_hand is not None:
        offsets, said = _by_hand(wanted.by_hand, committed, facts)
    elif wanted.at_ms is not None or wanted.earliest or wanted.latest:
        offsets, said = _choose_everywhere(wanted, committed, facts)
    else:
        offsets, said = _as_committed(committed, facts)
    return _with_parts(wanted.parts, (offsets, said), committed, facts) if wanted.parts else (offsets, said)


def _choose_everywhere(wanted: StartChoice, committed: str | None, facts: KafkaFacts) -> Chosen:
    """The same wish for every partition."""
    offsets: dict[Key, int] = {}
    said: dict[str, str] = {}
    for key, partition in _present_partitions(committed, facts).items():
        offsets[key], why = _offset_for(wanted, partition)
        if why:
            said[name_of(key)] = why
    return offsets, said


def _as_committed(committed: str | None, facts: KafkaFacts) -> Chosen:
    """Every partition that is there, where it was committed."""
    before, present = parse_offsets(committed), _present_partitions(committed, facts)
    return resolve_offsets({key: at for key, at in before.items() if key in present}, facts)


def _with_parts(
    parts: Mapping[str, StartChoice | None], base: Chosen, committed: str | None, facts: KafkaFacts
) -> Chosen:
    """`base` with single partitions set otherwise."""
    present, before = _present_partitions(committed, facts), _as_committed(committed, facts)[0]
    keys = {name_of(key): key for key in present}
    if unknown := [name for name in parts if name not in keys]:
        raise Refused(_not_there(unknown, present))
    offsets, said = dict(base[0]), dict(base[1])
    by_hand = {keys[name]: int(w.by_hand) for name, w in parts.items() if w and w.by_hand is not None}
    _require_within_bounds(by_hand, present)
    for name, wish in parts.items():
        key = keys[name]
        said.pop(name, None)
        if wish is not None:
            offsets[key], why = (by_hand[key], "") if key in by_hand else _offset_for(wish, present[key])
        elif key in before:
            offsets[key], why = before[key], ""
        else:
            offsets.pop(key, None)
            why = "Nothing was committed of it yet, so it begins at its first record."
        if why:
            said[name] = why
    if committed is None and (left := [key for key in present if key not in offsets]):
        raise Refused(
            f"Nothing was read yet, so these have no position: {name_partitions(left)}. Name one for the whole source.",
            code="parts_left",
        )
    return dict(sorted(offsets.items())), said


def _offset_for(wanted: StartChoice, partition: PartitionFacts) -> tuple[int, str]:
    if wanted.at_ms is not None:
        return _at_time(partition, wanted.at_ms)
    return partition.low if wanted.earliest else partition.high, ""


def _present_partitions(committed: str | None, facts: KafkaFacts) -> dict[Key, PartitionFacts]:
    """The partitions that a position must name. Raises Refused when none of them is there."""
    if facts.asked_at_ms is None:
        raise Refused(f"{UNASKED} Ask it, then choose a position.", code="not_asked")
    keys = facts.subscribed() or tuple(parse_offsets(committed))
    present = {key: partition for key in keys if (partition := facts.partition(key))}
    if not present:
        raise Refused(
            "No topic of this source is there; make the topic again, or change the subscription.",
            code="no_topic",
        )
    return present


def _at_time(partition: PartitionFacts, at_ms: int) -> tuple[int, str]:
    """The offset for a time, and the sentence where the wish was not met as it was said."""
    if at_ms not in partition.at:
        raise Refused(
            f"Kafka was not asked for {format_time(at_ms)}; ask it with that time, then choose it.",
            code="time_not_asked",
        )
    offset = partition.at[at_ms]
    if offset is None:
        return partition.high, (
            f"No record is of {format_time(at_ms)} or later, so its end was taken, {partition.high}: what is written "
            "from now on is read."
        )
    if offset <= partition.low and partition.low > 0:
        return partition.low, (
            f"Its first record that is kept, {partition.low}, is already of {format_time(at_ms)} or later: records "
            "of that time before it may be gone."
        )
    return max(offset, partition.low), ""


def _by_hand(text: str, committed: str | None, facts: KafkaFacts) -> Chosen:
    try:
        asked = parse_offsets(text)
    except Malformed as problem:
        raise Refused(
            f"These are no offsets of Kafka: {problem.why}. Write them as "
            '{"topic":{"0":23,"1":7}}, with every partition.'
        ) from problem
    present = _present_partitions(committed, facts)
    if unknown := [name_of(key) for key in asked if key not in present]:
        raise Refused(_not_there(unknown, present))
    if missing := [key for key in present if key not in asked]:
        raise Refused(f"Every partition needs an offset; these have none: {name_partitions(missing)}.")
    _require_within_bounds(asked, present)
    return resolve_offsets(asked, facts)


def _require_within_bounds(asked: Offsets, present: Mapping[Key, PartitionFacts]) -> None:
    """Raise Refused, naming the bounds, for an offset outside of them; named ones (-2, -1) are always within."""
    outside = [
        f"{at} of {name_of(key)} is not between {present[key].low} and {present[key].high}"
        for key, at in asked.items()
        if at >= 0 and not present[key].low <= at <= present[key].high
    ]
    if outside:
        raise Refused(
            f"{join_shown(outside)}; name offsets within the bounds, or earliest (-2 in a whole line), latest (-1)."
        )


def _not_there(unknown: list[str], present: Iterable[Key]) -> str:
    return (
        f"Not there, or not read by this source: {join_shown(unknown)}; there are {name_partitions(present)}."
    )


def resolve_offsets(offsets: Offsets, facts: KafkaFacts) -> Chosen:
    """Named offsets as numbers, and a sentence for each of them. The partitions are there."""
    resolved, said = {}, {}
    for key, at in offsets.items():
        resolved[key] = at
        if at in NAMED:
            partition = facts.topics[key[0]].partitions[key[1]]
            resolved[key] = partition.low if at == EARLIEST else partition.high
            said[name_of(key)] = f"The {NAMED[at]} offset is {resolved[key]} now."
    return resolved, said


def name_partitions(keys: Iterable[Key]) -> str:
    """The first few, and how many more there are."""
    return join_shown([name_of(key) for key in keys])


def join_shown(words: list[str]) -> str:
    """As `name_partitions`."""
    return ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN} more" if len(words) > SHOWN else "")
