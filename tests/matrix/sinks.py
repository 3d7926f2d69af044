"""Where the flows of the matrix write to, and how what they wrote is counted and put back as it was."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from recovery.sinks.base import SinkReport
from recovery.sinks.live import reading
from tests.kafka import KafkaBroker
from tests.matrix.room import Room


class Table:
    """A table of the catalog, of files or of Delta."""

    is_table = True

    def __init__(self, room: Room, name: str, form: str) -> None:
        self.room, self.name = room, name
        self.told = {"sink": form, "table": name}
        self.place = str(room.warehouse / name)

    def code(self, frame: str) -> str:
        return f'@dp.table(name="{self.name}")\ndef {self.name}():\n    return {frame}\n'

    def report(self, query_id: str | None) -> SinkReport:
        return reading.read_table(self.place, query_id=query_id)

    def rows(self) -> Counter[int]:
        return self.room.rows(self.name)

    def keep(self, folder: Path) -> None:
        shutil.copytree(self.place, folder)

    def back(self, folder: Path) -> None:
        shutil.rmtree(self.place)
        shutil.copytree(folder, self.place)
        self.room.forget()

    def empty(self) -> None:
        self.room.sql(f"TRUNCATE TABLE {self.name}")

    def end(self) -> None:
        self.room.sql(f"DROP TABLE IF EXISTS {self.name}")


class Topic:
    """A topic of Kafka. What was written cannot be taken back: from a mark on it is told apart."""

    is_table, place = False, ""

    def __init__(self, room: Room, broker: KafkaBroker, name: str) -> None:
        self.room, self.broker, self.name, self.topic = room, broker, name, f"out-{name}"
        broker.topic(self.topic)
        self.options = {"kafka.bootstrap.servers": broker.address, "topic": self.topic}
        self.told = {"sink": "kafka", "options": self.options}
        self.held: Counter[int] = Counter()
        self.mark = 0

    def code(self, frame: str) -> str:
        sink = f'dp.create_sink("{self.name}", "kafka", {self.options!r})\n\n'
        flow = f'@dp.append_flow(target="{self.name}", name="{self.name}")\ndef flow():\n'
        return f'{sink}{flow}    return {frame}.selectExpr("to_json(struct(id, k)) as value")\n'

    def report(self, query_id: str | None) -> SinkReport:
        return reading.read_declared_sink(
            {"name": self.name, "format": "kafka", "options": self.options}, query_id=query_id
        )

    def rows(self) -> Counter[int]:
        start = {self.topic: {"0": self.mark}}
        return self.held + self.room.records(self.broker.address, self.topic, json.dumps(start))

    def keep(self, folder: Path) -> None:
        self.held, self.mark = self.rows(), self.broker.bounds(self.topic)[1]

    def back(self, folder: Path) -> None:
        self.mark = self.broker.bounds(self.topic)[1]

    def empty(self) -> None:
        """A full refresh of a sink resets its flow and leaves what was written."""

    def end(self) -> None:
        self.broker.drop(self.topic)


class Batches:
    """foreachBatch, which writes each batch as files and remembers nothing."""

    is_table = False

    def __init__(self, room: Room, name: str, folder: Path) -> None:
        self.room, self.name, self.folder = room, name, folder
        self.place = ""
        self.told = {"sink": "foreachBatch", "table": str(folder)}

    def code(self, frame: str) -> str:
        return f'@dp.table(name="{self.name}")\ndef {self.name}():\n    return {frame}\n'

    def report(self, query_id: str | None) -> SinkReport:
        return SinkReport("foreach_batch", str(self.folder), None)

    def rows(self) -> Counter[int]:
        return self.room.rows(str(self.folder), path=True)

    def keep(self, folder: Path) -> None:
        shutil.copytree(self.folder, folder)

    def back(self, folder: Path) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(folder, self.folder)

    def empty(self) -> None:
        """Nothing empties it."""

    def end(self) -> None:
        """It goes with the world's folder."""


Sink = Table | Topic | Batches


def make(kind: str, *, room: Room, broker: Any, name: str, root: Path) -> Sink:
    if kind == "kafka":
        return Topic(room, broker, name)
    if kind == "foreachBatch":
        return Batches(room, name, root / "out")
    return Table(room, name, kind)
