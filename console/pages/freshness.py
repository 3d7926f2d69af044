"""Who is it at this moment: a vote on production needs a sign-in of the last minutes, not one of this morning.

Every page asks `is_fresh`; how somebody proves it again is this module's alone.
"""

from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters

from console.forms.session import SignInForm
from console.middleware import Request
from console.pages.base import page
from recovery.audit.actions import record
from recovery.people.roles import Actor, Right

MINUTES: Final = 10
_KEY: Final = "proved_at"


def mark(request: Request) -> None:
    """This session's person has just proved who they are."""
    request.session[_KEY] = timezone.now().timestamp()


def proved_at(request: Request) -> datetime | None:
    """When they last did; None when this session does not say."""
    at = request.session.get(_KEY)
    return datetime.fromtimestamp(at, tz=timezone.get_default_timezone()) if isinstance(at, float) else None


def is_fresh(request: Request) -> bool:
    at = proved_at(request)
    return at is not None and timedelta(0) <= timezone.now() - at < timedelta(minutes=MINUTES)


def prove(back: str) -> HttpResponseRedirect:
    """To the page that asks again, and from there to `back`, a path of this console."""
    return HttpResponseRedirect(f"{reverse('reauthenticate')}?{urlencode({'next': back})}")


@sensitive_post_parameters("password")
@page(Right.VIEW, methods=("GET", "POST"))
def reauthenticate(request: Request, by: Actor) -> HttpResponse:
    """Ask for the password of who is signed in. Refused tries count like those of a sign-in."""
    from console.pages.session import safe_next

    back = safe_next(request, request.POST.get("next") or request.GET.get("next"))
    context = {
        "next": back,
        "minutes": MINUTES,
        "proved_at": proved_at(request),
        "pending": _pending(request, back),
    }
    if request.method != "POST":
        return render(request, "reauthenticate.html", context)
    form = SignInForm({"name": by.name, "password": request.POST.get("password", "")}, request=request)
    if form.is_valid():
        mark(request)
        record(action="session.confirm", outcome="done", by=by, target_kind="person", target=by.name,
               says=f"{by.name} confirmed who they are.")  # fmt: skip
        return redirect(back)
    says = " ".join(str(e) for e in form.non_field_errors()).replace("Name or password", "The password")
    record(action="session.refused", outcome="denied", by=by, target_kind="person", target=by.name,
           says=f"Confirmation refused: {says}")  # fmt: skip
    return render(request, "reauthenticate.html", {**context, "problem": says}, status=422)


def keep(request: Request, path: str, says: str, given: dict[str, str]) -> None:
    """What somebody was about to do at `path`, so that it stands there again when they come back."""
    request.session["pending"] = {"path": path, "says": says, "given": given}


def kept(request: Request, path: str) -> dict[str, str]:
    """What was kept for this path; once."""
    found = request.session.get("pending") or {}
    if found.get("path") != path:
        return {}
    del request.session["pending"]
    return dict(found["given"])


def _pending(request: Request, back: str) -> str:
    found = request.session.get("pending") or {}
    return str(found["says"]) if found.get("path") == back else ""
