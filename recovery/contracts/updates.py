"""What the inventory keeps of a pipeline's updates beside what the API says of them, and of the table of a flow."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from recovery.contracts.value import Flag, Number, Value


class FlowOutcome(StrEnum):
    """What an update did for a flow."""

    OK = "ok"
    FAILED = "failed"
    STOPPED = "stopped"
    NONE = "none"
    """The flow had no part in it."""


@dataclass(frozen=True)
class FlowInUpdate:
    """One flow in one update, as `Pipeline.updates` keeps it under `flows`. A plain dataclass: every poll reads one for
    each flow of each update."""

    outcome: FlowOutcome = FlowOutcome.NONE
    """What the update did for it."""
    at: str = ""
    """When that was, in ISO form; "": not noted."""
    status: str = ""
    """What its last event says; "": there is none."""
    wrote: bool = False
    """Whether what it writes has changed."""
    went_on: bool | None = None
    """Of a continuous pipeline, whether it committed a batch with rows. None: it is not continuous; not stored then."""

    @classmethod
    def read(cls, update: Mapping[str, object], flow: str) -> "FlowInUpdate":
        """What an update, as it is kept, holds of a flow; nothing where it had no part in it, or is not read."""
        flows = update.get("flows")
        kept = flows.get(flow) if isinstance(flows, Mapping) else None
        if not kept:
            return NO_PART
        return cls(
            FlowOutcome(kept.get("outcome") or FlowOutcome.NONE),
            str(kept.get("at") or ""),
            str(kept.get("status") or ""),
            bool(kept.get("wrote")),
            kept.get("went_on"),
        )

    def as_json(self) -> dict[str, object]:
        """As it is stored."""
        kept: dict[str, object] = {
            "outcome": self.outcome.value,
            "at": self.at,
            "status": self.status,
            "wrote": self.wrote,
        }
        return kept if self.went_on is None else {**kept, "went_on": self.went_on}


NO_PART = FlowInUpdate()


class FileBatches(Value):
    """Batches of one update that had input, into a table of files. Kept with the update under `file_batches`."""

    sink: str
    """As Spark's progress describes it, with the table's place."""
    first: Number
    """The lowest number."""
    last: Number
    """The highest number."""
    first_input: str = ""
    """Digest of the input of the first."""
    last_input: str = ""
    """Digest of the input of the last."""
    began_table: Flag | None = None
    """Whether they began the table's log, so that nothing of before is in the table; False where that is not known. Of
    plain streams alone: None of others."""


class QueryBatches(Value):
    """Batches of one update that had input, and the query that ran them. Kept with the update under
    `query_batches`."""

    query: str
    """The sink, as Spark's progress describes it, and the query's id."""
    first: Number
    """The lowest number."""
    last: Number
    """The highest number."""
    first_input: str = ""
    """Digest of the input of the first."""
    last_input: str = ""
    """Digest of the input of the last."""
    began_table: Flag | None = None
    """Whether the table was new or emptied, so that nothing of before is in it; False where that is not known. Of plain
    streams alone: None of others."""

    @property
    def sink(self) -> str:
        """As Spark's progress describes it."""
        return self.query.rpartition(" ")[0]

    @property
    def query_id(self) -> str:
        """The query's id."""
        return self.query.rpartition(" ")[2]

    @property
    def is_file(self) -> bool:
        """Whether the sink is a table of files, which skips numbers that it has, whichever query they are of."""
        return self.query.startswith("FileSink")

    @property
    def is_delta(self) -> bool:
        """Whether the sink keeps the newest number of each query, and skips those that are not above it."""
        return self.query.startswith("DeltaSink")


class LostRows(StrEnum):
    """The condition of a flow that lost rows in updates that completed; a row each in the table of diagnosis."""

    PASSED_OVER = "SINK_PASSED_OVER"
    """Its batch numbers began again below those that its table has."""
    SHARED = "SINK_SHARED"
    """Another flow writes the same file table."""
    NOT_READ = "SINK_NOT_READ"
    """Updates ran that were not read: whether rows were lost is not known."""


QUERY_ID_SHARED: Final = "QUERY_ID_SHARED"
"""The condition of a flow that another one with the same query id ends without an error."""
CHECKPOINT_GONE: Final = "CHECKPOINT_GONE"
"""The condition of a plain stream whose checkpoint was there and no longer is."""
CONDITIONS_WITHOUT_ERROR: Final[tuple[str, ...]] = (
    *(condition.value for condition in LostRows),
    QUERY_ID_SHARED,
    CHECKPOINT_GONE,
)
"""Conditions of which no error tells: they show in what the updates did, and in what the checkpoint lacks."""


class TableLoss(Value):
    """Rows that a file table passed over, or may have."""

    condition: LostRows
    """How."""
    since: str = ""
    """Since when, in ISO form; "": not known."""
    update: str = ""
    """In which update; "": in one that is out of sight."""
    settled_by: int | None = None
    """The number of the recovery whose proof counted the whole table since; None: none has."""


class ReadAgain(Value):
    """A query that began again from its start, or may have, into a sink that kept the rows of before."""

    since: str = ""
    """Since when, in ISO form; "": not known."""
    update: str = ""
    """In which update."""
    is_straight: Flag = False
    """Whether its numbers went on where those of before ended, so that it is not sure."""


class TableHistory(Value):
    """What happened to a table that the flow has left for a new one, and whose rows are as they were."""

    loss: TableLoss | None = None
    """Rows that it has passed over; None: none."""
    read_again: ReadAgain | None = None
    """The newest query that began again over it; None: none."""


class SinkMemory(Value):
    """What a flow's row keeps of its sink, so that it outlives the updates that the pipeline's row keeps. Not stored
    where there is nothing to remember."""

    newest: Mapping[str, Number] = {}
    """The highest number of a batch with input, by the place of a file table."""
    update: str = ""
    """The newest update that was counted; "": none was."""
    at: str = ""
    """When that one was created, in ISO form; "": not kept."""
    loss: TableLoss | None = None
    """Rows that the table has passed over since it was last emptied; None: none."""
    inputs: Mapping[str, str] = {}
    """The digest of the input of that batch, by the table's place."""
    queries: Mapping[str, QueryBatches] = {}
    """The newest batches with input, by sink, since it was last emptied; the newest last."""
    read_again: ReadAgain | None = None
    """The newest query that began again since the sink was last emptied; None: none."""
    left: Mapping[str, TableHistory] = {}
    """What happened to tables that the flow has left for a new one, by sink, the newest last."""

    @property
    def open_loss(self) -> TableLoss | None:
        """The loss, where no proof has counted the table since."""
        return None if self.loss is not None and self.loss.settled_by is not None else self.loss

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not (self.newest or self.loss or self.queries or self.read_again or self.left)
