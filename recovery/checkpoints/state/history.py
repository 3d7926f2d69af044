"""Unique ids of every version that a rollback could end at, from the commit files that are kept (format 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from recovery.checkpoints import formats
from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.formats import CommitFile, Malformed
from recovery.checkpoints.state.ids import ids_of_store, operator_ids
from recovery.checkpoints.state.names import StoreFiles

MAX_COMMITS = 100  # Spark keeps this many (minBatchesToRetain)


@dataclass
class History:
    """Commit files by batch, read when they are asked for."""

    tree: Tree
    newest: CommitFile | None
    committed: int | None
    _read: dict[int, CommitFile | None] = field(default_factory=dict)

    def commit(self, batch: int) -> CommitFile | None:
        """The commit of a batch; None where it is missing or cannot be read."""
        if batch == self.committed:
            return self.newest
        if batch not in self._read:
            try:
                self._read[batch] = formats.parse_commit(self.tree.bytes_of(f"commits/{batch}"))
            except Malformed:
                self._read[batch] = None
        return self._read[batch]

    @property
    def batches(self) -> list[int]:
        """The newest committed batches, ascending."""
        return sorted(self.tree.numbers("commits"))[-MAX_COMMITS:]

    def ids(self, operator: int, version: int) -> list[list[str]] | None:
        """Unique ids of a version: the commit of the batch that wrote it names them."""
        return operator_ids(self.commit(version - 1), operator)

    def ids_of(self, operator: int, store: StoreFiles, names: Sequence[str]) -> dict[int, str]:
        """Unique ids of one store by version, of all batches that are kept."""
        ids = {}
        for batch in self.batches:
            store_ids = ids_of_store(store, names, self.ids(operator, batch + 1), store.partition, batch + 1)
            if store_ids is not None:
                ids[batch + 1] = store_ids
        return ids
