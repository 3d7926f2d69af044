"""What every request carries: an id that joins its audit entries, and headers that keep pages out of caches."""

import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from allauth.account.adapter import get_adapter
from allauth.usersessions.models import UserSession
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from recovery.people.roles import Actor

GIVEN = re.compile(r"[A-Za-z0-9._-]{8,64}")


class Request(HttpRequest):
    """A request as the pages see it. `actor` is set by `console.pages.base.page`."""

    request_id: str
    actor: Actor | None


class RequestIdMiddleware:
    """Takes `X-Request-ID` from a proxy in front, else makes one; answers with it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: Request) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        request.request_id = given if GIVEN.fullmatch(given) else f"req-{uuid.uuid4().hex[:12]}"
        request.actor = None
        response = self.get_response(request)
        response["X-Request-ID"] = request.request_id
        if not response.has_header("Cache-Control"):
            # A page shows what one person may see at one moment: neither proxy nor back button keeps it.
            response["Cache-Control"] = "no-store"
        return response


HEADERS: Final = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), "
    "publickey-credentials-get=(self), publickey-credentials-create=(self)",
    "X-Permitted-Cross-Domain-Policies": "none",
}


class HeadersMiddleware:
    """Headers on every answer, static files and faults too, that Django has no setting for."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        for name, value in HEADERS.items():
            response.setdefault(name, value)
        return response


class LastSeenMiddleware:
    """Keeps in the list of a person's sessions when and from where each was last used, once a minute at most."""

    STEP: Final = timedelta(minutes=1)

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: Request) -> HttpResponse:
        if request.user.is_authenticated and request.session.session_key:
            self._note(request)
        return self.get_response(request)

    def _note(self, request: Request) -> None:
        found = UserSession.objects.filter(session_key=request.session.session_key).first()
        if found is None:
            UserSession.objects.create_from_request(request)
            return
        ip = get_adapter().get_client_ip(request)
        if timezone.now() - found.last_seen_at > self.STEP or found.ip != ip:
            UserSession.objects.filter(pk=found.pk).update(last_seen_at=timezone.now(), ip=ip)
