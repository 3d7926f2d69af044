"""What a sink remembers of the batches that it took, and what that means for the next one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recovery.checkpoints.report import Finding


@dataclass(frozen=True)
class SinkReport:
    """What one sink remembers."""

    #: "files", "delta", "unknown"
    kind: str
    location: str
    #: the newest batch id that it remembers; of a Delta table that of the query that was asked about. None:
    #: remembers nothing
    head: int | None
    earliest: int | None = None
    #: file sink (`_spark_metadata`): batch id -> data files that it added
    batches: dict[int, tuple[str, ...]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    #: file sink: changes with every batch
    fingerprint: str = ""
    size_bytes: int = 0
    #: data files whose batch was compacted away
    older: tuple[str, ...] = ()
    #: Delta: query id -> its newest batch
    heads: Mapping[str, int] = field(default_factory=dict)
    #: the newest batch of that query that the table has and no longer counts; None: none, or not known
    forgotten: int | None = None
    #: the table forgets ids by a setting of its own
    forgets: bool = False
    #: of a table that counts its own commits (Delta)
    version: int | None = None
    #: format of a sink that the code declares (create_sink): no table, no selection can name it
    declared: str = ""
    #: foreachBatch writes it: the code decides what becomes of a batch that comes again
    by_function: bool = False
    #: what the module of its kind asks for, where that is more than this report
    facts: Any = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "location": self.location,
            "head": self.head,
            "earliest": self.earliest,
            "files": sum(len(v) for v in self.batches.values()) + len(self.older),
            "findings": [f.as_dict() for f in self.findings],
        }
