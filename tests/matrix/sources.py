"""What the flows of the matrix read: rows with an id, put where retention can take them."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recovery.sources.base import StartChoice
from tests.kafka import KafkaBroker
from tests.matrix.room import Room

EPOCH = 1_760_000_000
SCHEMA = "id long, k long"
DAY = 24 * 3600


@dataclass
class Unread:
    """Ids that wait to be read; `more(n)` gives so many new ones, which then wait too."""

    ids: list[int]
    more: Callable[[int], list[int]]


def row(number: int) -> tuple[int, int]:
    return number, number % 3


class Files:
    """A folder of JSON files, two rows each."""

    kind = "files"

    def __init__(self, place: Path, name: str) -> None:
        self.folder, self.count = place / name, 0
        self.folder.mkdir(parents=True)

    @property
    def reads(self) -> str:
        return f'spark.readStream.schema("{SCHEMA}").option("maxFilesPerTrigger", 4).json("{self.folder}")'

    def put(self, ids: list[int]) -> None:
        for first in range(0, len(ids), 2):
            file = self.folder / f"part-{self.count:03}.json"
            file.write_text(
                "".join(
                    json.dumps(dict(zip(("id", "k"), row(n), strict=True))) + "\n"
                    for n in ids[first : first + 2]
                )
            )
            os.utime(file, (EPOCH + self.count, EPOCH + self.count))
            self.count += 1

    def expire(self, unread: Unread) -> list[int]:
        """The oldest file, read long ago, is removed; of what waits nothing goes."""
        (self.folder / "part-000.json").unlink()
        return []

    def earlier(self) -> StartChoice:
        return StartChoice(file=f"file://{self.folder}/part-001.json")


class Kafka:
    """A topic with two partitions; a row lies in that of its id."""

    kind = "kafka"

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        self.broker, self.topic = broker, topic
        broker.topic(topic, partitions=2)
        self.held: list[list[int]] = [[], []]

    @property
    def reads(self) -> str:
        options = {
            "kafka.bootstrap.servers": self.broker.address,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "8",
        }
        told = f'spark.readStream.format("kafka").options(**{options!r}).load()'
        return f"""{told}.selectExpr("from_json(cast(value as string), '{SCHEMA}') as v").selectExpr("v.id", "v.k")"""

    def put(self, ids: list[int]) -> None:
        for partition in (0, 1):
            mine = [n for n in ids if n % 2 == partition]
            self.held[partition] += mine
            self.broker.put(
                self.topic,
                [json.dumps(dict(zip(("id", "k"), row(n), strict=True))) for n in mine],
                partition,
            )

    def expire(self, unread: Unread) -> list[int]:
        """In partition 0 all that was read and the first unread record are deleted."""
        mine = [n for n in unread.ids if n % 2 == 0]
        keep = self.held[0].index(mine[1])
        self.broker.delete_before(self.topic, keep)
        return mine[:1]

    def earlier(self) -> StartChoice:
        low = [self.broker.bounds(self.topic, p)[0] for p in (0, 1)]
        return StartChoice(by_hand=json.dumps({self.topic: {str(p): low[p] + 1 for p in (0, 1)}}))


class Delta:
    """A Delta table that Spark appends to, two files a commit."""

    kind = "delta"

    def __init__(self, room: Room, place: Path, name: str) -> None:
        self.room, self.table = room, place / name
        self.held: list[list[int]] = []  # the ids that each version brought

    @property
    def reads(self) -> str:
        return f'spark.readStream.format("delta").option("maxFilesPerTrigger", 4).load("{self.table}")'

    def put(self, ids: list[int]) -> None:
        half = (len(ids) + 1) // 2
        for some in (ids[:half], ids[half:]):
            if some:
                self.room.append(self.table, [row(n) for n in some], 2)
                self.held.append(list(some))

    def expire(self, unread: Unread) -> list[int]:
        """The log is cleaned past the first unread commits, as it is delta.logRetentionDuration after them."""
        waiting, log, old = set(unread.ids), self.table / "_delta_log", time.time() - 40 * DAY
        for file in log.glob("0*"):
            version = int(file.name.split(".")[0])
            os.utime(file, (old + version, old + version))
        while (log / f"{0:020}.json").exists() or len(self.held) % 5 != 1:
            self.put(unread.more(1))
        first = min(int(f.stem) for f in log.glob("0*.json"))
        return [n for held in self.held[:first] for n in held if n in waiting]

    def earlier(self) -> StartChoice:
        return StartChoice(version=1)


class Feed(Delta):
    """The change feed of such a table: every row that it is given, as an insert."""

    kind = "change feed"

    def __init__(self, room: Room, place: Path, name: str) -> None:
        super().__init__(room, place, name)
        settings = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        room.sql(f"CREATE TABLE delta.`{self.table}` (id BIGINT, k BIGINT) USING delta {settings}")
        self.held.append([])

    @property
    def reads(self) -> str:
        feed = (
            '.option("readChangeFeed", "true").option("startingVersion", 0).option("maxFilesPerTrigger", 4)'
        )
        return f'spark.readStream.format("delta"){feed}.load("{self.table}").select("id", "k")'


Source = Files | Kafka | Delta


def make(kind: str, *, room: Room, broker: Any, place: Path, name: str) -> Source:
    if kind == "files":
        return Files(place, name)
    if kind == "change feed":
        return Feed(room, place, name)
    return Kafka(broker, name.replace("/", "-")) if kind == "kafka" else Delta(room, place, name)
