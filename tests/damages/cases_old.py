"""What older Sparks, and builds on the way to 4.0, left: not damaged, and to be taken as Spark 4.2 takes it."""

import json
import struct
from pathlib import Path

from tests.damages import hands
from tests.damages.bases import Place
from tests.damages.case import Case
from tests.damages.cases_logs import both, gone
from tests.damages.cases_more import TWS, metadata_v2, schema
from tests.damages.cases_state import DEDUPE, state

SESSION = "the number of state partitions is then the session's, which no file tells"


def _schemas_of_3_1(place: Place) -> None:
    """Format v1: what v2 writes in chunks, each as one text (SchemaHelper)."""
    for file in state(place, "0/**/_metadata/schema"):
        data = file.read_bytes()
        assert data[:4] == b"\0\2v2", file
        texts, at = [], 4
        for _ in "key", "value":
            assert data[at : at + 4] == b"\0\0\0\1", "one chunk"
            (size,) = struct.unpack(">H", data[at + 4 : at + 6])
            texts.append(data[at + 4 : at + 6 + size])
            at += 6 + size
        hands.write(file, b"\0\2v1" + b"".join(texts))


def _one_schema_file(place: Place) -> None:
    """Metadata v2 named one schema file, and no list, before 4.0 was released."""

    def singular(text: str) -> str:
        line, body = text.split("\n")
        told = json.loads(body)
        for store in told["stateStoreInfo"]:
            (store["stateSchemaFilePath"],) = store.pop("stateSchemaFilePaths")
        return f"{line}\n{json.dumps(told, separators=(',', ':'))}"

    hands.edit(metadata_v2(place), singular)


def _schema_without_ids(place: Place) -> None:
    """Schema v3 without the ids of its two schemas, as it was written before 4.0 was released."""
    file = schema(place)
    data, out = file.read_bytes(), b""
    assert data[:8] == b"\0\2v3\0\0\0\1", "one column family"
    at = 8
    (size,) = struct.unpack(">H", data[at : at + 2])
    out, at = data[: at + 2 + size], at + 2 + size
    for _ in "key", "value":
        assert data[at : at + 6] == b"\0\0\0\0\0\1", "an id, and one chunk"
        (size,) = struct.unpack(">H", data[at + 6 : at + 8])
        out, at = out + data[at + 2 : at + 8 + size], at + 8 + size
    hands.write(file, out + data[at:])


def _as_of_2_1(place: Place) -> None:
    """No commits, no settings in the headers, no operator metadata, no schema."""
    hands.remove(place.checkpoint / "commits", place.checkpoint / "state/0/_metadata")
    hands.remove(*place.checkpoint.glob("state/0/*/_metadata"))
    for file in (f for f in (place.checkpoint / "offsets").iterdir() if not f.name.startswith(".")):
        hands.edit(file, _without_settings)


def _without_settings(text: str) -> str:
    version, header, rest = text.split("\n", 2)
    told = json.loads(header)
    del told["conf"]
    return "\n".join([version, json.dumps(told, separators=(",", ":")), rest])


def _stale(file: Path, before: str, after: str) -> None:
    """Somebody edited the file, and its checksum file stayed."""
    kept = hands.sidecar(file).read_bytes()
    hands.edit(file, lambda text: text.replace(before, after, 1))
    hands.sidecar(file).write_bytes(kept)


OLD = [
    Case("state schema of Spark 3.1", DEDUPE, _schemas_of_3_1),
    Case("state schemas of Spark 3.1, join", "join", _schemas_of_3_1),
    Case("operator metadata of builds before 4.0", TWS, _one_schema_file),
    Case("operator metadata and state schema of builds before 4.0", TWS,
         both(_one_schema_file, _schema_without_ids)),
    Case("state schema of builds before 4.0", TWS, _schema_without_ids),
    Case("as Spark 2.1 left it", DEDUPE, _as_of_2_1, untold=SESSION),
    Case("a sidecar that does not fit its commit file", DEDUPE,
         lambda p: _stale(p.checkpoint / "commits/2", '{"nextBatchWatermarkMs":0', '{ "nextBatchWatermarkMs":0')),
    Case("a sidecar that does not fit the metadata", DEDUPE,
         lambda p: _stale(p.checkpoint / "metadata", '{"id"', '{ "id"')),
    Case("a sidecar that does not fit a log entry", DEDUPE,
         lambda p: _stale(p.checkpoint / "sources/0/2", '{"path"', '{ "path"')),
    Case("operator metadata v2 missing, state schema of builds before 4.0", TWS,
         both(gone("state/0/_metadata"), _schema_without_ids)),
]  # fmt: skip
