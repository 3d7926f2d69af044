"""Which module answers for which kind of sink. Pure."""

from typing import Any

from recovery.sinks import (
    auto_cdc,
    delta,
    files,
    foreach_batch,
    iceberg,
    kafka,
    materialized_view,
    several_flows,
    unknown,
)
from recovery.sinks.kinds import SinkKind

KINDS: tuple[SinkKind[Any], ...] = (
    files,
    delta,
    iceberg,
    kafka,
    foreach_batch,
    auto_cdc,
    materialized_view,
    several_flows,
    unknown,
)
BY_NAME = {kind.KIND: kind for kind in KINDS}


def sink_kind_of(kind: str) -> SinkKind[Any]:
    """The module of a kind; `unknown` for a name that none has."""
    return BY_NAME.get(kind, unknown)
