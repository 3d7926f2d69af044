"""Who may be whom: accounts, passwords, tokens, and the refusals."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.utils import timezone

from recovery.errors import Denied, Refused, RepriseError, WrongUse
from recovery.models import AuditEntry, Person, Token
from recovery.people.actions import (
    actor_for_token,
    actor_for_user,
    create_person,
    create_token,
    revoke_token,
    set_password,
)
from recovery.people.roles import RIGHTS, SYSTEM, Actor, Right, Role
from tests.refusals import lacking

pytestmark = pytest.mark.django_db
PASSWORD = "four calm words here"


def person(name: str, role: Role = Role.VIEWER, *, service: bool = False) -> User:
    made = create_person(
        name=name, role=role, password=None if service else PASSWORD, by=SYSTEM, service=service
    )
    return made.user


def acting(user: User) -> Actor:
    return actor_for_user(user, via="page")


def last_row() -> tuple[str, str, str]:
    return AuditEntry.objects.values_list("actor", "action", "outcome").first()  # type: ignore[return-value]


def test_a_new_instance_sets_up_people_who_can_sign_in() -> None:
    user = person("ada", Role.RESPONDER)
    assert user.check_password(PASSWORD)
    assert acting(user) == Actor(name="ada", role=Role.RESPONDER, user_id=user.pk, via="page")
    assert last_row() == ("reprise", "person.create", "done")


@pytest.mark.parametrize("role", [r for r in Role if r is not Role.SYSTEM])
def test_only_an_admin_adds_people(role: Role) -> None:
    by = acting(person("somebody", role))
    if role is Role.ADMIN:
        create_person(name="new", role="viewer", password=PASSWORD, by=by)
        assert Person.objects.filter(user__username="new").exists()
    else:
        with lacking(Right.MANAGE):
            create_person(name="new", role="viewer", password=PASSWORD, by=by)
        assert last_row() == ("somebody", "person.create", "denied")
        assert not User.objects.filter(username="new").exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": "x", "role": "king", "password": PASSWORD}, WrongUse),
        ({"name": "x", "role": "system", "password": PASSWORD}, WrongUse),
        ({"name": " ", "role": "viewer", "password": PASSWORD}, WrongUse),
        *(
            ({"name": name, "role": "viewer", "password": PASSWORD}, WrongUse)
            for name in (
                "reprise",
                "Reprise",
                " REPRISE ",
                "ｒｅｐｒｉｓｅ",
                "(not signed in)",
                "(Not Signed In)",
                "a\x07b",
                "a\nb",
                "ann\u200b",
                "\u202eann",
            )
        ),
        ({"name": "x", "role": "viewer", "password": "short"}, WrongUse),
        ({"name": "x", "role": "viewer", "password": None}, WrongUse),
        ({"name": "x", "role": "viewer", "password": PASSWORD, "service": True}, WrongUse),
        ({"name": "taken", "role": "viewer", "password": PASSWORD}, Refused),
    ],
)
def test_a_wrong_account_is_refused_in_one_sentence(
    arguments: dict[str, object], error: type[RepriseError]
) -> None:
    person("taken")
    with pytest.raises(error) as caught:
        create_person(by=SYSTEM, **arguments)  # type: ignore[arg-type]
    assert caught.value.sentence.endswith(".")
    assert last_row() == ("reprise", "person.create", "failed")


def test_a_token_is_shown_once_and_kept_as_a_hash() -> None:
    user = person("ada", Role.RESPONDER)
    text = create_token(owner=user, name="laptop", by=acting(user))
    assert text.startswith("rp_")
    assert len(text) > 40
    token = Token.objects.get()
    assert text not in (token.sha256, token.name)
    assert actor_for_token(text, via="command") == Actor(
        name="ada", role=Role.RESPONDER, user_id=user.pk, via="command"
    )
    token.refresh_from_db()
    assert token.last_used_at is not None
    stored = str(list(AuditEntry.objects.values()))
    assert text not in stored
    assert token.sha256 not in stored


@pytest.mark.parametrize("what", ["unknown", "expired", "revoked", "switched off", "empty"])
def test_a_token_that_is_not_good_is_denied_and_audited(what: str) -> None:
    user = person("ada", Role.RESPONDER)
    text = create_token(owner=user, name="laptop", by=acting(user), days=1)
    token = Token.objects.get()
    if what == "expired":
        Token.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif what == "revoked":
        revoke_token(token=token, by=acting(user))
    elif what == "switched off":
        User.objects.update(is_active=False)
    else:
        text = "rp_nonsense" if what == "unknown" else ""
    with pytest.raises(Denied) as caught:
        actor_for_token(text, via="command")
    assert caught.value.sentence.endswith(".")
    known = what not in ("unknown", "empty")
    assert last_row() == ("ada" if known else "(unknown token)", "token.refused", "denied")


@pytest.mark.parametrize(
    ("by", "owner", "allowed"),
    [
        ("ada", "ada", True),
        ("ada", "bot", False),
        ("boss", "bot", True),
        ("boss", "ada", False),
        ("boss", "boss", True),
        ("bot", "bot", True),
        ("bot", "ada", False),
    ],
)
def test_nobody_makes_a_token_to_act_as_another_person(by: str, owner: str, allowed: bool) -> None:
    users = {
        "ada": person("ada", Role.RESPONDER),
        "boss": person("boss", Role.ADMIN),
        "bot": person("bot", Role.RESPONDER, service=True),
    }
    if allowed:
        assert create_token(owner=users[owner], name="t", by=acting(users[by])).startswith("rp_")
    else:
        with pytest.raises(Denied):
            create_token(owner=users[owner], name="t", by=acting(users[by]))
        assert not Token.objects.exists()


@pytest.mark.parametrize(("name", "days"), [("", None), ("x" * 81, None), ("t", 0), ("t", 100_000)])
def test_a_wrong_token_is_refused(name: str, days: int | None) -> None:
    user = person("ada")
    with pytest.raises(WrongUse):
        create_token(owner=user, name=name, by=acting(user), days=days)


def test_another_viewer_cannot_withdraw_my_token_but_an_admin_can() -> None:
    ada, eve, boss = person("ada"), person("eve"), person("boss", Role.ADMIN)
    create_token(owner=ada, name="t", by=acting(ada))
    token = Token.objects.get()
    with pytest.raises(Denied):
        revoke_token(token=token, by=acting(eve))
    assert token.revoked_at is None
    revoke_token(token=token, by=acting(boss))
    assert token.revoked_at is not None
    rows = AuditEntry.objects.count()
    revoke_token(token=token, by=acting(boss))
    assert AuditEntry.objects.count() == rows


def test_a_password_is_changed_by_its_owner_or_an_admin() -> None:
    ada, eve, boss = person("ada"), person("eve"), person("boss", Role.ADMIN)
    bot = person("bot", service=True)
    set_password(user=ada, password="another good phrase", by=acting(ada))
    assert ada.check_password("another good phrase")
    third = "a third good phrase"
    set_password(user=ada, password=third, by=acting(boss))
    with pytest.raises(Denied):
        set_password(user=ada, password="a stolen good phrase", by=acting(eve))
    with pytest.raises(WrongUse, match="too short"):
        set_password(user=ada, password="short", by=acting(ada))
    with pytest.raises(Refused, match="service account"):
        set_password(user=bot, password="a good phrase again", by=acting(boss))
    ada.refresh_from_db()
    assert ada.check_password(third)


@pytest.mark.parametrize("who", ["anonymous", "without a role", "switched off"])
def test_an_account_without_a_role_may_nothing(who: str) -> None:
    user: User | AnonymousUser = AnonymousUser()
    if who == "without a role":
        user = User.objects.create(username="x")
    elif who == "switched off":
        user = person("ada")
        user.is_active = False
    with pytest.raises(Denied, match="no role"):
        actor_for_user(user, via="page")


def test_roles_hold_exactly_these_rights() -> None:
    table = {role.value: sorted(right.name for right in rights) for role, rights in RIGHTS.items()}
    assert table == {
        "viewer": ["VIEW"],
        "responder": ["BREAK_GLASS", "READ_AUDIT", "RECOVER", "RESET", "VIEW"],
        "approver": ["APPROVE", "READ_AUDIT", "REVIEW_AUDIT", "VIEW"],
        "auditor": ["EXPORT_AUDIT", "READ_AUDIT", "REVIEW_AUDIT", "VIEW"],
        "admin": [
            "BREAK_GLASS",
            "EXPORT_AUDIT",
            "MANAGE",
            "READ_AUDIT",
            "RECOVER",
            "RESET",
            "REVIEW_AUDIT",
            "VIEW",
        ],
        "none": [],
        "system": ["PROVISION", "VIEW"],
    }
    assert not any(Right.PROVISION in RIGHTS[r] for r in Role if r is not Role.SYSTEM)
