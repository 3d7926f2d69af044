"""Refreshing what is below a flow, outside of any recovery: as the button on its page and `bin/manage refresh`."""

from console.api import fields
from console.api.base import Body
from recovery.people.roles import Actor
from recovery.pipelines.find import find_fresh
from recovery.workflow import refreshing


def request_refresh(body: Body, by: Actor) -> tuple[int, Body]:
    """{pipeline, flow}: have a worker start an update of what is stale or empty below the flow; without `flow` below
    the only one that has something late there."""
    fields.allow_only(body, ("pipeline", "flow"))
    pipeline = find_fresh(fields.read_text(body, "pipeline"), by)
    flow = refreshing.find_flow_above(pipeline, fields.read_text(body, "flow", "") or None)
    return 202, refreshing.described(flow, refreshing.request_refresh(flow_id=flow.pk, by=by))


def show_refresh(body: Body, by: Actor, ticket: str) -> tuple[int, Body]:
    """How far it is: `phase` asked, sent (whether it arrived is not known), started (`update_id`) or refused."""
    fields.allow_only(body, ())
    return 200, refreshing.described(*refreshing.asked_as(ticket, by))
