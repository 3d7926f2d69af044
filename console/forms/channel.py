"""What the form of a notification channel sends; the rules are the action's own."""

from typing import Any

from django.http import QueryDict

from recovery.models import Channel
from recovery.notify.channels import ENVIRONMENTS, is_url
from recovery.notify.events import SUBSCRIBED


def read_channel(post: QueryDict) -> dict[str, Any]:
    """Arguments of `create_channel` and `change_channel`, and what the form shows again after a refusal."""
    return {
        **{name: str(post.get(name, "")).strip() for name in ("name", "kind", "address", "secret_ref")},
        "environments": post.getlist("environments"),
        "events": post.getlist("events"),
    }


def channel_values(channel: Channel | None) -> dict[str, Any]:
    """The form's values of a channel; of a new one: everything that happens, everywhere."""
    if channel is None:
        return {"kind": "mail", "environments": list(ENVIRONMENTS), "events": list(SUBSCRIBED)}
    fields = ("name", "kind", "address", "secret_ref", "environments", "events")
    given = {name: getattr(channel, name) for name in fields}
    return {**given, "address": ""} if is_url(channel) else given
