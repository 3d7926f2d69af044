"""Values that every page's shell needs: who, counts in the rail, how fresh the inventory is."""

from typing import Any, Final

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from recovery.approvals.selectors import waiting
from recovery.models import Flow, Recovery, Workspace
from recovery.notify.selectors import failing
from recovery.people.roles import Actor, Right
from recovery.people.visible import where
from recovery.pipelines.alone import failing_alone
from recovery.pipelines.behind import NOT_OK
from recovery.pipelines.retention import at_risk

STALE_SECONDS: Final = 60
"""Older than this, the list may not call itself live."""


def shell(request: HttpRequest) -> dict[str, Any]:
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
    seen = Flow.objects.filter(where(actor, "pipeline__"), pipeline__gone=False)
    broken = Q(state__in=NOT_OK)
    workspaces = list(Workspace.objects.active().order_by("name"))
    polled_at = min((w.polled_at for w in workspaces if w.polled_at), default=None)
    return {
        **base,
        "actor": actor,
        "may": {right.name: actor.may(right) for right in Right},
        "attention": seen.filter(broken).count()
        + at_risk(seen.exclude(broken), base["now"])
        + failing_alone(actor),
        "open_approvals": waiting(base["now"], actor).count(),
        "open_recoveries": Recovery.objects.filter(where(actor, "flow__pipeline__"), active=True).count(),
        "polled_at": polled_at,
        "stale": polled_at is not None and (base["now"] - polled_at).total_seconds() > STALE_SECONDS,
        "unreachable": [w for w in workspaces if w.poll_error],
        "channels_failing": list(failing().order_by("failing_since")) if actor.may(Right.MANAGE) else [],
    }
