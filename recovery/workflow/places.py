"""Where a flow's checkpoint and a table's files lie, from what the Pipelines API says."""

import os
from collections.abc import Mapping

from recovery import reach
from recovery.checkpoints import access
from recovery.errors import Refused
from recovery.models import Flow, Pipeline, Stream


def checkpoint_of(flow: Flow, storage: str | None = None) -> str:
    """`<storage>/_checkpoints/<catalog>/<schema>/<table>/<flow>`, the folder that holds its versions.

    Source: SDP's FlowSystemMetadata (Spark 4.1+). Raises Refused where the storage is not reachable
    by us (a workspace that manages it itself names none).
    """
    if flow.pipeline.workspace.has_streams:
        return _of_stream(flow)
    told = storage or flow.pipeline.spec.get("storage") or ""
    root = told.rstrip("/") if isinstance(told, str) else ""
    if not root:
        raise Refused(
            f"Pipeline {flow.pipeline.name} names no storage root: its workspace keeps the checkpoints where "
            f"Reprise cannot reach them. bin/manage diagnose {flow.pipeline.name} lists what its API can do.",
            code="no_storage",
        )
    if not flow.dataset:
        raise Refused(f"No update has named the table of {flow.name} yet. Run one update, then try again.")
    place = f"{root}/_checkpoints/{flow.dataset.replace('.', '/')}/{flow.short}"
    access.check_roots(place, flow.pipeline.workspace.roots)
    return place


def _of_stream(flow: Flow) -> str:
    """A plain stream has one place, which was named when it was adopted."""
    place = Stream.objects.get(pipeline=flow.pipeline_id).checkpoint
    access.check_roots(place, flow.pipeline.workspace.roots)
    refuse_foreign_place(flow.pipeline, place)
    return place


def sink_of_stream(flow: Flow) -> str:
    """Where a plain stream writes, as it was named or seen; "" for a table that a catalog knows. Raises Refused."""
    sink = Stream.objects.get(pipeline=flow.pipeline_id).sink
    if "/" not in sink:
        return ""
    refuse_foreign_place(flow.pipeline, sink)
    return sink


def refuse_foreign_place(pipeline: Pipeline, place: str) -> None:
    """Raise Refused (`place_moved`) where a link on the way to a place of an adopted stream leads to the checkpoint of
    another stream, or to what a pipeline of another environment has: it was put there after the adoption."""
    real = reach.follow_links(place)
    if access.scheme_of(place) or real == os.path.normpath(place):
        return
    others = Stream.objects.exclude(pipeline=pipeline.pk).filter(
        pipeline__gone=False, pipeline__workspace__removed_at=None
    )
    elsewhere = Pipeline.objects.exclude(environment=pipeline.environment).filter(workspace__removed_at=None)
    owned = {
        *others.values_list("checkpoint", flat=True),
        *others.exclude(pipeline__environment=pipeline.environment).values_list("sink", flat=True),
        *(str(spec.get("storage") or "") for spec in elsewhere.values_list("spec", flat=True)),
    }
    if any("/" in one and access.is_below(real, one) for one in owned):
        raise Refused(
            f"{place} leads to {real} now, which belongs to another stream or pipeline. Put the folder back, or adopt "
            "the stream again where it is.",
            code="place_moved",
        )


def storage_of(flow: Flow, spec: Mapping[str, object]) -> str:
    """Where rehearsals for a flow may lie, which Spark and Reprise both reach: the pipeline's storage root, or a folder
    of our own for a plain stream, which has none. "": nowhere."""
    if flow.pipeline.workspace.has_streams:
        return f"file:{reach.streams_folder() / flow.pipeline.pipeline_id}"
    told = spec.get("storage") or ""
    return told.rstrip("/") if isinstance(told, str) else ""
