"""Adopted streams by API: as the page and `bin/manage adopt`."""

from console.api import fields
from console.api.base import Body
from recovery.models import Stream
from recovery.people.roles import Actor
from recovery.people.visible import filter_visible
from recovery.streams.actions import Said, adopt_stream
from recovery.streams.describing import stream_json

TEXTS = (
    *("name", "sink", "event_log", "program", "spark_python", "runner", "start", "stop", "running"),
    *("environment", "workspace", "owner"),
)


def list_streams(body: Body, by: Actor) -> tuple[int, Body]:
    """`{streams: [...]}` of the environments that the token's owner sees, by name."""
    fields.allow_only(body, ())
    rows = Stream.objects.filter(filter_visible(by, "pipeline__"), pipeline__gone=False)
    found = rows.select_related("pipeline").order_by("pipeline__name", "pk")
    return 200, {"streams": [stream_json(stream) for stream in found]}


def add_stream(body: Body, by: Actor) -> tuple[int, Body]:
    """{checkpoint, and what is said of it}: 201. Of a checkpoint that is on the list: what is sent changes, the rest
    stays."""
    fields.allow_only(body, ("checkpoint", "arguments", *TEXTS))
    texts = {name: fields.read_text(body, name, "") for name in TEXTS if name in body}
    arguments = tuple(fields.read_texts(body, "arguments")) if "arguments" in body else None
    said = Said(**texts, arguments=arguments)
    stream = adopt_stream(checkpoint=fields.read_text(body, "checkpoint"), said=said, by=by)
    return 201, stream_json(stream)
