"""What a sink remembers of the batches that it took, and what that means for the next one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recovery.checkpoints.report import Finding


@dataclass(frozen=True)
class SinkReport:
    """One sink. `head` is the newest batch id that it remembers (None: remembers nothing).

    For a file sink (`_spark_metadata`) `batches` maps batch id to the data files that it added and
    `fingerprint` changes with every batch. `absorbs_repeats`: None where not known.
    A Delta table remembers a head for each application, by its query id: `heads`; `head` is then that of the query
    that was asked about, and repeats are absorbed under that id alone. Where it `forgets` ids by a setting of its own,
    `forgotten` is the newest batch that it has of that query and no longer counts (None: none, or not known).
    """

    #: "files", "delta", "unknown"
    kind: str
    location: str
    head: int | None
    earliest: int | None = None
    batches: dict[int, tuple[str, ...]] = field(default_factory=dict)
    absorbs_repeats: bool | None = False
    findings: tuple[Finding, ...] = ()
    fingerprint: str = ""
    size_bytes: int = 0
    #: data files whose batch was compacted away
    older: tuple[str, ...] = ()
    heads: Mapping[str, int] = field(default_factory=dict)
    forgotten: int | None = None
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
