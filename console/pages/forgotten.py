"""A link for a new password by mail. The same answer for every address: nobody learns here who has an account."""

from typing import Final

from allauth.account.adapter import get_adapter
from allauth.core import ratelimit
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from console.middleware import Request
from console.pages.session import TOO_MANY
from recovery.errors import RepriseError
from recovery.people import forgotten

NO_MAIL: Final = "This console sends no mail. Ask an admin for a new link."


@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: Request) -> HttpResponse:
    """GET: one field; POST: have a worker look whose address it is."""
    if not forgotten.possible():
        raise Http404(NO_MAIL)
    if request.method != "POST":
        return render(request, "account/forgotten.html", {})
    email = request.POST.get("email", "").strip()[:254]
    if not ratelimit.consume(request, action="reset_password", key=email.lower()):
        return render(request, "account/forgotten.html", {"problem": TOO_MANY, "email": email}, status=429)
    try:
        forgotten.ask(email=email, place=get_adapter().get_client_ip(request))
    except RepriseError as problem:
        return render(
            request, "account/forgotten.html", {"problem": problem.sentence, "email": email}, status=503
        )
    return render(request, "account/forgotten.html", {"sent": True})
