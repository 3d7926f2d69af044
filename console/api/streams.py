"""Adopted streams by API: as the page and `bin/manage adopt`."""

from console.api import fields
from console.api.base import Body
from recovery.models import Stream
from recovery.people.roles import Actor
from recovery.people.visible import filter_visible
from recovery.streams.actions import StreamDetails, adopt_stream
from recovery.streams.describing import preview_json, stream_json
from recovery.streams.preview import preview_stream

TEXTS = (
    *("name", "sink", "event_log", "program", "spark_python", "runner", "start", "stop", "running"),
    *("environment", "workspace", "owner"),
)


NAMED = ("sink", "event_log", "workspace")
"""What is read together with a checkpoint before it is adopted."""


def list_streams(body: Body, by: Actor) -> tuple[int, Body]:
    """`{streams: [...]}` of the environments that the token's owner sees, by name."""
    fields.allow_only(body, ())
    rows = Stream.objects.filter(filter_visible(by, "pipeline__"), pipeline__gone=False)
    streams = rows.select_related("pipeline").order_by("pipeline__name", "pk")
    return 200, {"streams": [stream_json(stream) for stream in streams]}


def add_stream(body: Body, by: Actor) -> tuple[int, Body]:
    """{checkpoint, and what is said of it}: 201. Of a checkpoint that is on the list: what is sent changes, the rest
    stays."""
    fields.allow_only(body, ("checkpoint", "arguments", *TEXTS))
    texts = {name: fields.read_text(body, name, "") for name in TEXTS if name in body}
    arguments = tuple(fields.read_texts(body, "arguments")) if "arguments" in body else None
    said = StreamDetails(**texts, arguments=arguments)
    stream = adopt_stream(checkpoint=fields.read_text(body, "checkpoint"), said=said, by=by)
    return 201, stream_json(stream)


def show_preview(body: Body, by: Actor) -> tuple[int, Body]:
    """{checkpoint, and sink, event_log, workspace}: what it shows, and `needs`: what helps next, in the order of use,
    each `{need, answered: found | said | missing | unreadable, problem}`. Changes nothing."""
    fields.allow_only(body, ("checkpoint", *NAMED))
    sink, event_log, workspace = (
        fields.read_text(body, name, "") if name in body else None for name in NAMED
    )
    said = StreamDetails(sink=sink, event_log=event_log, workspace=workspace)
    checkpoint = fields.read_text(body, "checkpoint")
    return 200, preview_json(preview_stream(checkpoint=checkpoint, said=said, by=by))
