"""Writes sign-ins and refused ones into the audit log, by allauth's signals.

Changes of second factors are written by the pages that make them, in the same transaction: allauth tells of
them only after the commit, when a crash would leave a change without its row.
"""

from typing import Any, Final

from allauth.account.adapter import get_adapter
from allauth.account.signals import user_logged_in
from allauth.mfa import signals
from django.contrib.auth.models import User

from console.middleware import PageRequest
from recovery.audit.actions import append_entry
from recovery.errors import Denied
from recovery.people import limits
from recovery.people.actions import actor_for_user
from recovery.people.roles import Actor, AnonymousActor

FACTORS: Final = {
    "totp": "the authenticator app",
    "webauthn": "a passkey",
    "recovery_codes": "recovery codes",
}


def record_refused_try(
    request: PageRequest, name: str, sentence: str, action: str = "session.refused"
) -> None:
    """One try that was not good. Call outside of a transaction that may be taken back."""
    who = AnonymousActor(name=name[:150] or "(no name)", via="page", request_id=request.request_id)
    append_entry(
        action=action, outcome="denied", by=who, target_kind="person", target=name[:150], says=sentence
    )
    if action == "session.refused":
        limits.count_try("sign-in", name)
        limits.count_try("address", get_adapter().get_client_ip(request))


def record_own_act(request: PageRequest, user: User, action: str, says: str) -> None:
    """Something that a person did to their own account or session."""
    append_entry(
        action=action, outcome="done", by=who_is(request, user), target_kind="person",
        target=user.get_username(), says=says,
    )  # fmt: skip


def who_is(request: PageRequest, user: User) -> Actor | AnonymousActor:
    try:
        return actor_for_user(user, via="page", request_id=request.request_id)
    except Denied:
        return AnonymousActor(name=user.get_username(), via="page", request_id=request.request_id)


def describe_sign_in(request: PageRequest) -> str:
    """The ways by which this session was proven, in words."""
    records = request.session.get("account_authentication_methods") or []
    words = {"password": "password", "socialaccount": "company account", "invitation": "invitation"}
    methods = [FACTORS.get(r.get("type", ""), words.get(r["method"], r["method"])) for r in records]
    return " and ".join(dict.fromkeys(methods)) or "password"


def _signed_in(sender: Any, request: PageRequest, user: User, **more: Any) -> None:
    record_own_act(
        request, user, "session.sign_in", f"{user.get_username()} signed in with {describe_sign_in(request)}."
    )


def _wrong_code(sender: Any, request: PageRequest, user: User, **more: Any) -> None:
    record_refused_try(request, user.get_username(), "Sign-in refused: the code was wrong.")


def connect_signals() -> None:
    """Called once, when the console's app is ready."""
    user_logged_in.connect(_signed_in, dispatch_uid="trail")
    signals.authentication_failed.connect(_wrong_code, dispatch_uid="trail")
