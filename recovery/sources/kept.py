"""Whether a source still has all that was read of it before a position. Pure.

What is gone from it cannot be compared with anything, so a comparison of the whole flow is one of the rest alone.
Records and files that were gone before the stream came to them count too: no position says which were.
"""

from recovery.sources import delta_facts, kafka_facts
from recovery.sources.delta_facts import DeltaFacts
from recovery.sources.kafka_facts import KafkaFacts


def by_kafka(before: str | None, committed: str | None, facts: KafkaFacts) -> bool:
    """Whether every record up to `committed` is there, and that is as far as an earlier position, `before`, was.

    Retention moves the first offset of a partition; compaction takes records from between.
    """
    then, now = kafka_facts.parse_offsets(before), kafka_facts.parse_offsets(committed)
    return all(now.get(key, 0) >= at for key, at in then.items()) and all(
        at == 0 or _begins_at_0(key, at, facts) for key, at in now.items()
    )


def _begins_at_0(key: kafka_facts.Key, at: int, facts: KafkaFacts) -> bool:
    partition = facts.partition(key)
    if partition is None or not facts.comparable(key, at):
        return False
    return partition.low == 0 and "compact" not in facts.topics[key[0]].cleanup


def by_delta(before: str | None, committed: str | None, facts: DeltaFacts) -> bool:
    """Whether the table never lost a row, by every commit of its log, and both positions are of it, in this order.

    Rows that left the table stay in a change feed. False too of a reader that begins at a later version or at a time:
    what is before that may have been read.
    """
    then, now = (None if line is None else delta_facts.parse_offset(line) for line in (before, committed))
    begins = facts.fresh()
    if begins is None or not (begins.initial or begins.version == 0):
        return False
    if any(at is not None and at.table_id != facts.table_id for at in (then, now)):
        return False
    if then is not None and (now is None or now.version < then.version):
        return False
    commits = [facts.commits.get(version) for version in range(facts.latest + 1)]
    feed = facts.reading.change_feed
    return all(commit is not None and (feed or not commit.removes) for commit in commits)
