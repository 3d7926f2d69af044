"""The datasets downstream of a flow, as the inventory knows them before a plan is made. Asks no workspace."""

import re
from collections.abc import Iterable, Mapping

from recovery.models import Flow
from recovery.pipelines import across
from recovery.pipelines.behind import behind_of
from recovery.pipelines.downstream import VIEWS, Node, Why
from recovery.strategies.readers import Reader

_SQL_VIEW = r"(?i)\bMATERIALIZED\s+VIEW\s+(IF\s+NOT\s+EXISTS\s+)?[`\w.]*\b{name}\b"


def readers_of(flow: Flow, files: Mapping[str, str]) -> tuple[Reader, ...]:
    """What reads the flow's table, straight or through others, in any pipeline of its workspace; in an order in which
    it can run. `files`: the pipeline's source as it will be, path -> text."""
    return tuple(_reader(row, node, flow, files.values()) for node, row in across.flows_below(flow))


def _reader(row: Flow, node: Node, flow: Flow, texts: Iterable[str]) -> Reader:
    behind = behind_of(row)
    return Reader(
        dataset=row.dataset,
        flow=row.name,
        view=row.flow_type in VIEWS,
        state=row.state,
        pipeline="" if row.pipeline_id == flow.pipeline_id else row.pipeline.name,
        emptied=behind is not None and behind.why is Why.EMPTIED,
        compared=not _defined_in_sql(row.dataset, texts),
        inputs=node.inputs,
    )


def _defined_in_sql(dataset: str, texts: Iterable[str]) -> bool:
    """Is the view defined by a statement, which nobody but an update can run yet?"""
    wanted = re.compile(_SQL_VIEW.format(name=re.escape(dataset.rsplit(".", 1)[-1])))
    return any(wanted.search(text) for text in texts)
