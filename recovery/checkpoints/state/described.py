"""Schemas of an operator's stores, wherever its metadata version puts them."""

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import Finding, StateSchema
from recovery.checkpoints.state.metadata import UNKNOWN, OperatorMetadata
from recovery.checkpoints.state.names import DEFAULT, StoreFiles
from recovery.checkpoints.state.schema import parse_schema


def read_schemas(
    tree: Tree,
    number: int,
    metadata: OperatorMetadata,
    stores: Mapping[tuple[int, str], StoreFiles],
    findings: list[Finding],
) -> tuple[StateSchema, ...]:
    """Schemas in the order of the stores. Findings: missing, unreadable, newer, or at another place."""
    schemas: list[StateSchema] = []
    early = {info.name for info in metadata.stores if info.early}
    for store, file in _list_schema_files(tree, number, metadata, stores, findings):
        try:
            parsed = parse_schema(tree.bytes_of(file), early=store in early)
        except Malformed as problem:
            if problem.newer:
                words = {"operator": number, "version": problem.newer}
                findings.append(finding("STATE_NEWER_FORMAT", file, **words))
            else:
                words = {"operator": number, "why": problem.why}
                findings.append(finding("STATE_SCHEMA_UNREADABLE", file, **words))
            continue
        schemas += [StateSchema(store, s.family, s.key, s.value, file) for s in parsed]
    return tuple(schemas)


def _list_schema_files(
    tree: Tree,
    number: int,
    metadata: OperatorMetadata,
    stores: Mapping[tuple[int, str], StoreFiles],
    findings: list[Finding],
) -> list[tuple[str, str]]:
    """(store, schema file) of each store."""
    if metadata.version == 2:
        return [
            pair
            for info in metadata.stores
            for pair in (_list_early_schema_files if info.early else _list_named_schema_files)(
                tree, number, info.name, info.schema_paths, findings
            )
        ]
    names = metadata.store_names if metadata is not UNKNOWN else sorted({s for _, s in stores}) or (DEFAULT,)
    files = []
    for name in names:
        folder = f"state/{number}/0" if name == DEFAULT else f"state/{number}/0/{name}"
        file = f"{folder}/_metadata/schema"
        if file in tree.files:
            files.append((name, file))
        elif metadata is not UNKNOWN and folder in tree.directories:  # else more than the schema is missing
            findings.append(finding("STATE_SCHEMA_MISSING", file, operator=number))
    return files


def _list_early_schema_files(
    tree: Tree, number: int, store: str, paths: tuple[str, ...], findings: list[Finding]
) -> list[tuple[str, str]]:
    """The one schema file that a build before 4.0 named. Spark 4.2 does not look for it, wherever it is."""
    findings.append(finding("STATE_SCHEMA_EARLY", paths[0][:500], operator=number))
    file = f"state/{number}/_stateSchema/{store}/{paths[0].rsplit('/', 1)[-1]}"
    return [(store, file)] if file in tree.files else []


def _list_named_schema_files(
    tree: Tree, number: int, store: str, paths: tuple[str, ...], findings: list[Finding]
) -> list[tuple[str, str]]:
    """Schema files that metadata v2 names by absolute paths; only the newest describes what is written now."""
    files = []
    for path in paths:
        file = f"state/{number}/_stateSchema/{store}/{path.rsplit('/', 1)[-1]}"
        elsewhere = _without_scheme(path) not in {
            _without_scheme(f"{tree.store.location}/{file}"),
            _without_scheme(tree.store.path(file)),
        }
        if elsewhere and not _is_surely_missing(tree, path):
            findings.append(finding("STATE_SCHEMA_ELSEWHERE", file, operator=number, path=path[:500]))
        elif elsewhere or file not in tree.files:
            findings.append(finding("STATE_SCHEMA_GONE", path[:500], operator=number))
        files += [(store, file)] if file in tree.files else []
    return files[-1:]


def _without_scheme(path: str) -> str:
    """A path or URL without its scheme: Spark's `s3a` is fsspec's `s3`, and `file:/x` is `/x`."""
    parts = urlsplit(path)
    return unquote(f"{parts.netloc}{parts.path}" if parts.scheme else path).strip("/")


def _is_surely_missing(tree: Tree, path: str) -> bool:
    """Whether a file of the same local disk is surely not there."""
    return (
        tree.store.local
        and path.startswith("file:")
        and not tree.store.fs.exists(f"/{_without_scheme(path)}")
    )
