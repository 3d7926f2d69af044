"""State of a checkpoint: operators, their metadata and schemas, and the files of their stores.

Sources of facts: HDFSBackedStateStoreProvider, RocksDBFileManager, RocksDB, StateStoreChangelog,
OperatorStateMetadata, StateSchemaCompatibilityChecker of Spark 4.2, and files that it wrote
(tests/fixtures/checkpoints).
"""

from recovery.checkpoints.state.needed import NeededFiles, files_needed

__all__ = ["NeededFiles", "files_needed"]
