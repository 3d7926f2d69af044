"""Is a session proven to be its owner's own, just now? Asked before what must not be done at a left screen."""

import time
from urllib.parse import urlencode

from allauth.account.internal.flows.login import get_authentication_records
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse


def is_fresh(request: HttpRequest) -> bool:
    """Did this person sign in, or confirm that it is them, within the last 10 minutes, in this session?"""
    age = seconds_ago(request)
    return age is not None and age < settings.ACCOUNT_REAUTHENTICATION_TIMEOUT


def seconds_ago(request: HttpRequest) -> float | None:
    """How long ago they last did; None when this session has no record of it."""
    if not request.user.is_authenticated:
        return None
    records = get_authentication_records(request, request.user)
    return max(0.0, time.time() - float(records[-1]["at"])) if records else None


def to_reauthenticate(request: HttpRequest, back: str = "") -> HttpResponse:
    """To the page that asks, and back to `back` (this page, when it is not said)."""
    return redirect(f"{reverse('reauthenticate')}?{urlencode({'next': back or request.get_full_path()})}")


def unless_fresh(request: HttpRequest, back: str = "") -> HttpResponse | None:
    """The way to the page that asks, for what a fresh sign-in is needed for; None when it is fresh.

    What was typed is typed again afterwards: nothing of a form is kept while it is unproven.
    """
    return None if is_fresh(request) else to_reauthenticate(request, back)
