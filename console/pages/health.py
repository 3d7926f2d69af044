"""/healthz, /readyz, /metrics: for machines, answered before sessions, host names and redirects come into play.

A probe comes from inside (a container's own check, a kubelet that names a pod by its address), over plain
HTTP; SecurityMiddleware would send it to HTTPS and ALLOWED_HOSTS would refuse it. So these three are answered
by a middleware of their own. They show no person's data; /metrics, which names workspaces, asks who is there.
"""

import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Final

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST

from recovery.health import metrics, readiness

log = logging.getLogger(__name__)
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", ""})  # "": a Unix socket has no address
FORWARDED: Final = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_REAL_IP")


def answer_healthz(request: HttpRequest) -> HttpResponse:
    """The process answers: nothing else is asked, so a database that is away restarts no one."""
    return JsonResponse({"ok": True})


def answer_readyz(request: HttpRequest) -> HttpResponse:
    """Whether people may be sent here; 503 names what is missing."""
    report = readiness.readiness_report()
    return JsonResponse(report, status=200 if report["ready"] else 503)


def show_metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format, for who has the token."""
    if not may_read_metrics(request):
        return HttpResponse("Not for you: send the metrics token.\n", "text/plain", 403)
    try:
        return HttpResponse(metrics.metrics_text(), CONTENT_TYPE_LATEST)
    except (DatabaseError, InterfaceError):
        log.exception("The metrics could not be read")
        return HttpResponse("The database does not answer.\n", "text/plain", 503)


def may_read_metrics(request: HttpRequest) -> bool:
    """The bearer of REPRISE_METRICS_TOKEN. Without such a token: this machine alone, and no proxy on it.

    Served over HTTPS there is a proxy, whether it says so in a header or not, so there the token is a must.
    """
    if token := settings.REPRISE_METRICS_TOKEN:
        return hmac.compare_digest(
            request.headers.get("Authorization", "").encode(), f"Bearer {token}".encode()
        )
    direct = not any(name in request.META for name in FORWARDED)
    return not settings.REPRISE_SECURE and direct and request.META.get("REMOTE_ADDR", "") in LOOPBACK


ANSWERS: Final[Mapping[str, Callable[[HttpRequest], HttpResponse]]] = {
    "/healthz": answer_healthz,
    "/readyz": answer_readyz,
    "/metrics": show_metrics,
}


class HealthMiddleware:
    """Answers the three addresses, and hands everything else on."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = ANSWERS.get(request.path_info)
        if answer is None:
            return self.get_response(request)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(("GET", "HEAD"))
        return answer(request)
