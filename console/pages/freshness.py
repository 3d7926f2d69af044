"""Is a session proven to be its owner's own, just now? Asked before what must not be done at a left screen.

Every page asks `is_fresh`; what proves it is a sign-in or the page `/reauthenticate`, both noted by django-allauth.
"""

import time
from datetime import UTC, datetime
from urllib.parse import urlencode

from allauth.account.internal.flows.login import get_authentication_records
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

AUTH_TIME = "company_auth_time"
"""In the session: when the company's provider last asked the person, where it said so."""


def proof_minutes() -> int:
    """For how long a proof is good."""
    return int(settings.ACCOUNT_REAUTHENTICATION_TIMEOUT // 60)


def is_fresh(request: HttpRequest) -> bool:
    """Did this person sign in, or confirm that it is them, within the last 10 minutes, in this session?"""
    at = proved_at(request)
    return at is not None and 0 <= time.time() - at.timestamp() < settings.ACCOUNT_REAUTHENTICATION_TIMEOUT


def proved_at(request: HttpRequest) -> datetime | None:
    """When they last did; None when this session has no record of it."""
    if not request.user.is_authenticated:
        return None
    records = get_authentication_records(request, request.user)
    if not records:
        return None
    at, asked = float(records[-1]["at"]), request.session.get(AUTH_TIME)
    if records[-1]["method"] == "socialaccount" and asked is not None:
        at = min(at, float(asked))
    return datetime.fromtimestamp(at, UTC)


def redirect_to_prove(back: str) -> HttpResponse:
    """To the page that asks, and from there to `back`, a path of this console."""
    return redirect(f"{reverse('reauthenticate')}?{urlencode({'next': back})}")


def unless_fresh(request: HttpRequest, back: str = "") -> HttpResponse | None:
    """The way to the page that asks and back to `back` (this page, when it is not said); None when it is fresh.

    What was typed is typed again afterwards: nothing of a form is kept while it is unproven, unless a page says
    what (`keep`).
    """
    return None if is_fresh(request) else redirect_to_prove(back or request.get_full_path())


def keep_form(request: HttpRequest, path: str, says: str, given: dict[str, str]) -> None:
    """What someone was about to do at `path`, so that it is there again when they come back. Never a secret."""
    request.session["pending"] = {"path": path, "says": says, "given": given}


def take_kept_form(request: HttpRequest, path: str) -> dict[str, str]:
    """What was kept for this path; once."""
    kept = request.session.get("pending") or {}
    if kept.get("path") != path:
        return {}
    del request.session["pending"]
    return dict(kept["given"])


def describe_pending(request: HttpRequest, back: str) -> str:
    """What was about to be done at `back`, in words; empty when nothing was kept."""
    kept = request.session.get("pending") or {}
    return str(kept["says"]) if kept.get("path") == back else ""
