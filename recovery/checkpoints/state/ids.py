"""Unique ids of state files (state checkpoint format 2): from commit files and from inside changelogs."""

from collections.abc import Sequence

from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.formats import CommitFile, Malformed
from recovery.checkpoints.state.names import StoreFiles
from recovery.checkpoints.state.rocksdb import parse_lineage


def operator_ids(commit: CommitFile | None, operator: int) -> list[list[str]] | None:
    """`stateUniqueIds[operator]` of a commit: ids per store, per partition. None where it has none."""
    all_ids = commit.body.get("stateUniqueIds") if commit else None
    own_ids = all_ids.get(str(operator)) if isinstance(all_ids, dict) else None
    if not isinstance(own_ids, list):
        return None
    return [[str(i) for i in stores] if isinstance(stores, list) else [] for stores in own_ids]


def ids_of_store(
    store: StoreFiles,
    names: Sequence[str],
    ids: Sequence[Sequence[str]] | None,
    partition: int,
    version: int,
) -> str | None:
    """The unique id of one store at `version`; None with format 1.

    Ids are listed in the order of the operator metadata's stores. Where that order is not known, the id of which
    the store has a file is its own.
    """
    if ids is None:
        return None
    known = ids[partition] if partition < len(ids) else []
    if len(known) == len(names) and store.store in names:
        return known[list(names).index(store.store)]
    here = {f.unique_id for f in store.versioned if f.version == version}
    return next((i for i in known if i in here), "?")


def lineage_of(
    tree: Tree, store: StoreFiles, version: int, unique_id: str, *, past_zip: bool = False
) -> dict[int, str]:
    """Unique ids by version that lead to `version`. Malformed: its changelog is damaged.

    A version with a zip needs no other; `past_zip`: go on behind it, as Spark does when the zip is damaged.
    """
    lineage = {version: unique_id}
    if not past_zip and store.find(version, ("zip",), unique_id):
        return lineage
    changelog = store.find(version, ("changelog",), unique_id)
    if changelog is None:
        return lineage
    try:
        with tree.store.stream(changelog.name) as stream:
            return lineage | dict(parse_lineage(stream))
    except FileNotFoundError as error:
        raise Malformed("it is missing") from error
