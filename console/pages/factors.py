"""Password, authenticator app, passkeys and recovery codes of one's own account. Each asks for a fresh sign-in."""

import base64

from allauth.account.internal.flows.login import record_authentication
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal import flows as codes_flows
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.internal import flows as totp_flows
from allauth.mfa.webauthn.forms import AddWebAuthnForm
from allauth.mfa.webauthn.internal import auth as passkeys
from allauth.mfa.webauthn.internal import flows as passkey_flows
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters

from console.middleware import PageRequest
from console.pages.base import page, refusal_of, render_page
from console.pages.freshness import unless_fresh
from console.signing import trail
from console.signing.passkeys import can_use_passkeys, is_good_credential
from console.signing.trail import FACTORS
from recovery.errors import NotFound, Refused, RepriseError, WrongUse
from recovery.numbers import whole
from recovery.people import actions
from recovery.people.roles import Actor

WRONG_CODE = Refused("The code is not the one of this moment. Look at the app's clock and type the next one.")
WRONG_KEY = Refused("The browser's answer does not fit. Nothing was set up; try again.")


def owner_of(by: Actor) -> User:
    return User.objects.get(username=by.name)


@sensitive_post_parameters("password", "again")
@page(None, methods=("GET", "POST"))
def change_password(request: PageRequest, by: Actor) -> HttpResponse:
    """A new password. This session goes on, every other one ends."""
    if asked := unless_fresh(request):
        return asked
    owner = owner_of(by)
    refusal: RepriseError | None = None
    if request.method == "POST":
        new, again = request.POST.get("password", ""), request.POST.get("again", "")
        if not new or new != again:
            refusal = WrongUse("The two passwords are not the same. Type the new one twice.")
        else:
            refusal = refusal_of(lambda: actions.set_password(user=owner, password=new, by=by))
        if refusal is None:
            update_session_auth_hash(request, owner)
            record_authentication(request, owner, method="password")
            return redirect("account")
    return render_page(request, "account/password.html", {}, refusal=refusal, status=422 if refusal else None)


@page(None, methods=("GET", "POST"))
def set_up_totp(request: PageRequest, by: Actor) -> HttpResponse:
    """Set up the authenticator app; with `remove` take it away."""
    if asked := unless_fresh(request):
        return asked
    owner = owner_of(by)
    existing = Authenticator.objects.filter(user=owner, type=Authenticator.Type.TOTP).first()
    if request.method == "POST" and "remove" in request.POST and existing is not None:
        with transaction.atomic():
            totp_flows.deactivate_totp(request, existing)
            trail.record_own_act(request, owner, "factor.remove", f"{by.name} removed {FACTORS['totp']}.")
        return redirect("account")
    if existing is not None:
        return redirect("account")
    form = ActivateTOTPForm(request.POST or None, user=owner)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            totp_flows.activate_totp(request, form)
            trail.record_own_act(request, owner, "factor.add", f"{by.name} set up {FACTORS['totp']}.")
        return redirect("recovery-codes")
    adapter = get_adapter()
    svg = adapter.build_totp_svg(adapter.build_totp_url(owner, form.secret))
    context = {
        "secret": form.secret,
        "secret_words": [form.secret[i : i + 4] for i in range(0, len(form.secret), 4)],
        "image": "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode(),
    }
    refusal = WRONG_CODE if request.method == "POST" else None
    return render_page(
        request, "account/totp.html", context, refusal=refusal, status=422 if refusal else None
    )


@page(None, methods=("GET", "POST"))
def set_up_passkey(request: PageRequest, by: Actor) -> HttpResponse:
    """Set up a passkey; with `remove` take one away."""
    if asked := unless_fresh(request):
        return asked
    owner, refusal = owner_of(by), None
    if request.method == "POST" and "remove" in request.POST:
        key = _own_key(owner, request.POST["remove"])
        with transaction.atomic():
            passkey_flows.remove_authenticator(request, key)
            trail.record_own_act(
                request, owner, "factor.remove", f"{by.name} removed the passkey {key.wrap().name}."
            )
        return redirect("account")
    if not can_use_passkeys(request):
        refusal = Refused("Passkeys need HTTPS and a host name. Open the console at its https:// address.")
        return render_page(request, "account/passkey.html", {}, refusal=refusal)
    if request.method == "POST":
        form = AddWebAuthnForm(request.POST, user=owner)
        if is_good_credential(form):
            typed = form.cleaned_data
            had = Authenticator.objects.filter(user=owner, type="recovery_codes").exists()
            name = typed["name"][:60]
            with transaction.atomic():
                passkey_flows.add_authenticator(request, name, typed["credential"])
                trail.record_own_act(request, owner, "factor.add", f"{by.name} set up the passkey {name}.")
            return redirect("account" if had else "recovery-codes")
        refusal = WRONG_KEY
    name = get_adapter().generate_authenticator_name(owner, Authenticator.Type.WEBAUTHN)
    context = {"options": passkeys.begin_registration(owner, True), "name": name}
    return render_page(
        request, "account/passkey.html", context, refusal=refusal, status=422 if refusal else None
    )


def _own_key(owner: User, pk: str) -> Authenticator:
    keys = Authenticator.objects.filter(user=owner, type=Authenticator.Type.WEBAUTHN)
    number = whole(pk)
    key = keys.filter(pk=number).first() if number is not None else None
    if key is None:
        raise NotFound("You have no such passkey.")
    return key


@page(None, methods=("GET", "POST"))
def recovery_codes(request: PageRequest, by: Actor) -> HttpResponse:
    """Shown once, when they were made; POST makes new ones, and the old ones stop working."""
    if asked := unless_fresh(request):
        return asked
    owner = owner_of(by)
    if not codes_flows.can_generate_recovery_codes(owner):
        raise NotFound("Recovery codes come with an authenticator app or a passkey. Set up one first.")
    if request.method == "POST":
        with transaction.atomic():
            codes_flows.generate_recovery_codes(request)
            trail.record_own_act(request, owner, "factor.reset", f"{by.name} made new recovery codes.")
        return redirect("recovery-codes")
    codes, shown = codes_flows.view_recovery_codes(request)
    left = codes.get_unused_codes() if codes else []
    context = {"codes": left if shown else [], "left": len(left)}
    return render_page(request, "account/recovery_codes.html", context)
