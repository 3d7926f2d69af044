"""Reads what an Iceberg table remembers of streams: query ids and batches in the summaries of its snapshots."""

from collections.abc import Mapping
from typing import Any

from recovery.sinks.iceberg import IcebergSinkFacts
from recovery.sources.live import iceberg

QUERY, EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"


def read_table_facts(location: str, *, query_id: str | None, metadata: str | None = None) -> IcebergSinkFacts:
    """The newest batch of each query in the current history. Raises Unreachable as `iceberg.read_table_facts`."""
    return iceberg.read_metadata(location, metadata, lambda body: _parse_facts(body, query_id))


def _parse_facts(body: Mapping[str, Any], query_id: str | None) -> IcebergSinkFacts:
    chain, _ = iceberg.read_history(body)
    heads: dict[str, int] = {}
    for (
        snapshot
    ) in chain:  # newest first, as findLastCommittedEpochId walks: the first word on a query counts
        summary = snapshot.get("summary")
        values = summary if isinstance(summary, dict) else {}
        query, epoch = values.get(QUERY), values.get(EPOCH)
        if (
            isinstance(query, str)
            and isinstance(epoch, str)
            and epoch.isascii()
            and epoch.isdigit()
            and len(epoch) < 19
        ):
            heads.setdefault(query, int(epoch))
    return IcebergSinkFacts(heads, query_id, bool(chain) and chain[-1].get("parent-snapshot-id") is not None)
