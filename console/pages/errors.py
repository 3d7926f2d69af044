"""Error pages in the design: what happened, what was not changed, what to do next."""

import sys
from typing import Final

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import loader

TOO_BIG: Final = (
    "What was sent is larger than 2 MB, so it was not read. Send less: of a log, its end is enough."
)
AGAIN_SECONDS: Final = "5"  # a database that was started again is back by then


def show_wrong_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Needs nothing but the template: the request may be what no page can be made of."""
    sentence, code, status = "The request cannot be taken as it was sent.", "wrong-request", 400
    if isinstance(exception, BadRequest):
        sentence, code = str(exception), "bad-text"
    elif isinstance(exception, RequestDataTooBig):
        sentence, code, status = TOO_BIG, "too-big", 413
    given = {"sentence": sentence, "code": code, "request_id": getattr(request, "request_id", "")}
    return HttpResponse(loader.get_template("400.html").render(given), status=status)


def show_denied(request: HttpRequest, exception: PermissionDenied) -> HttpResponse:
    sentence = str(exception) or "Your role does not allow this."
    code = getattr(exception.__cause__, "code", "denied")
    return render(request, "403.html", {"sentence": sentence, "code": code}, status=403)


def show_missing(request: HttpRequest, exception: Http404) -> HttpResponse:
    words = exception.args[0] if exception.args and isinstance(exception.args[0], str) else ""
    sentence = words if words and "tried" not in words else "There is no page at this address."
    return render(request, "404.html", {"sentence": sentence}, status=404)


def show_fault(request: HttpRequest) -> HttpResponse:
    """Needs nothing but the template: the database may be what is away. That passes, so it is 503, not 500."""
    away = isinstance(sys.exc_info()[1], (OperationalError, InterfaceError))
    given = {"request_id": getattr(request, "request_id", ""), "away": away}
    answer = HttpResponse(loader.get_template("500.html").render(given), status=503 if away else 500)
    if away:
        answer["Retry-After"] = AGAIN_SECONDS
    return answer


def show_stale_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form whose page was older than the sign-in."""
    sentence = "This form is older than your sign-in, so it was not sent. Go back, reload the page, and send it again."
    return render(request, "403.html", {"sentence": sentence, "code": "stale-form"}, status=403)
