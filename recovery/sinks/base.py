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

    kind: str  # "files", "delta", "unknown"
    location: str
    head: int | None
    earliest: int | None = None
    batches: dict[int, tuple[str, ...]] = field(default_factory=dict)
    absorbs_repeats: bool | None = False
    findings: tuple[Finding, ...] = ()
    fingerprint: str = ""
    size_bytes: int = 0
    older: tuple[str, ...] = ()  # data files whose batch was compacted away
    heads: Mapping[str, int] = field(default_factory=dict)
    forgotten: int | None = None
    forgets: bool = False
    version: int | None = None  # of a table that counts its own commits (Delta)
    declared: str = (
        ""  # format of a sink that the code declares (create_sink): no table, no selection can name it
    )
    by_function: bool = (
        False  # foreachBatch writes it: the code decides what becomes of a batch that comes again
    )
    facts: Any = None  # what the module of its kind asks for, where that is more than this report

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "location": self.location,
            "head": self.head,
            "earliest": self.earliest,
            "files": sum(len(v) for v in self.batches.values()) + len(self.older),
            "findings": [f.as_dict() for f in self.findings],
        }
