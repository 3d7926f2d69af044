"""People, service accounts and their tokens: who may be whom. Every act here is audited."""

import hashlib
import secrets
from datetime import timedelta
from typing import Final

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils import timezone

from recovery.audit.actions import attempt, record
from recovery.audit.token_use import note_use
from recovery.errors import Denied, Refused, WrongUse
from recovery.models import Person, Token
from recovery.people.roles import Actor, Right, Role, Stranger

PREFIX: Final = "rp_"
LAST_USED_STEP: Final = timedelta(minutes=1)
"""`last_used_at` is written at most this often: reading commands should not queue for the database."""


def create_person(
    *, name: str, role: Role | str, password: str | None, by: Actor, service: bool = False
) -> Person:
    """Add somebody who may sign in, or a service account (no password, tokens only).

    Raises Denied, WrongUse (role, name or password not good), Refused (name is taken).
    """
    with attempt(action="person.create", by=by, target_kind="person", target=name) as trying:
        by.check_setup()
        chosen = _role(role)
        if not name.strip() or len(name) > 150:
            raise WrongUse("A person needs a name of 1 to 150 characters.")
        if service == bool(password):
            raise WrongUse("A person needs a password; a service account has none.")
        if User.objects.filter(username=name).exists():
            raise Refused(f"There is already somebody named {name}. Choose another name.")
        user = User(username=name)
        _set_password(user, password)
        user.save()
        person = Person.objects.create(user=user, role=chosen.value, service=service)
        kind = "service account" if service else "person"
        trying.done(
            f"Added {kind} {name} with role {chosen.value}.", after={"role": chosen.value, "service": service}
        )
    return person


def set_password(*, user: User, password: str, by: Actor) -> None:
    """Set one's own password, or (admin) somebody's. Every open session of theirs ends with it.

    Raises Denied, Refused (a service account), WrongUse (too weak).
    """
    with attempt(action="person.password", by=by, target_kind="person", target=user.username) as trying:
        if by.user_id != user.pk:
            by.check_setup()
        if _person_of(user).service:
            raise Refused(f"{user.username} is a service account: it has tokens and no password.")
        _set_password(user, password)
        user.save(update_fields=["password"])
        trying.done(f"Set the password of {user.username}.")


def create_token(*, owner: User, name: str, by: Actor, days: int | None = None) -> str:
    """Make an access token and answer its text, which is never shown again (its sha256 is kept).

    One's own; an admin for a service account; a new instance for everybody. Never for another person:
    nobody can act as somebody else. `days`: how long it is good, None for ever. Raises Denied, WrongUse.
    """
    with attempt(
        action="token.create", by=by, target_kind="token", target=f"{owner.username}: {name}"
    ) as trying:
        _check_token_right(owner, by)
        if not name.strip() or len(name) > 80:
            raise WrongUse("A token needs a name of 1 to 80 characters, so that it can be told from others.")
        if days is not None and not 1 <= days <= 3650:
            raise WrongUse("A token is good for 1 to 3650 days, or for ever.")
        text = PREFIX + secrets.token_urlsafe(32)
        until = timezone.now() + timedelta(days=days) if days else None
        token = Token.objects.create(user=owner, name=name, sha256=_sha256(text), expires_at=until)
        trying.done(
            f"Made access token {name} for {owner.username}.", after={"token": token.pk, "expires_at": until}
        )
    return text


def revoke_token(*, token: Token, by: Actor) -> None:
    """Withdraw a token at once: one's own, or (admin) anybody's. A second time changes nothing."""
    target = f"{token.user.get_username()}: {token.name}"
    with attempt(action="token.revoke", by=by, target_kind="token", target=target) as trying:
        if by.user_id != token.user_id:
            by.check(Right.MANAGE)
        if Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
            trying.done(f"Withdrew access token {target}.", before={"token": token.pk})
    token.refresh_from_db()


def actor_for_user(user: AbstractBaseUser | AnonymousUser, *, via: str, request_id: str = "") -> Actor:
    """Who acts, for somebody signed in. Raises Denied for an account without a role or switched off."""
    person = Person.objects.filter(user_id=user.pk).first() if user.is_authenticated else None
    if person is None or not user.is_active:
        raise Denied("This account has no role in Reprise. Ask an admin to add you.")
    return Actor(
        name=user.get_username(), role=Role(person.role), user_id=user.pk, via=via, request_id=request_id
    )


def actor_for_token(text: str, *, via: str, request_id: str = "") -> Actor:
    """Who acts, for a token. Raises Denied, audited, for one that is unknown, withdrawn or expired."""
    token = Token.objects.select_related("user").filter(sha256=_sha256(text.strip())).first()
    problem = _token_problem(token)
    if token is None or problem:
        who = Stranger(
            name=token.user.get_username() if token else "(unknown token)", via=via, request_id=request_id
        )
        record(
            action="token.refused", outcome="denied", by=who, target_kind="token",
            target=token.name if token else "", says=problem,
        )  # fmt: skip
        raise Denied(problem)
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > LAST_USED_STEP:
        Token.objects.filter(pk=token.pk).update(last_used_at=now)
    actor = actor_for_user(token.user, via=via, request_id=request_id)
    note_use(token, by=actor)
    return actor


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


def _check_token_right(owner: User, by: Actor) -> None:
    if by.user_id == owner.pk or by.may(Right.PROVISION):
        return
    by.check(Right.MANAGE)
    if not _person_of(owner).service:
        raise Denied(
            f"{owner.username} is a person, who makes tokens alone: nobody can act as somebody else."
        )


def _person_of(user: User) -> Person:
    person = Person.objects.filter(user=user).first()
    if person is None:
        raise Refused(f"{user.username} has no role in Reprise.")
    return person


def _role(role: Role | str) -> Role:
    known = [r.value for r in Role if r is not Role.SYSTEM]
    if role not in known:
        raise WrongUse(f"There is no role {str(role)!r}. Roles are {', '.join(known)}.")
    return Role(role)


def _set_password(user: User, password: str | None) -> None:
    if not password:
        user.set_unusable_password()
        return
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise WrongUse(" ".join(error.messages)) from error
    user.set_password(password)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
