"""What every request carries: an id that joins its audit entries, and headers that keep pages out of caches."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from allauth.account.adapter import get_adapter
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from console import texts
from recovery import trace
from recovery.audit.origin import ActOrigin, acting_from, client_address
from recovery.names import shown
from recovery.people.roles import Actor

log = logging.getLogger(__name__)
SLOW_SECONDS = 2.0


class PageRequest(HttpRequest):
    """A request as the pages see it. `actor` is set by `console.pages.base.page`."""

    request_id: str
    actor: Actor | None


def _session_key(request: HttpRequest) -> str | None:
    session = getattr(request, "session", None)
    return session.session_key if session is not None else None


class RequestIdMiddleware:
    """Takes `X-Request-ID` from a proxy in front, else makes one, and answers with it. Says where acts come from."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: PageRequest) -> HttpResponse:
        request.request_id = trace.accepted(request.headers.get(trace.HEADER, ""), "req")
        request.actor = None
        address = client_address(request.META, settings.REPRISE_TRUSTED_PROXIES)
        source = ActOrigin(address=address, session_key=lambda: _session_key(request))
        with trace.bound(request.request_id), acting_from(source):
            began = time.monotonic()
            response = self.get_response(request)
            log_request(request, response.status_code, time.monotonic() - began)
        response[trace.HEADER] = request.request_id
        if not response.has_header("Cache-Control"):
            # A page shows what one person may see at one moment: neither proxy nor back button keeps it.
            response["Cache-Control"] = "no-store"
        return response


def log_request(request: PageRequest, status: int, seconds: float) -> None:
    """One line for what changes something, failed or was slow; looking is not recorded, pages ask every few seconds."""
    if request.method in ("GET", "HEAD") and status < 400 and seconds < SLOW_SECONDS:
        return
    who = request.actor.name if request.actor else ""
    said = {
        "method": request.method,
        "path": shown(request.path),
        "status": status,
        "seconds": round(seconds, 3),
        "who": who,
    }
    log.info("%(method)s %(path)s %(status)s", said, extra=said)


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


class TextMiddleware:
    """Refuses an address and a form that hold what no text may hold, once for every page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        if getattr(view, "csrf_exempt", False):
            return  # the API: its body is JSON, and it looks itself
        sent = [request.path, *(dict(query.lists()) for query in (request.GET, request.POST))]
        if wrong := texts.text_problem(sent):
            raise BadRequest(wrong)


class LastSeenMiddleware:
    """Keeps when and from where each session was last used, once a minute at most, and ends those that are over: unused
    for `REPRISE_IDLE_MINUTES`, or older than a session lives. Pages that poll are not used by anybody."""

    STEP: Final = timedelta(minutes=1)

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: PageRequest) -> HttpResponse:
        if request.user.is_authenticated and request.session.session_key:
            self._note_use(request)
        return self.get_response(request)

    def _note_use(self, request: PageRequest) -> None:
        session = UserSession.objects.filter(session_key=request.session.session_key).first()
        if session is None:
            UserSession.objects.create_from_request(request)
            return
        if why := why_session_ended(session):
            self._end_session(request, why)
            return
        ip = get_adapter().get_client_ip(request)
        used = "HX-Request" not in request.headers and timezone.now() - session.last_seen_at > self.STEP
        if used or session.ip != ip:
            at = timezone.now() if used else session.last_seen_at
            UserSession.objects.filter(pk=session.pk).update(last_seen_at=at, ip=ip)

    def _end_session(self, request: PageRequest, why: str) -> None:
        """From here on the request is no one's, and is led to the sign-in."""
        from console.signing import trail  # it knows this module's Request

        user = request.user
        assert isinstance(user, User)
        trail.record_own_act(
            request, user, "session.end", f"The session of {user.get_username()} ended: {why}."
        )
        logout(request)


def why_session_ended(session: UserSession) -> str:
    """Why a session has ended; "" for one that is good."""
    now = timezone.now()
    if now - session.last_seen_at > timedelta(minutes=settings.REPRISE_IDLE_MINUTES):
        return f"it was not used for {settings.REPRISE_IDLE_MINUTES} min"
    if now - session.created_at > timedelta(seconds=settings.SESSION_COOKIE_AGE):
        return f"it was {settings.SESSION_COOKIE_AGE // 3600} h old"
    return ""
