"""Name and password of a sign-in, with the limits that make guessing slow."""

from typing import Any, Final

from django import forms
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.http import HttpRequest

from console.signing.problems import SignInProblem
from recovery.errors import Denied
from recovery.models import Person
from recovery.people import limits

NOTHING_GIVEN: Final = SignInProblem("nothing-given", "Give your name and your password.")
MINUTES: Final = limits.LIMITS["sign-in"][1] // 60


class SignInForm(forms.Form):
    name = forms.CharField(max_length=150)
    password = forms.CharField(max_length=256, strip=False)

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request
        self.user: User | None = None

    def clean(self) -> dict[str, Any]:
        """Finds the person, or says in one sentence why not. The same words for a wrong name and password."""
        given: dict[str, Any] = super().clean() or {}
        name, password = given.get("name", ""), given.get("password", "")
        if not name or not password:
            raise forms.ValidationError(NOTHING_GIVEN.says, code=NOTHING_GIVEN.code)
        if _too_many(name):
            raise forms.ValidationError(
                f"Too many tries for this name. Wait {MINUTES} minutes, or ask an admin for a new password.",
                code="too-many-for-name",
            )
        user = authenticate(self.request, username=name, password=password)
        if not isinstance(user, User):
            raise forms.ValidationError(
                "Name or password is wrong. Check both, or ask an admin.", code="wrong-password"
            )
        if not Person.objects.filter(user=user, service=False).exists():
            raise forms.ValidationError(
                "This account has no role here. Ask an admin to give it one.", code="no-role"
            )
        self.user = user
        return given

    def problem(self) -> SignInProblem:
        """Why a form that is not valid lets no one in."""
        error = next(iter(self.non_field_errors().as_data()), None)
        return SignInProblem(error.code or "", str(error.message)) if error is not None else NOTHING_GIVEN


def _too_many(name: str) -> bool:
    """Not by the audit log, which counts refusals that say the same as one entry."""
    try:
        limits.check_limit("sign-in", name)
    except Denied:
        return True
    return False
