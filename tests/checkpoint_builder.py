"""Writes checkpoints in the bytes that Spark 4.2 writes, for tests that need no Spark.

Every format here was copied from files of a real run (tests/integration/test_checkpoints_on_spark.py reads
such files); only numbers, paths and ids vary.
"""

import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from recovery.checkpoints.state.blocks import HEAD, MAGIC, SEED
from recovery.checkpoints.state.checksums import xxh32

PREFIX = "spark.sql.streaming."
CONF = {
    f"{PREFIX}stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    f"{PREFIX}stateStore.rocksdb.mergeOperatorVersion": "2",
    f"{PREFIX}stateStore.rocksdb.formatVersion": "5",
    f"{PREFIX}queryEvolution.enableSourceEvolution": "false",
    f"{PREFIX}stateStore.encodingFormat": "unsaferow",
    f"{PREFIX}statefulOperator.useStrictDistribution": "true",
    f"{PREFIX}flatMapGroupsWithState.stateFormatVersion": "2",
    f"{PREFIX}multipleWatermarkPolicy": "min",
    f"{PREFIX}stateStore.rowChecksum.enabled": "false",
    f"{PREFIX}aggregation.stateFormatVersion": "2",
    "spark.sql.function.protobufExtensions.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    f"{PREFIX}join.stateFormatVersion": "2",
    f"{PREFIX}stateStore.compression.codec": "lz4",
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "false",
}
ROCKSDB = CONF[f"{PREFIX}stateStore.providerClass"].replace("HDFSBacked", "RocksDB")
STARTED_MS = 1_790_000_000_000


def dumps(body: object) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def put(file: Path, text: str, *, sidecar: bool = True) -> None:
    """A file and, as Hadoop's local file system does, its `.crc`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    if sidecar:
        (file.parent / f".{file.name}.crc").write_bytes(checksums(file.read_bytes()))


def checksums(data: bytes) -> bytes:
    """What Hadoop's ChecksumFileSystem keeps of a file: a CRC32 of each 512 bytes."""
    sums = b"".join(zlib.crc32(data[at : at + 512]).to_bytes(4, "big") for at in range(0, len(data), 512))
    return b"crc\x00\x00\x00\x02\x00" + sums


def input_uri(source: int, number: int, folder: str = "/data/in") -> str:
    return "file://" + quote(f"{folder}{source}/part {number:06d}.json")


@dataclass
class Built:
    """A checkpoint: `batches` committed batches with one new file per source each, then `planned` more.

    `files_per_batch` above 1 gives long logs; `interval` is the compact interval.
    """

    root: Path
    batches: int = 3
    planned: int = 0
    sources: int = 1
    operators: Sequence[str] = ("dedupe",)
    partitions: int = 2
    interval: int = 10
    files_per_batch: int = 1
    version: int = 1
    query_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    sidecars: bool = True
    folder: str = "/data/in"  # of the input files; the number of the source is added
    conf: Mapping[str, str] = field(default_factory=dict)  # of the header, over what Spark 4.2 writes

    def write(self) -> "Built":
        self._put("metadata", dumps({"id": self.query_id}))
        for batch in range(self.batches + self.planned):
            for source in range(self.sources):
                self.log(source, batch)
            self._put(f"offsets/{batch}", self.offsets(batch))
            if batch < self.batches:
                self._put(f"commits/{batch}", self.commit(batch))
        for operator, name in enumerate(self.operators):
            self._state(operator, name)
        return self

    def _put(self, name: str, text: str) -> None:
        put(self.root / name, text, sidecar=self.sidecars)

    def offsets(self, batch: int) -> str:
        conf = CONF if self.version == 1 else CONF | {f"{PREFIX}stateStore.providerClass": ROCKSDB}
        conf = {**conf, "spark.sql.shuffle.partitions": str(self.partitions), **self.conf}
        header = {"batchWatermarkMs": 0, "batchTimestampMs": STARTED_MS + batch, "conf": conf}
        lines = [dumps({"logOffset": batch}) for _ in range(self.sources)]
        if self.version == 2:
            lines = [f"{n}:{line}" for n, line in enumerate(lines)]
        return "\n".join([f"v{self.version}", dumps(header), *lines])

    def commit(self, batch: int = 0) -> str:
        if self.version == 1:
            return 'v1\n{"nextBatchWatermarkMs":0}'
        ids = {
            str(n): [[self.unique_id(n, p, batch + 1)] for p in range(self.partitions)]
            for n, _ in enumerate(self.operators)
        }
        return "v2\n" + dumps({"nextBatchWatermarkMs": 0, "stateUniqueIds": ids})

    def unique_id(self, operator: int, partition: int, version: int) -> str:
        return str(uuid.uuid5(uuid.UUID(int=0), f"{operator} {partition} {version}"))

    def log(self, source: int, entry: int) -> None:
        compact = (entry + 1) % self.interval == 0
        first = 0 if compact else entry
        lines = [line for n in range(first, entry + 1) for line in self.entries(source, n)]
        name = f"{entry}.compact" if compact else str(entry)
        self._put(f"sources/{source}/{name}", "\n".join(["v1", *lines]))

    def entries(self, source: int, entry: int) -> list[str]:
        start = entry * self.files_per_batch
        return [
            dumps(
                {
                    "path": input_uri(source, n, self.folder),
                    "timestamp": STARTED_MS + n * 1000,
                    "batchId": entry,
                }
            )
            for n in range(start, start + self.files_per_batch)
        ]

    def _state(self, operator: int, name: str) -> None:
        stores = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": self.partitions}]
        info = {"operatorInfo": {"operatorId": operator, "operatorName": name}, "stateStoreInfo": stores}
        self._put(f"state/{operator}/_metadata/metadata", f"v1\n{dumps(info)}")
        for partition in range(self.partitions):
            for batch in range(self.batches):
                self._version(operator, partition, batch + 1)
        schema = self.root / f"state/{operator}/0/_metadata/schema"
        schema.parent.mkdir(parents=True, exist_ok=True)
        schema.write_bytes(state_schema(["customer_id", "sequence_num"]))

    def _version(self, operator: int, partition: int, version: int) -> None:
        """One state version without rows: a delta, or with format 2 a changelog that begins with its lineage."""
        if self.version == 1:
            name, data = f"{version}.delta", b""
        else:
            ids = [(v, self.unique_id(operator, partition, v)) for v in range(1, version + 1)]
            lineage = [{"version": v, "checkpointUniqueId": i} for v, i in ids[:-1]]
            name, data = f"{version}_{ids[-1][1]}.changelog", utf("v3") + utf(dumps(lineage))
        file = self.root / f"state/{operator}/{partition}/{name}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(lz4_blocks(data + b"\xff\xff\xff\xff"))


def utf(text: str) -> bytes:
    """As Java's writeUTF writes it."""
    return len(text.encode()).to_bytes(2, "big") + text.encode()


def lz4_blocks(*blocks: bytes) -> bytes:
    """A stream of lz4-java with blocks that are not compressed, and the empty block at its end."""
    out = b""
    for data in (*blocks, b""):
        checksum = xxh32(data, SEED) & 0x0FFFFFFF if data else 0
        out += HEAD.pack(MAGIC, 0x15, len(data), len(data), checksum) + data
    return out


def state_schema(key: Sequence[str]) -> bytes:
    """State schema v2, as SchemaWriter writes it with Java's writeUTF."""

    def struct(names: Sequence[str], kind: str) -> str:
        fields = [{"name": n, "type": kind, "nullable": True, "metadata": {}} for n in names]
        return dumps({"type": "struct", "fields": fields})

    one = (1).to_bytes(4, "big")
    return utf("v2") + one + utf(struct(key, "long")) + one + utf(struct(["__dummy__"], "void"))


def sink_log(table: Path, head: int, interval: int = 10, kept_from: int = 0) -> None:
    """`_spark_metadata` with batches 0..head, one data file each; singles below `kept_from` are expired."""

    def line(batch: int) -> str:
        return dumps(
            {
                "path": f"file://{quote(str(table))}/part-{batch}.parquet",
                "size": 700,
                "isDir": False,
                "modificationTime": STARTED_MS + batch,
                "blockReplication": 1,
                "blockSize": 33554432,
                "action": "add",
            }
        )

    for batch in range(head + 1):
        compact = (batch + 1) % interval == 0
        lines = [line(n) for n in range(0 if compact else batch, batch + 1)]
        if compact or batch >= kept_from:
            name = f"{batch}.compact" if compact else str(batch)
            put(table / "_spark_metadata" / name, "\n".join(["v1", *lines]))
