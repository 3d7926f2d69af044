"""Metadata of stateful operators: names that the stores themselves betray, paths that name an old place.

Facts (OperatorStateMetadataV1, V2; StateSchemaProvider): metadata v1 holds operator name, stores and partitions;
metadata v2 (transformWithState) holds absolute paths of its schema files.
"""

import json
import re
from typing import Any

from recovery.checkpoints import formats
from recovery.checkpoints.file_layout import Layout
from recovery.checkpoints.file_listing import MAX_SMALL_BYTES
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.repairing.work import CannotRepair, RepairWork
from recovery.checkpoints.report import Finding
from recovery.checkpoints.storage import Store
from recovery.checkpoints.uris import strip_file_scheme
from recovery.contracts.steps import DamageMending

JOIN_STORES = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)
BY_VALUE = {"__dummy__": "dedupe", "expiresAtMicros": "dedupeWithinWatermark"}
SCHEMA_PATH = re.compile(r"(.*)/(state/[0-9]+/_stateSchema/.+)", re.DOTALL)


def operator_metadata(work: RepairWork, finding: Finding) -> DamageMending:
    """Operator metadata v1, written from the stores of partition 0."""
    assert finding.file is not None, "the finding names the file"
    number = int(finding.file.split("/")[1])
    partitions = _list_numbered_folders(work.layout, f"state/{number}")
    if not partitions:
        raise CannotRepair("The operator has no partition left.")
    stores = _list_store_names(work.layout, number)
    name, whence = _operator_name(work, number, stores)
    body = {
        "operatorInfo": {"operatorId": number, "operatorName": name},
        "stateStoreInfo": [
            {"storeName": store, "numColsPrefixKey": 0, "numPartitions": len(partitions)} for store in stores
        ],
    }
    work.layout.write(finding.file, f"v1\n{json.dumps(body, separators=(',', ':'))}".encode())
    return DamageMending(
        code=finding.code, file=finding.file, says=finding.says, how=f"Written for {name}, {whence}."
    )


def _list_store_names(layout: Layout, number: int) -> list[str]:
    named = {n.split("/")[3] for n in layout.below(f"state/{number}/0") if n.count("/") == 4}
    joined = [store for store in JOIN_STORES if store in named]
    return joined or ["default"]


def _operator_name(work: RepairWork, number: int, stores: list[str]) -> tuple[str, str]:
    if tuple(stores) == JOIN_STORES:
        return "symmetricHashJoin", "from its stores"
    if stores != ["default"]:
        raise CannotRepair("Its stores are not all there, so its metadata is not known.")
    try:
        columns = _value_columns(work.read(f"state/{number}/0/_metadata/schema"))
    except Malformed:
        columns = ()
    for column, name in BY_VALUE.items():
        if columns == (column,):
            return name, "from the schema of its state"
    if number < len(work.known.operators):
        return work.known.operators[number], "from the code that last worked"
    raise CannotRepair(
        "Which operator it was is written nowhere; run the last good code once more, or name it."
    )


def _value_columns(data: bytes) -> tuple[str, ...]:
    """Field names of the value in a state schema of format v2: the last struct of the file."""
    at = data.rfind(b'{"type":"struct"')
    if at < 0:
        raise Malformed("it has no value schema")
    fields = formats.object_of(formats.text_of(data[at:])).get("fields")
    return (
        tuple(str(f.get("name")) for f in fields if isinstance(f, dict)) if isinstance(fields, list) else ()
    )


def _list_numbered_folders(layout: Layout, folder: str) -> set[int]:
    parts = (n[len(folder) + 1 :].split("/", 1)[0] for n in layout.below(folder))
    return {int(p) for p in parts if p.isascii() and p.isdigit() and len(p) < 9}


def at_home(layout: Layout, old: Store, target: str) -> list[DamageMending]:
    """Rewrite absolute schema paths of transformWithState so that they name `target`.

    Needed for every new place, a new version of the same flow too; said only where the old paths named another
    place than the old checkpoint's own.
    """
    places = []
    for name in [n for n in layout.below("state") if "/_metadata/v2/" in n]:
        origin = layout.files[name]
        data = origin if isinstance(origin, bytes) else origin.store.read(origin.name, MAX_SMALL_BYTES)
        written, foreign = _rewrite_paths(data, _hadoop_uri(old.location), _hadoop_uri(target))
        if written is None:
            continue
        layout.write(name, written)
        if foreign:
            says = f"Schema paths of operator metadata {name} name {foreign}, where this checkpoint is not."
            places.append(
                DamageMending(
                    code="STATE_SCHEMA_ELSEWHERE",
                    file=name,
                    says=says,
                    how="Rewritten to the new version's own place.",
                )
            )
    return places


def _rewrite_paths(data: bytes, own: str, target: str) -> tuple[bytes | None, str | None]:
    """(new bytes, a foreign place that the old ones named); (None, None): nothing to rewrite, or not readable."""
    try:
        version, _, text = formats.text_of(data).partition("\n")
        body = formats.object_of(text)
    except Malformed:
        return None, None
    foreign: list[str] = []

    def moved(value: Any) -> Any:
        match = SCHEMA_PATH.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            return value
        if strip_file_scheme(match[1]) != strip_file_scheme(own):
            foreign.append(match[1])
        return f"{_with_scheme_of(match[1], target)}/{match[2]}"

    stores = body.get("stateStoreInfo")
    if not isinstance(stores, list):
        return None, None
    for store in stores:
        if isinstance(store, dict) and isinstance(store.get("stateSchemaFilePaths"), list):
            store["stateSchemaFilePaths"] = [moved(p) for p in store["stateSchemaFilePaths"]]
    new = f"{version}\n{json.dumps(body, separators=(',', ':'), ensure_ascii=False)}".encode()
    return (None, None) if new == data else (new, foreign[0] if foreign else None)


def _hadoop_uri(location: str) -> str:
    """A location as Hadoop's Path writes it: `file:/a/b`, `s3a://bucket/a`."""
    plain = location.rstrip("/")
    if "://" in plain and not plain.startswith("file:"):
        return plain
    return f"file:/{strip_file_scheme(plain).lstrip('/')}"


def _with_scheme_of(old: str, target: str) -> str:
    """The target under the scheme that Spark used: `s3a` where this store is opened as `s3`."""
    (scheme, sep, _), (_, also, rest) = old.partition("://"), target.partition("://")
    return f"{scheme}://{rest}" if sep and also else target
