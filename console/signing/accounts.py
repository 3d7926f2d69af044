"""What django-allauth asks us about accounts and second factors."""

from typing import Any, Final

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from console.pages.freshness import is_fresh
from console.signing.trail import record_refused_try
from recovery.encryption import keys
from recovery.models import Person

FACTORS: Final = "second factors"
NO_ROLE: Final = "Sign-in refused: this account is switched off, or has no role here."


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """No one signs up. Pages say what happened themselves, so allauth's own messages and mails are dropped."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        pass

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        pass

    def get_client_ip(self, request: HttpRequest) -> str:
        """The caller's address, behind `REPRISE_TRUSTED_PROXIES` proxies; 0.0.0.0 where none is known (a socket)."""
        try:
            return str(super().get_client_ip(request))
        except PermissionDenied:
            return "0.0.0.0"  # noqa: S104  (unknown, not a place to listen)

    def pre_login(self, request: Any, user: AbstractBaseUser, **how: Any) -> HttpResponse | None:
        """Whatever proved them: only someone with a role here, who is no service account, gets in."""
        if user.is_active and Person.objects.filter(user_id=user.pk, service=False).exists():
            return None
        record_refused_try(request, user.get_username(), NO_ROLE)
        return redirect("sign-in")

    def respond_user_inactive(self, request: HttpRequest, user: AbstractBaseUser) -> HttpResponse:
        return redirect("sign-in")

    def is_reauthentication_required(self, app: str | None = None) -> bool:
        """Second factors are changed with a fresh sign-in only; what is fresh is one rule (`is_fresh`)."""
        return not is_fresh(context.request)

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        return [{"id": "reauthenticate", "description": "", "url": reverse("reauthenticate")}]


class FactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    """Secrets of second factors are encrypted in the database, by a key made of the secret key."""

    def encrypt(self, text: str) -> str:
        return keys(FACTORS).encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Raises cryptography's InvalidToken for one written under a key that is not known any more."""
        return keys(FACTORS).decrypt(encrypted_text.encode()).decode()

    def get_totp_label(self, user: AbstractBaseUser) -> str:
        return user.get_username()

    def _get_user_identifier(self, user: AbstractBaseUser) -> str:
        return user.get_username()

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        host = context.request.get_host()
        return {"id": host.partition(":")[0], "name": "Reprise"}
