"""One's own access tokens: made here, shown once, withdrawn here. Commands act with their owner's rights."""

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect

from console.middleware import Request
from console.pages.base import page, show, tried
from recovery.errors import NotFound
from recovery.models import Token
from recovery.people import actions
from recovery.people.roles import Actor, Right


@page(Right.VIEW, methods=("GET", "POST"))
def tokens(request: Request, by: Actor) -> HttpResponse:
    """GET lists; POST makes one, or with `revoke` withdraws one."""
    owner = User.objects.get(username=by.name)
    refusal, made, name = None, [], request.POST.get("name", "").strip()
    if request.method == "POST" and "revoke" in request.POST:
        token = _own(owner, request.POST["revoke"])
        refusal = tried(lambda: actions.revoke_token(token=token, by=by))
        if refusal is None:
            return redirect("account")
    elif request.method == "POST":
        days = int(d) if (d := request.POST.get("days", "")).isdigit() else None
        refusal = tried(lambda: made.append(actions.create_token(owner=owner, name=name, by=by, days=days)))
    found = Token.objects.filter(user=owner).order_by("revoked_at", "-created_at")
    context = {"tokens": found, "made": made[0] if made else "", "name": "" if made else name}
    return show(request, "account.html", context, refusal=refusal, status=422 if refusal else None)


def _own(owner: User, pk: str) -> Token:
    found = Token.objects.filter(user=owner, pk=int(pk)).first() if pk.isdigit() and len(pk) < 19 else None
    if found is None:
        raise NotFound("You have no such access token.")
    return found
