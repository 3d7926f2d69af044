"""What every request carries: an id that joins its audit entries, and headers that keep pages out of caches."""

import re
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from recovery.audit.origin import Origin, acting_from, client_address, new_id
from recovery.people.roles import Actor

GIVEN = re.compile(r"[A-Za-z0-9._-]{8,64}")


class Request(HttpRequest):
    """A request as the pages see it. `actor` is set by `console.pages.base.page`."""

    request_id: str
    actor: Actor | None


def _session_key(request: HttpRequest) -> str | None:
    session = getattr(request, "session", None)
    return session.session_key if session is not None else None


class RequestIdMiddleware:
    """Takes `X-Request-ID` from a proxy in front, else makes one; answers with it. Says where acts come from."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: Request) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        request.request_id = given if GIVEN.fullmatch(given) else new_id("req")
        request.actor = None
        address = client_address(request.META, settings.REPRISE_TRUSTED_PROXIES)
        with acting_from(
            Origin(request.request_id, address=address, session_key=lambda: _session_key(request))
        ):
            response = self.get_response(request)
        response["X-Request-ID"] = request.request_id
        if not response.has_header("Cache-Control"):
            # A page shows what one person may see at one moment: neither proxy nor back button keeps it.
            response["Cache-Control"] = "no-store"
        return response
