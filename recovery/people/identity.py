"""Turns a signed-in account or a token into an Actor, or says why not."""

import hashlib
from datetime import timedelta
from typing import Final

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.utils import timezone

from recovery.audit.actions import append_entry
from recovery.audit.token_use import note_use
from recovery.errors import Denied
from recovery.models import Person, Token
from recovery.people import limits
from recovery.people.roles import Actor, AnonymousActor, Grant, Right, Role, Scope

LAST_USED_STEP: Final = timedelta(minutes=1)
"""`last_used_at` is written at most this often: reading commands should not queue for the database."""


def actor_for_user(
    user: AbstractBaseUser | AnonymousUser, *, via: str, request_id: str = "", scope: Scope | None = None
) -> Actor:
    """Who acts, for someone signed in. Raises Denied for an account without a role or switched off."""
    person = Person.objects.filter(user_id=user.pk).first() if user.is_authenticated else None
    if person is None or not user.is_active:
        raise Denied("This account has no role in Reprise. Ask an admin to add you.", code="no_role")
    return Actor(
        name=user.get_username(),
        role=Role(person.role),
        user_id=user.pk,
        via=via,
        request_id=request_id,
        reset=person.may_reset,
        elsewhere={r.environment: Grant(Role(r.role), r.may_reset) for r in person.roles_in.all()},
        scope=scope,
    )


def actor_for_token(text: str, *, via: str, request_id: str = "", address: str = "") -> Actor:
    """Who acts, for a token. Raises Denied, audited, for one that is unknown, withdrawn or expired.

    `address` is where the call came from; whoever tries many wrong ones from there has to wait.
    """
    source = f"{via}:{address}"
    limits.check_limit("token", source)
    token = Token.objects.select_related("user").filter(sha256=sha256_hex(text.strip())).first()
    problem = _token_problem(token)
    if token is None or problem:
        limits.count_try("token", source)
        who = AnonymousActor(
            name=token.user.get_username() if token else "(unknown token)", via=via, request_id=request_id
        )
        append_entry(
            action="token.refused", outcome="denied", by=who, target_kind="token",
            target=token.name if token else "", says=problem,
        )  # fmt: skip
        raise Denied(problem)
    actor = actor_for_user(token.user, via=via, request_id=request_id, scope=scope_of(token))
    _mark_used(token)
    note_use(token, by=actor)
    return actor


def scope_of(token: Token) -> Scope | None:
    """What the token narrows its owner's rights to; None: nothing."""
    if token.rights is None and token.environments is None:
        return None
    return Scope(
        rights=None if token.rights is None else frozenset(Right[name] for name in token.rights),
        environments=None if token.environments is None else frozenset(token.environments),
    )


def sha256_hex(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _mark_used(token: Token) -> None:
    now, last = timezone.now(), token.last_used_at
    if last is None or now - last > LAST_USED_STEP:
        Token.objects.filter(pk=token.pk).update(last_used_at=now)


def _token_problem(token: Token | None) -> str:
    advice = "Make a new one in the console and set REPRISE_TOKEN."
    if token is None:
        return f"This access token is not known here. {advice}"
    if token.revoked_at is not None:
        return (
            f"The access token {token.name} was withdrawn on {token.revoked_at:%Y-%m-%d %H:%M} UTC. {advice}"
        )
    if token.expires_at is not None and token.expires_at <= timezone.now():
        return f"The access token {token.name} expired on {token.expires_at:%Y-%m-%d %H:%M} UTC. {advice}"
    if not token.user.is_active or not Person.objects.filter(user=token.user).exists():
        return f"The account {token.user.get_username()} is switched off or has no role. Ask an admin."
    return ""
