"""Sign-in, its second step, sign-out and the colours a person wants. Good and refused sign-ins are audited."""

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.internal.decorators import login_stage_required
from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.stages import AuthenticateStage
from allauth.mfa.webauthn.forms import AuthenticateWebAuthnForm, LoginWebAuthnForm
from allauth.mfa.webauthn.internal import auth as passkeys
from allauth.mfa.webauthn.internal.flows import perform_passwordless_login
from cryptography.fernet import InvalidToken
from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from console.forms.session import SignInForm
from console.middleware import PageRequest
from console.signing import trail
from console.signing.passkeys import can_use_passkeys, is_good_credential
from console.signing.problems import SignInProblem
from recovery.errors import Denied
from recovery.people import limits, password_reset
from recovery.people.actions import actor_for_user

TOO_MANY = SignInProblem(
    "too-many-from-here", "Too many refused tries came from this address. Wait a minute, then try again."
)
WRONG_CODE = SignInProblem(
    "wrong-code", "The code or passkey is wrong. Try the next code, or use a recovery code."
)
LOST_KEY = SignInProblem(
    "lost-key",
    "Your second factor was set up under a secret key that this console no longer has, so no code can be checked. "
    "Ask an admin to take it away, or the operator to give the former key (REPRISE_SECRET_KEY_FALLBACKS).",
)
WRONG_PASSKEY = SignInProblem("wrong-passkey", "This passkey is not known here. Sign in with your password.")


def safe_next(request: PageRequest, given: str | None) -> str:
    """A path of this console, else the inventory: a sign-in never leads elsewhere."""
    good = given and url_has_allowed_host_and_scheme(
        given, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return given if good and given else "/"


@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: PageRequest) -> HttpResponse:
    """One form. What was typed as a name stays; a password never does."""
    back = safe_next(request, request.POST.get("next") or request.GET.get("next"))
    if request.method != "POST":
        return _sign_in_form(request, back)
    name = str(request.POST.get("name", ""))[:150]
    if _is_over(request):
        return _sign_in_form(request, back, name, TOO_MANY, status=429)
    form = SignInForm(request.POST, request=request)
    if form.is_valid() and form.user is not None:
        return _enter_session(request, form.user, back)
    problem = form.problem()
    trail.record_refused_try(request, name, f"Sign-in refused: {problem}")
    return _sign_in_form(request, back, name, problem, status=422)


def _enter_session(request: PageRequest, user: User, back: str) -> HttpResponse:
    """In, or on to the second step. Someone else's session in this browser ends first."""
    if request.user.is_authenticated:
        logout(request)
    login = Login(user=user, redirect_url=back)
    response: HttpResponse = perform_password_login(request, {"username": user.get_username()}, login)
    return response


def _is_over(request: PageRequest) -> bool:
    """Were too many tries refused from this address lately?"""
    return limits.is_over("address", get_adapter().get_client_ip(request))


def _sign_in_form(
    request: PageRequest, back: str, name: str = "", problem: SignInProblem | None = None, status: int = 200
) -> HttpResponse:
    context = {
        "next": back, "name": name, "problem": problem, "passkeys": can_use_passkeys(request),
        "company": settings.REPRISE_OIDC_NAME, "mail": password_reset.can_send_reset(),
        "idle": settings.REPRISE_IDLE_MINUTES,
    }  # fmt: skip
    return render(request, "sign_in.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@login_stage_required(  # type: ignore[untyped-decorator]
    stage=AuthenticateStage.key, redirect_urlname="sign-in"
)
def second_step(request: PageRequest) -> HttpResponse:
    """The code or passkey of someone whose password was right: no one is signed in before it."""
    stage: Any = request._login_stage  # type: ignore[attr-defined]
    user = stage.login.user
    problem: SignInProblem | None = None
    is_over = request.method == "POST" and _is_over(request)
    if is_over:
        problem = TOO_MANY
    elif request.method == "POST":
        kind = AuthenticateForm if "code" in request.POST else AuthenticateWebAuthnForm
        form = kind(user=user, data=request.POST)
        try:
            good, problem = is_good_credential(form), WRONG_CODE
        except InvalidToken:
            good, problem = False, LOST_KEY
        if good:
            form.save()
            response: HttpResponse = stage.exit()
            return response
        if kind is AuthenticateWebAuthnForm:
            trail.record_refused_try(request, user.get_username(), "Sign-in refused: the passkey was wrong.")
    kinds = set(Authenticator.objects.filter(user=user).values_list("type", flat=True))
    options = (
        passkeys.begin_authentication(user) if "webauthn" in kinds and can_use_passkeys(request) else None
    )
    context = {"problem": problem, "who": user.get_username(), "codes": "totp" in kinds, "options": options}
    status = 429 if is_over else 422 if problem else 200
    return render(request, "account/second_step.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_by_passkey(request: PageRequest) -> HttpResponse:
    """GET: a challenge for the browser; POST: its answer, which names the person by itself."""
    if _is_over(request):
        return _sign_in_form(request, "/", problem=TOO_MANY, status=429)
    if request.method != "POST":
        return JsonResponse(passkeys.begin_authentication(user=None))
    back = safe_next(request, request.POST.get("next"))
    form = LoginWebAuthnForm(data=request.POST)
    if not is_good_credential(form):
        trail.record_refused_try(request, "", f"Sign-in refused: {WRONG_PASSKEY}")
        return _sign_in_form(request, back, problem=WRONG_PASSKEY, status=422)
    if request.user.is_authenticated:
        logout(request)
    key: Authenticator = form.cleaned_data["credential"]
    response: HttpResponse = perform_passwordless_login(request, key, Login(user=key.user, redirect_url=back))
    return response


@require_POST
def sign_out(request: PageRequest) -> HttpResponse:
    """Ends the session; a GET never does, so that a link or an image cannot."""
    user = request.user
    if isinstance(user, User):
        try:
            actor_for_user(user, via="page", request_id=request.request_id)
            trail.record_own_act(request, user, "session.sign_out", f"{user.get_username()} signed out.")
        except Denied:
            pass  # the account lost its role meanwhile: its session ends all the same
    logout(request)
    return redirect("sign-in")


@require_POST
def choose_theme(request: PageRequest) -> HttpResponse:
    """Light, dark, or as the system has it: a cookie of this browser."""
    response = redirect(safe_next(request, request.POST.get("next")))
    chosen = request.POST.get("theme", "")
    if chosen in ("light", "dark"):
        response.set_cookie(
            "theme", chosen, max_age=31536000, samesite="Lax", secure=request.is_secure(), httponly=True
        )
    else:
        response.delete_cookie("theme")
    return response
