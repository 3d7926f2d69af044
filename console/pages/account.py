"""One's own account: how one signs in, open sessions, access tokens. Commands act with their owner's rights."""

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect

from console.forms import token
from console.middleware import PageRequest
from console.pages import freshness
from console.pages.base import page, refusal_of, render_page
from console.signing import sessions
from console.signing.passkeys import can_use_passkeys
from recovery.errors import NotFound
from recovery.models import Token
from recovery.numbers import whole
from recovery.people import actions
from recovery.people.roles import Actor


@page(None, methods=("GET", "POST"))
def show_account(request: PageRequest, by: Actor) -> HttpResponse:
    """GET shows; POST makes a token (after a fresh sign-in), withdraws one (`revoke`), ends a session (`end`) or all
    others (`end_others`)."""
    owner = User.objects.get(username=by.name)
    refusal, made, typed = None, [], _typed_token_form(request)
    if request.method == "POST" and "revoke" in request.POST:
        own_token = _own_token(owner, request.POST["revoke"])
        refusal = refusal_of(lambda: actions.revoke_token(token=own_token, by=by))
        if refusal is None:
            return redirect("account")
    elif request.method == "POST" and {"end", "end_others"} & set(request.POST):
        sessions.end_sessions(request, owner, by, only=request.POST.get("end"))
        return redirect("account")
    elif request.method == "POST":
        if asked := freshness.unless_fresh(request):
            freshness.keep_form(request, request.path, f"make access token {typed['name']}", typed)
            return asked
        refusal = refusal_of(
            lambda: made.append(
                actions.create_token(
                    owner=owner, name=typed["name"], by=by, days=token.read_days(request.POST)
                )
            )
        )
    context = {
        **_proofs_of(request, owner),
        "sessions": sessions.session_rows(request, owner),
        "tokens": Token.objects.filter(user=owner).order_by("revoked_at", "-created_at"),
        "made": made[0] if made else "",
        "name": "" if made else typed["name"],
        "days": token.USUAL if made else typed["days"],
        "choices": token.CHOICES,
    }
    return render_page(request, "account.html", context, refusal=refusal, status=422 if refusal else None)


def _typed_token_form(request: PageRequest) -> dict[str, str]:
    """What is in the form of a token: as it was sent, or as it was when a fresh sign-in was asked for."""
    given = request.POST if request.method == "POST" else freshness.take_kept_form(request, request.path)
    return {"name": given.get("name", "").strip(), "days": given.get("days", token.USUAL)}


def _proofs_of(request: PageRequest, owner: User) -> dict[str, Any]:
    """How this person can prove that it is them."""
    factors = list(Authenticator.objects.filter(user=owner).order_by("created_at"))
    codes = next((a for a in factors if a.type == "recovery_codes"), None)
    return {
        "has_password": owner.has_usable_password(),
        "totp": next((a for a in factors if a.type == "totp"), None),
        "keys": [(a, a.wrap().name) for a in factors if a.type == "webauthn"],
        "codes_left": len(codes.wrap().get_unused_codes()) if codes else None,
        "company_accounts": SocialAccount.objects.filter(user=owner).count(),
        "passkeys": can_use_passkeys(request),
    }


def _own_token(owner: User, pk: str) -> Token:
    number = whole(pk)
    token = Token.objects.filter(user=owner, pk=number).first() if number is not None else None
    if token is None:
        raise NotFound("You have no such access token.")
    return token
