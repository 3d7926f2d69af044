"""Sign-in, sign-out and the colours a person wants. Good and refused sign-ins are audited."""

from django.contrib.auth import login, logout
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from console.forms.session import SignInForm
from console.middleware import Request
from console.pages import freshness
from recovery.audit.actions import record
from recovery.errors import Denied
from recovery.people.actions import actor_for_user
from recovery.people.roles import Actor, Stranger


def safe_next(request: Request, given: str | None) -> str:
    """A path of this console, else the inventory: a sign-in never leads elsewhere."""
    good = given and url_has_allowed_host_and_scheme(
        given, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return given if good and given else "/"


@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: Request) -> HttpResponse:
    """One form. What was typed as a name stays; a password never does."""
    back = safe_next(request, request.POST.get("next") or request.GET.get("next"))
    if request.method != "POST":
        return render(request, "sign_in.html", {"next": back})
    form = SignInForm(request.POST, request=request)
    with transaction.atomic():
        if form.is_valid() and form.user is not None:
            login(request, form.user)
            freshness.mark(request)
            actor = actor_for_user(form.user, via="page", request_id=request.request_id)
            _audit("session.sign_in", "done", actor, actor.name, f"{actor.name} signed in.")
            return redirect(back)
        name = str(request.POST.get("name", ""))[:150]
        sentence = " ".join(str(e) for e in form.non_field_errors()) or "Give your name and your password."
        who = Stranger(name=name or "(no name)", via="page", request_id=request.request_id)
        _audit("session.refused", "denied", who, name, f"Sign-in refused: {sentence}")
    return render(request, "sign_in.html", {"next": back, "name": name, "problem": sentence}, status=422)


@require_POST
def sign_out(request: Request) -> HttpResponse:
    """Ends the session; a GET never does, so that a link or an image cannot."""
    if request.user.is_authenticated:
        try:
            actor = actor_for_user(request.user, via="page", request_id=request.request_id)
            _audit("session.sign_out", "done", actor, actor.name, f"{actor.name} signed out.")
        except Denied:
            pass  # the account lost its role meanwhile: its session ends all the same
        logout(request)
    return redirect("sign-in")


@require_POST
def theme(request: Request) -> HttpResponse:
    """Light, dark, or as the system has it: a cookie of this browser."""
    response = redirect(safe_next(request, request.POST.get("next")))
    chosen = request.POST.get("theme", "")
    if chosen in ("light", "dark"):
        response.set_cookie("theme", chosen, max_age=31536000, samesite="Lax", secure=request.is_secure())
    else:
        response.delete_cookie("theme")
    return response


def _audit(action: str, outcome: str, by: Actor | Stranger, target: str, says: str) -> None:
    record(action=action, outcome=outcome, by=by, target_kind="person", target=target, says=says)
