"""Whether a source still has all that was read of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints.report import SourceProgress
from recovery.contracts.readers import SourceReader
from recovery.sources import kept
from recovery.sources.delta_facts import DeltaOffset
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts
from recovery.sources.live import delta as live_delta
from recovery.sources.live import probe
from tests.delta_tables import TABLE, add, remove, table


def topic(low: int = 0, high: int = 100, cleanup: str = "delete", noted: str = "id") -> KafkaFacts:
    one = TopicFacts("id", {0: PartitionFacts(low, high)}, frozenset({cleanup}), plain=True)
    return KafkaFacts(1, {"t": one}, {"t": None}, {"t": noted})


def at(offset: int, partition: int = 0, name: str = "t") -> str:
    return f'{{"{name}":{{"{partition}":{offset}}}}}'


@pytest.mark.parametrize(
    ("before", "committed", "facts", "all_there"),
    [
        (at(50), at(100), topic(), True),
        (None, at(100), topic(), True),
        (None, None, topic(), True),
        (None, at(100), topic(low=60), False),
        (None, at(0), topic(low=60), True),
        (None, at(100), topic(cleanup="compact"), False),
        (None, at(100), topic(high=90), False),
        (None, at(100), topic(noted="before"), False),
        (None, at(100, partition=1), topic(), False),
        (at(100), at(90), topic(), False),
        (at(9, partition=1), at(100), topic(), False),
        (at(9, name="old"), at(100), topic(), False),
    ],
    ids=[
        "all kept", "no earlier position", "nothing read", "cut", "cut before anything was read",
        "compacted", "ends before", "made again", "no such partition", "was further",
        "was in another partition", "was in another topic",
    ],
)  # fmt: skip
def test_a_topic_has_all_that_was_read_unless_something_takes_records_from_it(
    before: str | None, committed: str | None, facts: KafkaFacts, all_there: bool
) -> None:
    assert kept.by_kafka(before, committed, facts) is all_there


def line(version: int, table_id: str = TABLE, *, initial: bool = False) -> str:
    return DeltaOffset(table_id, version, 1, initial).as_json()


CAME = [[add("a")], [add("b")], [add("c")]]
MOVED = [remove("a", dataChange=False), add("ab", dataChange=False)]


@pytest.mark.parametrize(
    ("commits", "options", "before", "all_there"),
    [
        (CAME, {}, None, True),
        (CAME, {}, line(0, initial=True), True),
        ([*CAME, MOVED], {}, None, True),
        ([*CAME, [remove("a")]], {}, None, False),
        ([*CAME, [remove("a"), add("ab")]], {}, None, False),
        (CAME, {"startingVersion": "0"}, None, True),
        (CAME, {"startingVersion": "1"}, None, False),
        (CAME, {"startingTimestamp": "2026-01-01"}, None, False),
        (CAME, {}, line(1, "another"), False),
        (CAME, {}, line(3), False),
    ],
    ids=[
        "only came", "after an earlier position", "compacted files", "deleted", "rewritten", "from the first version",
        "from a later version", "from a time", "was another table", "was further",
    ],
)  # fmt: skip
def test_a_delta_table_has_all_that_was_read_unless_rows_ever_left_it(
    tmp_path: Path,
    commits: list[list[dict[str, Any]]],
    options: dict[str, str],
    before: str | None,
    all_there: bool,
) -> None:
    assert keeps_all(table(tmp_path / "t", commits), before, **options) is all_there


def test_what_left_a_table_is_not_known_of_more_commits_than_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "MOST_COMMITS", 2)
    assert not keeps_all(table(tmp_path / "t", CAME), None)


def test_what_left_a_table_is_not_known_where_its_log_was_cleaned_or_cannot_be_read(tmp_path: Path) -> None:
    where = table(tmp_path / "t", CAME)
    every = live_delta.read_table(str(where), offsets=(), options={}, look=False, since=0)
    assert kept.by_delta(None, line(2), every)
    later = {version: commit for version, commit in every.commits.items() if version}
    assert not kept.by_delta(None, line(2), replace(every, earliest=1, commits=later))
    (where / "_delta_log" / f"{0:020}.json").unlink()
    assert not keeps_all(where, None)


def keeps_all(where: Path, before: str | None, **options: str) -> bool:
    reader = SourceReader("delta", str(where), options)
    found = probe.probe_source(SourceProgress(0, "delta", line(2), None), reader)
    return probe.keeps_all(found, before)
