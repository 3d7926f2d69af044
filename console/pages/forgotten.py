"""A link for a new password by mail. The same answer for every address: no one learns here who has an account."""

from typing import Final

from allauth.account.adapter import get_adapter
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from console.middleware import PageRequest
from recovery.errors import RepriseError
from recovery.people import limits, password_reset

TOO_MANY: Final = {
    "forgotten": "Too many links were asked for from this address. Wait a minute, then try again.",
    "forgotten-mail": "Three links were asked for with this mail address. Wait an hour, or ask an admin for one.",
}
NO_MAIL: Final = "This console sends no mail. Ask an admin for a new link."


@require_http_methods(["GET", "HEAD", "POST"])
def ask_for_reset(request: PageRequest) -> HttpResponse:
    """GET: one field; POST: have a worker look whose address it is."""
    if not password_reset.can_send_reset():
        raise Http404(NO_MAIL)
    if request.method != "POST":
        return render(request, "account/forgotten.html", {})
    email = request.POST.get("email", "").strip()[:254]
    place = get_adapter().get_client_ip(request)
    asked = {"forgotten": place, "forgotten-mail": email.lower()}
    if over := next((kind for kind, source in asked.items() if limits.is_over(kind, source)), ""):
        context = {"problem": TOO_MANY[over], "email": email}
        return render(request, "account/forgotten.html", context, status=429)
    for kind, source in asked.items():
        limits.count_try(kind, source)
    try:
        password_reset.request_reset(email=email, place=place)
    except RepriseError as problem:
        return render(
            request, "account/forgotten.html", {"problem": problem.sentence, "email": email}, status=503
        )
    return render(request, "account/forgotten.html", {"sent": True})
