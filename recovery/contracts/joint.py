"""A joint plan: plans of several flows of one pipeline that are approved, started and rolled back together. Sealed by
the hash of its JSON, as a plan is."""

from typing import Annotated

from pydantic import Field

from recovery.contracts.names import Strategy
from recovery.contracts.plan import PipelineName
from recovery.contracts.value import Number, Value

JOINT_SCHEMA = 1
"""The number that joint plans are sealed with. Raise it when what a stored field means is changed."""

JOINABLE = frozenset(
    {
        Strategy.CONTINUE,
        Strategy.REVERT,
        Strategy.REPAIR,
        Strategy.REBUILD,
        Strategy.PRIME,
        Strategy.REWIND,
        Strategy.REPLAY,
        Strategy.FULL_REFRESH,
    }
)
"""Strategies whose update can be shared. The others start none, begin again beside rows that stay, or write rows of a
backup after it."""


class JoinedPlan(Value):
    """One of the plans, in its place."""

    recovery: str
    """The label of its recovery."""
    flow: str
    """The full name of its flow."""
    plan: str
    """The hash of the plan."""


class JointBody(Value):
    """Everything that a joint plan fixes in addition to its plans."""

    schema_number: Annotated[Number, Field(alias="schema", ge=1, le=JOINT_SCHEMA)]
    """The number of this shape."""
    workspace: str
    """The name of the workspace."""
    environment: str
    """The pipeline's environment, whose rules approve it."""
    pipeline: PipelineName
    """The pipeline of all its flows."""
    plans: tuple[JoinedPlan, ...]
    """Its plans, in their order: steps of one kind run in it, and a rollback takes them back from the last to the
    first."""
    refresh: tuple[str, ...]
    """The tables that its one update selects: those of all its plans."""
    full_refresh: tuple[str, ...] = ()
    """The tables that its one update empties and reads again."""

    @property
    def tables(self) -> tuple[str, ...]:
        """All that its one update writes."""
        return (*self.refresh, *self.full_refresh)
