"""New values of a flow's row, as a poll folds them: the columns of `Flow` that it may write."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict


class FlowValues(TypedDict, total=False):
    """A column that is missing stays as it is. A dictionary, as the columns are laid over each other and handed to the
    row; the fields of `Flow` say what each holds."""

    short: str
    dataset: str
    flow_type: str
    streaming: bool
    inputs: Sequence[object]
    state: str
    history: list[str]
    last_progress: Mapping[str, object]
    last_batch: int | None
    query_id: str
    failing_since: datetime | None
    failed_update: str
    condition: str
    error: Sequence[Mapping[str, str]]
    failure_memory: Mapping[str, object]
    sink_memory: Mapping[str, object]
    behind_since: datetime | None
    behind_why: str
    behind_update: str
    good_at: datetime | None
    renewed_at: datetime | None
    rewritten_at: datetime | None
