"""Values that every page's shell needs: who, counts in the rail, how fresh the inventory is."""

from functools import cache
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from recovery.approvals.selectors import open_requests
from recovery.health.queues import late_queues
from recovery.models import Recovery, Workspace
from recovery.notify.selectors import failing_channels
from recovery.people.roles import Actor, Right
from recovery.people.visible import filter_visible
from recovery.pipelines.lists import count_attention

STALE_SECONDS: Final = 60
"""Older than this, the list may not call itself live."""


def shell_context(request: HttpRequest) -> dict[str, Any]:
    """Nothing is counted for people who have not signed in."""
    theme = request.COOKIES.get("theme", "")
    base: dict[str, Any] = {
        "now": timezone.now(),
        "theme": theme if theme in ("light", "dark") else "",
        "debug": settings.DEBUG,
    }
    actor: Actor | None = getattr(request, "actor", None)
    if actor is None:
        return base
    return {
        **base,
        "actor": actor,
        "may": {right.name: actor.may(right) for right in Right},
        "attention": cache(lambda: count_attention(actor, base["now"])),  # where a template asks, once
        "open_approvals": open_requests(base["now"], actor).count(),
        "open_recoveries": Recovery.objects.filter(
            filter_visible(actor, "flow__pipeline__"), active=True
        ).count(),
        **inventory_freshness(),
        "queues_late": late_queues(base["now"]) if actor.may(Right.MANAGE) else [],
        "channels_failing": list(failing_channels().order_by("failing_since"))
        if actor.may(Right.MANAGE)
        else [],
    }


def inventory_freshness() -> dict[str, Any]:
    """How old the inventory is: `polled_at` of the workspace that was polled longest ago, whether that is too long ago
    (`stale`), and which workspaces could not be asked."""
    rows = Workspace.objects.active().order_by("name").only("name", "polled_at", "poll_error")
    workspaces = list(rows)
    polled_at = min((w.polled_at for w in workspaces if w.polled_at), default=None)
    return {
        "polled_at": polled_at,
        "stale": polled_at is not None and (timezone.now() - polled_at).total_seconds() > STALE_SECONDS,
        "unreachable": [w for w in workspaces if w.poll_error],
    }
