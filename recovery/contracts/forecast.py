"""What a plan will do to rows and to what reads the table; a proof measures the same afterwards."""

from enum import StrEnum

from pydantic import SerializerFunctionWrapHandler, model_serializer

from recovery.contracts.amounts import RowAmount
from recovery.contracts.value import Duration, Number, Value


class DownstreamEffect(StrEnum):
    """What becomes of a dataset downstream."""

    REFRESHED = "refreshed"
    STALE = "stale"
    EMPTIED = "emptied"
    DOUBLED = "doubled"
    UNKNOWN = "unknown"


class DownstreamReason(StrEnum):
    """Why a dataset downstream is not simply refreshed."""

    LEFT_OUT = "left_out"
    """A person left the step out."""
    ELSEWHERE = "elsewhere"
    """Another pipeline writes it."""
    FAILING = "failing"
    """Its own flow fails."""
    NOT_SEEN = "not_seen"
    """No update that is known has run it."""
    REPEATS = "repeats"
    """It reads as a stream what this plan brings a second time."""
    TABLE_ANEW = "table_anew"
    """It reads as a stream a table that is emptied and written from scratch."""
    TABLE_PUT_BACK = "table_put_back"
    """It reads as a stream a table that is put back to an earlier batch and goes on from there."""
    ROWS_REMOVED = "rows_removed"
    """It reads as a stream a table from which rows are deleted: Delta fails such a stream at that commit, unless it
    skips it (`skipChangeCommits`)."""
    ROWS_UNKNOWN = "rows_unknown"
    """Whether rows come twice is not known."""
    OF_BEHIND = "of_behind"
    """It reads a dataset that the plan does not refresh."""
    READS_STALE = "reads_stale"
    """It also reads a dataset beside the flow's that is behind, which the plan leaves alone."""


class DatasetKind(StrEnum):
    """How a dataset downstream gets its rows."""

    VIEW = "view"
    """Each update computes it from scratch."""
    TABLE = "table"
    """It reads a stream."""


class Downstream(Value):
    """One dataset downstream and what a plan does to it."""

    dataset: str
    """Its full name."""
    effect: DownstreamEffect
    """What becomes of it."""
    rows: Number | None = None
    """Of `doubled`, rows of the flow's table that reach it a second time; of `stale`, new rows of that table that it
    does not show; of a streaming table that is `refreshed`, new rows that it reads. None: not known, or none apply."""
    reason: DownstreamReason | None = None
    """Why it is not simply refreshed; None where it is."""
    kind: DatasetKind = DatasetKind.VIEW
    """How it gets its rows."""
    pipeline: str | None = None
    """The name of the other pipeline that writes it; None: the flow's own does."""
    fewer: RowAmount | None = None
    """Rows of the flow's table that the plan loses, and that so never reach it; None: it loses none, or the plan was
    sealed before this was forecast. Not stored where there are none."""

    @property
    def view(self) -> bool:
        """Whether each update computes it from scratch."""
        return self.kind is DatasetKind.VIEW

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        stored: dict[str, object] = handler(self)
        if self.fewer is None:
            stored.pop("fewer", None)
        return stored


class Forecast(Value):
    """What a strategy will do to rows."""

    lost: RowAmount
    """Rows that never reach the table, or leave it and do not come back."""
    doubled: RowAmount
    """Rows that the table has twice."""
    reread: RowAmount
    """Rows of the input that are read a second time."""
    new_rows: Number | None
    """By how much the table grows; None: not known."""
    table_after: Number | None
    """How many rows the table has then; None: not known, or there is no table."""
    state: str
    """What becomes of the state, in words for people."""
    seconds: Duration | None = None
    """How long it takes, by updates of before; None: not known."""
    downstream: tuple[Downstream, ...] = ()
    """What becomes of each dataset that reads the table. Plans that were sealed before plans looked there have none."""

    @property
    def left_behind(self) -> tuple[Downstream, ...]:
        """What a plan does not bring up to date."""
        return tuple(d for d in self.downstream if d.effect is not DownstreamEffect.REFRESHED)

    @property
    def without_groups(self) -> "Forecast":
        """The same forecast without keys and values of the data, for what is never deleted."""
        return self.model_copy(update={"lost": self.lost.without_groups})

    def with_seconds(self, seconds: float) -> "Forecast":
        """The same forecast, which takes so long."""
        return self.model_copy(update={"seconds": seconds})

    def with_downstream(self, downstream: tuple[Downstream, ...]) -> "Forecast":
        """The same forecast, with what becomes of the datasets downstream."""
        return self.model_copy(update={"downstream": downstream})
