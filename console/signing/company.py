"""Company accounts (OpenID Connect): they prove who someone is, and never make an account."""

import time
from typing import Any, NoReturn

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.shortcuts import render

from console.middleware import PageRequest
from console.pages.freshness import AUTH_TIME, redirect_to_prove
from console.signing.problems import OLD_PROOF, SignInProblem
from console.signing.trail import record_refused_try
from recovery.models import Person

NOT_INVITED = SignInProblem(
    "not-invited", "This company account has no person here. Ask an admin to invite its mail address."
)
NOT_FINISHED = SignInProblem(
    "not-finished", "The company sign-in was not finished. Try again, or use your password."
)


class CompanyAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Known by the provider's own id; the first time by a verified mail address that an admin wrote down."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return False

    def pre_social_login(self, request: PageRequest, sociallogin: Any) -> None:
        """Tie the account to its person, the first time. Ends the sign-in for everybody else."""
        user = sociallogin.user if sociallogin.is_existing else self._find_invited(sociallogin)
        person = Person.objects.filter(user_id=user.pk, service=False).first() if user is not None else None
        if user is None or person is None or not user.is_active:
            _end_sign_in(request, sociallogin.account.extra_data, NOT_INVITED)
        proved = told_auth_time(sociallogin.account.extra_data)
        if request.user.is_authenticated and proved is not None and time.time() - proved >= _fresh_seconds():
            _not_proved(request, sociallogin.state.get("next") or "/")
        request.session[AUTH_TIME] = proved
        if not sociallogin.is_existing:
            sociallogin.connect(request, user)

    def _find_invited(self, sociallogin: Any) -> User | None:
        """By mail address; an unverified one proves nothing, and one that two people have tells no one."""
        verified = [a.email for a in sociallogin.email_addresses if a.verified is True and a.email]
        users = list(User.objects.filter(email__iexact=verified[0])[:2]) if verified else []
        return users[0] if len(users) == 1 else None

    def on_authentication_error(self, request: PageRequest, *args: Any, **kwargs: Any) -> None:
        _end_sign_in(request, {}, NOT_FINISHED)

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        pass


def told_auth_time(data: dict[str, Any]) -> float | None:
    """When the provider itself last asked the person (claim `auth_time`, OpenID Connect Core 2); None where it does
    not say. A provider may answer out of a session of its own, hours old: that is no fresh proof."""
    for source in ("id_token", "userinfo"):
        auth_time = (data.get(source) or {}).get("auth_time")
        if isinstance(auth_time, int | float) and not isinstance(auth_time, bool):
            return float(auth_time)
    return None


def _fresh_seconds() -> int:
    return int(settings.ACCOUNT_REAUTHENTICATION_TIMEOUT)


def _not_proved(request: PageRequest, back: str) -> NoReturn:
    """Back to the page that asks, which says why."""
    record_refused_try(request, request.user.get_username(), OLD_PROOF.says, action="session.confirm")
    request.session["unproven"] = True
    raise ImmediateHttpResponse(redirect_to_prove(back))


def _end_sign_in(request: PageRequest, data: dict[str, Any], problem: SignInProblem) -> NoReturn:
    claims = data.get("userinfo") or data.get("id_token") or {}
    name = str(claims.get("email") or "")
    record_refused_try(request, name, problem.says)
    raise ImmediateHttpResponse(
        render(
            request,
            "sign_in.html",
            {"problem": problem, "next": "/", "idle": settings.REPRISE_IDLE_MINUTES},
            status=422,
        )
    )
