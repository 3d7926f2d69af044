"""Discovery for the official SDK, who am I, and the server's health."""

from django.http import HttpRequest, HttpResponse, JsonResponse

from recovery.server.instance import current_instance
from recovery.server.models import ACTIVE_STATES, Update

WORKSPACE_ID = "1"  # a server has one workspace


def discover_host(request: HttpRequest) -> HttpResponse:
    """GET /.well-known/databricks-config, public: clients ask it before they have shown a token."""
    return JsonResponse({"oidc_endpoint": f"http://{request.META.get('HTTP_HOST', 'localhost')}/oidc"})


def show_token_owner(request: HttpRequest) -> HttpResponse:
    """GET /preview/scim/v2/Me: the owner of the token. The header is where clients learn a workspace's number from."""
    user: str = request.user_name  # type: ignore[attr-defined]
    owner = {"id": user, "userName": user, "active": True}
    return JsonResponse(owner, headers={"X-Databricks-Org-Id": WORKSPACE_ID})


def show_health(request: HttpRequest) -> HttpResponse:
    """GET /x-reprise/health: whether Spark lives, how many updates are active, what holds pipelines' code."""
    driver, proof = current_instance().driver, current_instance().proof
    alive = driver is not None and driver.alive()
    return JsonResponse(
        {
            "spark": "ok" if alive else "dead",
            "active_updates": Update.objects.filter(state__in=ACTIVE_STATES).count(),
            "spark_pid": driver.gateway.pid if driver else None,
            "confinement": proof.as_public() if proof else None,
            "environments": list(current_instance().environments),
        }
    )
