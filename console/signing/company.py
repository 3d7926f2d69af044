"""Company accounts (OpenID Connect): they prove who somebody is, and never make an account."""

from typing import Any, NoReturn

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.shortcuts import render

from console.middleware import Request
from console.signing.trail import refused
from recovery.models import Person

NOT_INVITED = "This company account belongs to nobody here. Ask an admin to invite its mail address."
NOT_FINISHED = "The company sign-in was not finished. Try again, or use your password."


class CompanyAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Known by the provider's own id; the first time by a verified mail address that an admin wrote down."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return False

    def pre_social_login(self, request: Request, sociallogin: Any) -> None:
        """Tie the account to its person, the first time. Ends the sign-in for everybody else."""
        user = sociallogin.user if sociallogin.is_existing else self._invited(sociallogin)
        person = Person.objects.filter(user_id=user.pk, service=False).first() if user is not None else None
        if user is None or person is None or not user.is_active:
            _end(request, sociallogin.account.extra_data, NOT_INVITED)
        if not sociallogin.is_existing:
            sociallogin.connect(request, user)

    def _invited(self, sociallogin: Any) -> User | None:
        """By mail address; an unverified one proves nothing, and one that two people have tells nobody."""
        verified = [a.email for a in sociallogin.email_addresses if a.verified is True and a.email]
        found = list(User.objects.filter(email__iexact=verified[0])[:2]) if verified else []
        return found[0] if len(found) == 1 else None

    def on_authentication_error(self, request: Request, *args: Any, **kwargs: Any) -> None:
        _end(request, {}, NOT_FINISHED)

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        pass


def _end(request: Request, data: dict[str, Any], sentence: str) -> NoReturn:
    told = data.get("userinfo") or data.get("id_token") or {}
    name = str(told.get("email") or "")
    refused(request, name, sentence)
    raise ImmediateHttpResponse(
        render(request, "sign_in.html", {"problem": sentence, "next": "/"}, status=422)
    )
