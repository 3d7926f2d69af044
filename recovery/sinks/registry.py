"""Which module answers for which kind of sink. Pure."""

from recovery.sinks import delta, files, foreach_batch, kafka, unknown
from recovery.sinks.kinds import SinkKind

BY_NAME: dict[str, SinkKind] = {kind.KIND: kind for kind in (files, delta, kafka, foreach_batch, unknown)}


def sink_kind_of(kind: str) -> SinkKind:
    """The module of a kind; `unknown` for a name that none has."""
    return BY_NAME.get(kind, unknown)
