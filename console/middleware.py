"""What every request carries: an id that joins its audit entries, and headers that keep pages out of caches."""

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

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
