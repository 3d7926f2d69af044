"""Confirm that it is you: asked before a vote on production, a change of people or of second factors."""

from typing import Any

from allauth.account.internal.flows.reauthentication import reauthenticate_by_password
from allauth.mfa.base.forms import ReauthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import ReauthenticateWebAuthnForm
from allauth.mfa.webauthn.internal import auth as passkeys
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters

from console.middleware import PageRequest
from console.pages.base import page
from console.pages.freshness import describe_pending, proof_minutes, proved_at
from console.pages.session import safe_next
from console.signing import trail
from console.signing.passkeys import can_use_passkeys, is_good_credential
from console.signing.problems import OLD_PROOF, SignInProblem
from recovery.people import limits
from recovery.people.roles import Actor

TOO_MANY = SignInProblem(
    "too-many-to-confirm", "Too many tries to confirm it were refused. Wait a minute, then try again."
)
WRONG = SignInProblem("wrong-proof", "Password or code is wrong. Nothing was done.")
WRONG_PASSKEY = SignInProblem("not-your-passkey", "This passkey is not one of yours. Nothing was done.")


@sensitive_post_parameters("password", "code")
@page(None, methods=("GET", "POST"))
def reauthenticate(request: PageRequest, by: Actor) -> HttpResponse:
    """By passkey, or by password and, where one was set up, code. Leads back to what was wanted."""
    user = request.user
    problem = OLD_PROOF if request.session.pop("unproven", False) else None
    assert isinstance(user, User)
    back = safe_next(request, request.POST.get("next") or request.GET.get("next"))
    kinds = set(Authenticator.objects.filter(user=user).values_list("type", flat=True))
    if request.method == "POST":
        problem = (
            TOO_MANY if limits.is_over("confirmation", str(user.pk)) else _confirm_user(request, user, kinds)
        )
        if not problem:
            trail.record_own_act(
                request,
                user,
                "session.confirm",
                f"{by.name} confirmed the session with {_last_factor(request)}.",
            )
            return redirect(back)
        trail.record_refused_try(request, by.name, f"Not confirmed: {problem}", action="session.confirm")
        limits.count_try("confirmation", str(user.pk))
    context: dict[str, Any] = {
        "next": back, "problem": problem, "by": by, "proved_at": proved_at(request), "limit": proof_minutes(),
        "pending": describe_pending(request, back),
        "password": user.has_usable_password(), "codes": "totp" in kinds,
        "options": passkeys.begin_authentication(user) if "webauthn" in kinds and can_use_passkeys(request) else None,
        "company": settings.REPRISE_OIDC_NAME if SocialAccount.objects.filter(user=user).exists() else "",
    }  # fmt: skip
    return render(request, "account/reauthenticate.html", context, status=422 if problem else 200)


def _confirm_user(request: PageRequest, user: User, kinds: set[str]) -> SignInProblem | None:
    """What is wrong; None when the session is proven, and noted as such."""
    if "credential" in request.POST:
        key = ReauthenticateWebAuthnForm(user=user, data=request.POST)
        if not is_good_credential(key):
            return WRONG_PASSKEY
        key.save()
        return None
    code = ReauthenticateForm(user=user, data=request.POST) if "totp" in kinds else None
    knows = (
        user.check_password(request.POST.get("password", ""))
        if user.has_usable_password()
        else code is not None
    )
    if not knows or (code is not None and not code.is_valid()):
        return WRONG
    if code is not None:
        code.save()
    if user.has_usable_password():
        reauthenticate_by_password(request)
    return None


def _last_factor(request: PageRequest) -> str:
    record = request.session["account_authentication_methods"][-1]
    return trail.FACTORS.get(record.get("type", ""), str(record["method"]))
