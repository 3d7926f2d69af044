"""People, service accounts, invitations and tokens: who may be whom. Every act here is audited."""

import secrets
import unicodedata
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils import timezone

from recovery.audit.actions import audited_attempt
from recovery.errors import Denied, NotFound, Refused, WrongUse
from recovery.models import Invitation, Person, RoleIn, Token
from recovery.names import is_plain
from recovery.people.identity import actor_for_token, actor_for_user, sha256_hex
from recovery.people.roles import ENVIRONMENTS, SYSTEM, Actor, AnonymousActor, Grant, Right, Role

__all__ = [
    "actor_for_token", "actor_for_user", "change_person", "create_person", "create_token", "invitation_of",
    "invite_person", "revoke_token", "set_password", "switch_account", "use_invitation",
]  # fmt: skip

PREFIX: Final = "rp_"
RESERVED: Final = frozenset({SYSTEM.name.casefold(), AnonymousActor.name.casefold()})
INVITED: Final = timedelta(hours=72)
"""How long an invitation is good."""


def create_person(
    *,
    name: str,
    role: Role | str,
    password: str | None,
    by: Actor,
    service: bool = False,
    invited: bool = False,
    email: str = "",
) -> Person:
    """Add someone who may sign in, or a service account (no password, tokens only).

    `invited`: without a password yet; `invite` gives them a link to set one. `email` is how a company
    account is said to be theirs. Raises Denied, WrongUse (role, name, address or password not good), Refused
    (name or address is taken).
    """
    with audited_attempt(action="person.create", by=by, target_kind="person", target=name) as trying:
        by.check_setup()
        chosen = _check_role(role)
        _check_name(name)
        if (service or invited) == bool(password):
            raise WrongUse("A person needs a password; a service account has none.")
        if User.objects.filter(username__iexact=name).exists():
            raise Refused(f"There is already someone named {name}. Choose another name.")
        user = User(username=name, email=_check_email(email))
        _set_password(user, password)
        user.save()
        person = Person.objects.create(user=user, role=chosen.value, service=service)
        kind = "service account" if service else "person"
        trying.done(
            f"Added {kind} {name} with role {chosen.value}.", after={"role": chosen.value, "service": service}
        )
    return person


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > 150:
        raise WrongUse("A person needs a name of 1 to 150 characters.")
    if not is_plain(name):
        raise WrongUse("A person's name is of characters that can be seen, on one line.")
    if unicodedata.normalize("NFKC", name).strip().casefold() in RESERVED:
        raise WrongUse(f"{name} is what the audit log calls acts of no person. Choose another name.")


def change_person(
    *, person: Person, role: Role | str, reset: bool = True, elsewhere: Mapping[str, Grant], by: Actor
) -> None:
    """Give a person another default role, and other roles by environment (those not named fall away).

    Raises Denied, WrongUse, Refused (no one else would be an admin).
    """
    name = person.user.get_username()
    with audited_attempt(action="person.change", by=by, target_kind="person", target=name) as trying:
        by.check(Right.MANAGE)
        chosen = _check_role(role)
        for environment, grant in elsewhere.items():
            if environment not in ENVIRONMENTS:
                raise WrongUse(f"An environment is one of {', '.join(ENVIRONMENTS)}.")
            _check_role(grant.role)
        admins = _lock_admins()
        locked = Person.objects.select_for_update().get(pk=person.pk)
        before = _describe_roles(locked)
        if chosen is not Role.ADMIN:
            _keep_an_admin(locked, admins)
        Person.objects.filter(pk=locked.pk).update(role=chosen.value, may_reset=reset)
        locked.roles_in.all().delete()
        RoleIn.objects.bulk_create(
            RoleIn(person=locked, environment=e, role=g.role.value, may_reset=g.reset)
            for e, g in elsewhere.items()
        )
        person.refresh_from_db()
        after = _describe_roles(person)
        if after != before:
            trying.done(f"Changed the roles of {name}.", before=before, after=after)


def switch_account(*, person: Person, on: bool, by: Actor) -> None:
    """Switch an account off, or on again. Off: sessions and tokens are good for nothing from this moment.

    Raises Denied, Refused (the last admin).
    """
    name = person.user.get_username()
    with audited_attempt(action="person.switch", by=by, target_kind="person", target=name) as trying:
        by.check(Right.MANAGE)
        admins = _lock_admins()
        locked = Person.objects.select_for_update().get(pk=person.pk)
        if not on:
            _keep_an_admin(locked, admins)
        before = User.objects.values_list("is_active", flat=True).get(pk=locked.user_id)
        if before != on:
            User.objects.filter(pk=locked.user_id).update(is_active=on)
            _end_invitations(locked)
            word = "on" if on else "off"
            trying.done(f"Switched {name} {word}.", before={"active": before}, after={"active": on})
    person.user.refresh_from_db()


def invite_person(*, person: Person, by: Actor) -> str:
    """A new link's secret for someone to set a password by, once, within 72 hours; an older one ends.

    It does not change a password that there is, before it is used. Raises Denied, Refused (service account,
    switched off).
    """
    name = person.user.get_username()
    with audited_attempt(action="person.invite", by=by, target_kind="person", target=name) as trying:
        by.check(Right.MANAGE)
        if person.service:
            raise Refused(f"{name} is a service account: it has tokens and no password.")
        if not person.user.is_active:
            raise Refused(f"{name} is switched off. Switch the account on first.")
        _end_invitations(person)
        text = secrets.token_urlsafe(32)
        made = Invitation.objects.create(
            person=person, sha256=sha256_hex(text), created_by=by.name, expires_at=timezone.now() + INVITED
        )
        trying.done(f"Made an invitation for {name}.", after={"expires_at": made.expires_at})
    return text


def invitation_of(text: str) -> Invitation:
    """The invitation behind a link. Raises NotFound for one that is unknown, used, ended or expired."""
    invitation = Invitation.objects.select_related("person__user").filter(sha256=sha256_hex(text)).first()
    if invitation is None or not invitation.good or not invitation.person.user.is_active:
        raise NotFound(
            "This invitation is not good, or no longer. Ask an admin for a new one.", code="invitation_over"
        )
    return invitation


def use_invitation(*, text: str, password: str, by: AnonymousActor) -> Person:
    """Set the password of the person who was invited; all of their open sessions end.

    Raises NotFound, WrongUse (too weak: the invitation stays good).
    """
    with audited_attempt(action="person.joined", by=by, target_kind="person") as trying:
        invitation = invitation_of(text)
        user = invitation.person.user
        trying.target = user.username
        _set_password(user, password)
        if not Invitation.objects.filter(pk=invitation.pk, used_at=None, ended_at=None).update(
            used_at=timezone.now()
        ):
            raise NotFound("This invitation was used a moment ago. Ask an admin for a new one.")
        user.save(update_fields=["password"])
        trying.done(f"{user.username} set a password by an invitation of {invitation.created_by}.")
    return invitation.person


def set_password(*, user: User, password: str, by: Actor) -> None:
    """Set one's own password, or (admin) someone's. All of their open sessions end.

    Raises Denied, Refused (a service account), WrongUse (too weak).
    """
    with audited_attempt(
        action="person.password", by=by, target_kind="person", target=user.username
    ) as trying:
        if by.user_id != user.pk:
            by.check_setup()
        if _person_of(user).service:
            raise Refused(f"{user.username} is a service account: it has tokens and no password.")
        _set_password(user, password)
        user.save(update_fields=["password"])
        trying.done(f"Set the password of {user.username}.")


def create_token(
    *,
    owner: User,
    name: str,
    by: Actor,
    days: int | None = None,
    rights: Collection[Right] | None = None,
    environments: Collection[str] | None = None,
) -> str:
    """Make an access token and answer its text, which is never shown again (its sha256 is kept).

    One's own; an admin for a service account; a new instance for everybody. Never for another person:
    no one can act as someone else. `days`: how long it is good, None for as long as a token may be
    (`REPRISE_TOKEN_DAYS`). `rights`, `environments`: what of its owner's it has, None for all. Raises Denied,
    WrongUse.
    """
    target = f"{owner.username}: {name}"
    with audited_attempt(action="token.create", by=by, target_kind="token", target=target) as trying:
        _check_token_right(owner, by)
        if not name.strip() or len(name) > 80:
            raise WrongUse("A token needs a name of 1 to 80 characters, so that you recognize it.")
        if not is_plain(name):
            raise WrongUse("A token's name is of characters that can be seen, on one line.")
        longest = settings.REPRISE_TOKEN_DAYS
        if days is not None and not 1 <= days <= longest:
            raise WrongUse(f"A token is good for 1 to {longest} days.")
        scope = _build_scope(rights, environments)
        text = PREFIX + secrets.token_urlsafe(32)
        until = timezone.now() + timedelta(days=days or longest)
        token = Token.objects.create(
            user=owner, name=name, sha256=sha256_hex(text), expires_at=until, **scope
        )
        after = {"token": token.pk, "expires_at": until, **{k: v for k, v in scope.items() if v is not None}}
        trying.done(f"Made access token {name} for {owner.username}.", after=after)
    return text


def _build_scope(rights: Collection[Right] | None, environments: Collection[str] | None) -> dict[str, Any]:
    """`{rights, environments}` as a token keeps them. Raises WrongUse."""
    if rights is not None and not rights:
        raise WrongUse("A token needs at least one right.")
    if environments is not None and (not environments or set(environments) - set(ENVIRONMENTS)):
        raise WrongUse(f"A token is bound to one or more of {', '.join(ENVIRONMENTS)}, or to none.")
    return {
        "rights": None if rights is None else sorted(r.name for r in rights),
        "environments": None if environments is None else sorted(environments),
    }


def revoke_token(*, token: Token, by: Actor) -> None:
    """Withdraw a token at once: one's own, or (admin) anybody's. A second time changes nothing."""
    target = f"{token.user.get_username()}: {token.name}"
    with audited_attempt(action="token.revoke", by=by, target_kind="token", target=target) as trying:
        if by.user_id != token.user_id:
            by.check(Right.MANAGE)
        if Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
            trying.done(f"Withdrew access token {target}.", before={"token": token.pk})
    token.refresh_from_db()


def _check_token_right(owner: User, by: Actor) -> None:
    if by.user_id == owner.pk:
        if by.scope is not None:
            raise Denied(
                "A token with less than its owner's rights makes no other tokens. Use the console.",
                code="narrow_token",
            )
        return
    if by.may(Right.PROVISION):
        return
    by.check(Right.MANAGE)
    if not _person_of(owner).service:
        raise Denied(f"{owner.username} is a person, who makes tokens alone: no one can act as someone else.")


def _lock_admins() -> list[int]:
    """Everybody who may manage people, locked in one order, so that two of them cannot remove each other."""
    admins = Person.objects.filter(role=Role.ADMIN.value, service=False, user__is_active=True)
    return [p.pk for p in admins.select_for_update(of=("self",)).order_by("pk")]


def _keep_an_admin(person: Person, admins: list[int]) -> None:
    """Raise Refused when this is the only admin who can sign in."""
    if admins == [person.pk]:
        raise Refused(
            f"{person.user.get_username()} is the last admin: make someone else an admin first, or no one "
            "could manage people any more."
        )


def _describe_roles(person: Person) -> dict[str, Any]:
    """Who may what, as the audit log shows it."""
    rows = person.roles_in.order_by("environment")
    return {
        "role": person.role, "may_reset": person.may_reset,
        "in": {r.environment: {"role": r.role, "may_reset": r.may_reset} for r in rows},
    }  # fmt: skip


def _end_invitations(person: Person) -> None:
    Invitation.objects.filter(person=person, used_at=None, ended_at=None).update(ended_at=timezone.now())


def _check_email(text: str) -> str:
    """A mail address no one else has, in small letters, or none. Raises WrongUse, Refused."""
    address = text.strip().lower()
    if not address:
        return ""
    try:
        validate_email(address)
    except ValidationError as error:
        raise WrongUse("This is no mail address.") from error
    if User.objects.filter(email__iexact=address).exists():
        raise Refused("Someone else has this mail address.")
    return address


def _person_of(user: User) -> Person:
    person = Person.objects.filter(user=user).first()
    if person is None:
        raise Refused(f"{user.username} has no role in Reprise.")
    return person


def _check_role(role: Role | str) -> Role:
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
