"""Names with characters that nobody sees are refused where people give them, and written out where they came in."""

import pytest
from django.contrib.auth.models import User

from recovery.errors import WrongUse
from recovery.models import Token
from recovery.names import is_plain, shown
from recovery.people.actions import create_token
from recovery.people.roles import Actor, Role
from tests import factories

HIDDEN = ["\x1b[31mred", "a\nb", "\u202eab", "a\x7f", "\x00", "\ud800"]


@pytest.mark.parametrize("name", HIDDEN)
def test_what_cannot_be_seen_is_written_out(name: str) -> None:
    assert not is_plain(name)
    assert is_plain(shown(name))


@pytest.mark.parametrize("name", ["Kunden täglich", "注文", "a-b_c.d (2)"])
def test_what_can_be_seen_stays(name: str) -> None:
    assert is_plain(name)
    assert shown(name) == name


@pytest.mark.django_db
@pytest.mark.parametrize("name", HIDDEN[:4])
def test_a_token_has_a_name_that_can_be_seen(name: str) -> None:
    owner: User = factories.person("viewer")
    actor = Actor(name=owner.username, role=Role.VIEWER, user_id=owner.pk)
    with pytest.raises(WrongUse):
        create_token(owner=owner, name=name, by=actor)
    assert not Token.objects.exists()
