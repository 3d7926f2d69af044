"""The topic that a flow writes to, before a rerun and after it: what is noted, and what Spark is asked to compare."""

from dataclasses import replace

from recovery.checkpoints.formats import Malformed
from recovery.contracts.results import TopicMark
from recovery.errors import Refused
from recovery.sinks import kafka
from recovery.sinks.live import kafka as live
from recovery.spark.api import Measure, MeasureRequest, measure
from recovery.workflow.flow_snapshot import FlowSnapshot

NOT_NOTED = (
    "Where the topic ended before the rerun was not noted, so it is not known what the rerun sent to it."
)


def note_ends(snapshot: FlowSnapshot) -> TopicMark | None:
    """Where the topic ends now; None: the flow writes to no topic, or it could not be asked."""
    facts = kafka.facts_of(snapshot.sink)
    if snapshot.sink.kind != kafka.KIND or facts.ends is None:
        return None
    return TopicMark(
        ends=facts.ends,
        failed=facts.failed,
        failed_early=facts.failed_early,
        ids=dict(facts.ids),
        topics=tuple(facts.topics),
    )


def measure_topic(snapshot: FlowSnapshot, asked: MeasureRequest, before: TopicMark | None) -> Measure:
    """The records that came since `before` beside those that had to come. Raises Unreachable.

    `asked.topic` is filled in here.
    """
    facts = kafka.facts_of(snapshot.sink)
    if snapshot.sink.kind != kafka.KIND:
        return Measure(
            problem=f"What came into a sink of format {snapshot.sink.declared} cannot be read here."
        )
    if facts.problem or before is None or tuple(facts.topics) != before.topics:
        return Measure(problem=facts.problem or NOT_NOTED)
    try:
        since = live.records_between(_options(snapshot), before.ends, facts.ends, before.ids)
        failed, early = before.failed, before.failed_early
        part = live.records_between(_options(snapshot), failed, before.ends, before.ids) if failed else None
        margin = (
            live.records_between(_options(snapshot), early, failed, before.ids) if failed and early else None
        )
    except (Refused, Malformed) as problem:
        return Measure(problem=f"The topic could not be asked: {problem}")
    if since is None or (failed and part is None) or (failed and early and margin is None):
        return Measure(
            problem="The topic was recreated since the rerun began, or records are gone from it already."
        )
    parts = {"since": since, "failed": part, "margin": margin}
    topic = {name: held.as_dict() if held is not None else None for name, held in parts.items()}
    return measure(replace(asked, topic=topic))


def read_ends(snapshot: FlowSnapshot) -> str | None:
    """Where the topic ends, as an offset line; None: not known."""
    return kafka.facts_of(snapshot.sink).ends


def count_between(snapshot: FlowSnapshot, before: str | None, after: str | None) -> int | None:
    """Records that came between two ends; None: not known. Raises Unreachable."""
    if before is None or after is None:
        return None
    if before == after:
        return 0
    try:
        return live.count_records(_options(snapshot), before, after)
    except (Refused, Malformed):
        return None


def _options(snapshot: FlowSnapshot) -> dict[str, str]:
    return dict(snapshot.writes["options"])
