"""One's own account: how one signs in, open sessions, access tokens. Commands act with their owner's rights."""

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect

from console.middleware import Request
from console.pages.base import page, show, tried
from console.signing import sessions
from console.signing.passkeys import possible
from recovery.errors import NotFound
from recovery.models import Token
from recovery.people import actions
from recovery.people.roles import Actor


@page(None, methods=("GET", "POST"))
def overview(request: Request, by: Actor) -> HttpResponse:
    """GET shows; POST makes a token, withdraws one (`revoke`), ends a session (`end`) or all others (`end_others`)."""
    owner = User.objects.get(username=by.name)
    refusal, made, name = None, [], request.POST.get("name", "").strip()
    if request.method == "POST" and "revoke" in request.POST:
        token = _own(owner, request.POST["revoke"])
        refusal = tried(lambda: actions.revoke_token(token=token, by=by))
        if refusal is None:
            return redirect("account")
    elif request.method == "POST" and {"end", "end_others"} & set(request.POST):
        sessions.end(request, owner, by, only=request.POST.get("end"))
        return redirect("account")
    elif request.method == "POST":
        days = int(d) if (d := request.POST.get("days", "")).isdigit() else None
        refusal = tried(lambda: made.append(actions.create_token(owner=owner, name=name, by=by, days=days)))
    context = {
        **_signing(request, owner),
        "sessions": sessions.rows(request, owner),
        "tokens": Token.objects.filter(user=owner).order_by("revoked_at", "-created_at"),
        "made": made[0] if made else "",
        "name": "" if made else name,
    }
    return show(request, "account.html", context, refusal=refusal, status=422 if refusal else None)


def _signing(request: Request, owner: User) -> dict[str, Any]:
    """How this person can prove that it is them."""
    found = list(Authenticator.objects.filter(user=owner).order_by("created_at"))
    codes = next((a for a in found if a.type == "recovery_codes"), None)
    return {
        "has_password": owner.has_usable_password(),
        "totp": next((a for a in found if a.type == "totp"), None),
        "keys": [(a, a.wrap().name) for a in found if a.type == "webauthn"],
        "codes_left": len(codes.wrap().get_unused_codes()) if codes else None,
        "company_accounts": SocialAccount.objects.filter(user=owner).count(),
        "passkeys": possible(request),
    }


def _own(owner: User, pk: str) -> Token:
    found = Token.objects.filter(user=owner, pk=int(pk)).first() if pk.isdigit() and len(pk) < 19 else None
    if found is None:
        raise NotFound("You have no such access token.")
    return found
