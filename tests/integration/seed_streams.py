"""A stream of several sources for tests of seeds: what each run of it hands over is what counts."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recovery.checkpoints import inspect_checkpoint, seed
from recovery.checkpoints.report import SourceEntry
from recovery.checkpoints.seed import SourceStart
from recovery.checkpoints.uris import canonical_uri, encode_uri
from tests.connected_spark import ConnectedSpark
from tests.kafka import KafkaBroker
from tests.unit.checkpoints.seeding import free

EPOCH_S = 1_790_000_000

# Sources: [format, path or None, options, schema or None, select]; every one yields `value`, all are united in order.
RUN = """
__name__ = "__main__"
from functools import reduce

def opened(kind, path, options, schema, select):
    reader = spark.readStream.format(kind).options(**options)
    if schema:
        reader = reader.schema(schema)
    return (reader.load(path) if path else reader.load()).selectExpr(select)

exec(define)
frame = reduce(lambda a, b: a.union(b), [opened(*source) for source in sources])
exec(query)
answer = []

def take(batch, number):
    answer.extend("|".join(str(v) for v in row) for row in batch.collect())

writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).outputMode(mode)
stream = writer.trigger(**({"availableNow": True} if once else {"processingTime": "0 seconds"})).start()
if once:
    stream.awaitTermination()
else:
    import time
    until = time.time() + 30
    while time.time() < until and (not stream.lastProgress or len(stream.recentProgress) < 2):
        time.sleep(0.05)
    stream.stop()
answer = sorted(answer)
"""


@dataclass
class Streams:
    """A flow whose version is the newest one; `sources` are those that the code reads now."""

    spark: ConnectedSpark
    kafka: KafkaBroker | None
    root: Path
    sources: list[list[Any]] = field(default_factory=list)
    query: str = ""
    define: str = ""
    mode: str = "append"
    once: bool = True
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def flow(self) -> Path:
        return self.root / "flow"

    @property
    def checkpoint(self) -> Path:
        newest = max((int(p.name) for p in self.flow.glob("[0-9]*")), default=0)
        return self.flow / str(newest)

    def copied(self, name: str) -> "Streams":
        """The same sources, and a copy of the checkpoint to go on from."""
        root = self.root / name
        shutil.copytree(self.flow, root / "flow")
        return replace(self, root=root)

    def attempt(self, **words: Any) -> dict[str, Any]:
        told = {
            "sources": self.sources, "query": self.query, "define": self.define, "mode": self.mode,
            "once": self.once, "checkpoint": str(self.checkpoint),
        }  # fmt: skip
        return self.spark.attempt(RUN, **{**told, **words})

    def run(self, **words: Any) -> list[str]:
        """What one update handed over, sorted."""
        said = self.attempt(**words)
        assert "problem" not in said, said["problem"]
        return list(said["answer"])

    def seed(self, starts: Sequence[SourceStart] | None, **words: Any) -> Path:
        plan = seed.plan_seed(inspect_checkpoint(str(self.flow)), starts=starts, **words)
        made = seed.prepare_seed(
            str(self.flow), plan, recovery=f"R-{self.checkpoint.name}", fence=1, guard=free
        )
        seed.publish_checkpoint(str(self.flow), made, guard=free)
        report = inspect_checkpoint(str(self.flow))
        assert report.blockers == ()
        return Path(report.location)

    def lines(self) -> list[str | None]:
        return [s.offset_json for s in inspect_checkpoint(str(self.flow)).sources]

    def files(self, name: str, **options: str) -> list[Any]:
        """A directory of JSON files as a source."""
        (self.root / name).mkdir(exist_ok=True)
        told = {"maxFilesPerTrigger": "1", **options}
        return ["json", str(self.root / name), told, "value string", "value"]

    def put(self, name: str, *numbers: int) -> None:
        """A file of two rows for each number, its mtime that many seconds after the epoch of the tests."""
        for n in numbers:
            file = self.root / name / f"{n:03d}.json"
            hidden = file.with_name(f".{n}")
            hidden.write_text("".join(json.dumps({"value": f"{name}{n}{x}"}) + "\n" for x in "ab"))
            hidden.rename(file)
            os.utime(file, (EPOCH_S + n, EPOCH_S + n))

    def uri(self, name: str, number: int) -> str:
        return canonical_uri(str(self.root / name / f"{number:03d}.json"))

    def entry(self, name: str, number: int, log_id: int) -> SourceEntry:
        return SourceEntry(encode_uri(self.uri(name, number)), (EPOCH_S + number) * 1000, log_id)

    def topic(self, name: str, partitions: int = 2, **options: str) -> list[Any]:
        """A new topic as a source; `name` must be unique within the test."""
        assert self.kafka
        told = f"{name}-{time.monotonic_ns()}"
        self.kafka.topic(told, partitions)
        servers = {"kafka.bootstrap.servers": self.kafka.address, "subscribe": told}
        told_options = {**servers, "startingOffsets": "earliest", **options}
        return ["kafka", None, told_options, None, "cast(value as string) as value"]

    def send(self, source: list[Any], name: str, *numbers: int, partition: int = 0) -> None:
        assert self.kafka
        self.kafka.put(source[2]["subscribe"], [f"{name}{n}" for n in numbers], partition)

    def table(self, name: str, **options: str) -> list[Any]:
        """A Delta table as a source."""
        return ["delta", str(self.root / name), {"maxFilesPerTrigger": "1", **options}, None, "value"]

    def add(self, name: str, *numbers: int) -> None:
        """One version with one file for each number, of one row."""
        self.spark.run(
            """
rows = [(f"{name}{n}",) for n in numbers]
frame = spark.createDataFrame(rows, "value string").repartitionByRange(len(numbers), "value")
frame.write.format("delta").mode("append").save(path)
""",
            path=str(self.root / name),
            name=name,
            numbers=list(numbers),
        )


def offsets(source: list[Any], *at: int) -> str:
    """A Kafka source's line: the next offset of each partition."""
    told = {source[2]["subscribe"]: {str(n): o for n, o in enumerate(at)}}
    return json.dumps(told, separators=(",", ":"))


def both(name: str, *numbers: int) -> list[str]:
    """The rows of files of these numbers."""
    return [f"{name}{n}{x}" for n in numbers for x in "ab"]
