"""Operator metadata: `_metadata/metadata` (v1) and `_metadata/v2/<batch>` (v2); bytes in, values out.

v2 is written by operators whose stores have column families: transformWithState and, with state format 3,
stream-stream joins (OperatorStateMetadataV2). It names its schema files by absolute paths.
"""

from dataclasses import dataclass
from typing import Any

from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.formats import Malformed, json_of, number_of, object_of, text_of
from recovery.checkpoints.state.names import DEFAULT, NUMBER

EARLY_PATH = "stateSchemaFilePath"  # of builds on the way to 4.0, in place of stateSchemaFilePaths


@dataclass(frozen=True)
class StoreInfo:
    """One store of an operator. `schema_paths`: absolute URIs as Spark wrote them, v2 only.

    `early`: it names one path, as builds on the way to 4.0 did. Spark 4.2 takes that for none.
    """

    name: str
    partitions: int
    schema_paths: tuple[str, ...] = ()
    early: bool = False


@dataclass(frozen=True)
class OperatorMetadata:
    """What an operator says of itself. `properties`: of v2, as Spark wrote them (time mode, variables)."""

    version: int
    operator_id: int
    name: str
    stores: tuple[StoreInfo, ...]
    properties: dict[str, Any]

    @property
    def partitions(self) -> int:
        return max((s.partitions for s in self.stores), default=0)

    @property
    def store_names(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.stores) or (DEFAULT,)


UNKNOWN = OperatorMetadata(0, -1, "unknown", (), {})


def metadata_file(tree: Tree, operator: int, before: int | None = None) -> str | None:
    """The file that Spark reads: the newest of v2 (of a batch below `before`), else that of v1. None: none."""
    folder = f"state/{operator}/_metadata/v2"
    batches = [int(n) for n in tree.names(folder) if NUMBER.fullmatch(n)]
    early = [b for b in batches if before is None or b < before]
    if early or batches:
        return f"{folder}/{max(early or batches)}"
    first = f"state/{operator}/_metadata/metadata"
    return first if first in tree.files else None


def parse_metadata(data: bytes) -> OperatorMetadata:
    """v1 or v2. Malformed; its `newer` is set for a version that is not known here."""
    if not data:
        raise Malformed("it is empty")
    line, _, body = text_of(data).partition("\n")
    if line not in ("v1", "v2"):
        newer = line if line[:1] == "v" and line[1:].isascii() and line[1:].isdigit() else None
        why = f"it is in format {line[:9]}" if newer else "it does not begin with a version line"
        raise Malformed(why, newer=newer and newer[:9])
    if not body:
        raise Malformed("it is cut short after the version line")
    metadata = object_of(body)
    info, stores = metadata.get("operatorInfo"), metadata.get("stateStoreInfo")
    if not isinstance(info, dict) or not isinstance(info.get("operatorName"), str):
        raise Malformed("it names no operator")
    if not isinstance(stores, list) or not all(isinstance(s, dict) for s in stores):
        raise Malformed("it names no stores")
    return OperatorMetadata(
        int(line[1:]),
        number_of(info, "operatorId"),
        info["operatorName"],
        tuple(_parse_store(s) for s in stores),
        _parse_properties(metadata.get("operatorPropertiesJson")),
    )


def _parse_store(info: dict[str, Any]) -> StoreInfo:
    name, paths = info.get("storeName"), info.get("stateSchemaFilePaths") or []
    if not isinstance(name, str) or not name or "/" in name:
        raise Malformed("it has a store without a name")
    early = not paths and isinstance(info.get(EARLY_PATH), str)
    paths = [info[EARLY_PATH]] if early else paths
    if not isinstance(paths, list) or not all(isinstance(p, str) for p in paths):
        raise Malformed("its stateSchemaFilePaths is not a list of paths")
    number_of(info, "numColsPrefixKey")  # every store that Spark writes has it
    return StoreInfo(name, number_of(info, "numPartitions"), tuple(paths), early)


def _parse_properties(text: object) -> dict[str, Any]:
    if not isinstance(text, str):
        return {}
    try:
        value = json_of(text)
    except Malformed:
        return {}  # only shown; Spark compares it with the code on its own
    return value if isinstance(value, dict) else {}
