"""The first administrator of an instance: everybody else is added by one, in the console."""

from django.contrib.auth.models import User

from recovery.errors import Refused
from recovery.models import Person
from recovery.people.actions import create_person
from recovery.people.roles import SYSTEM, Role


def make_first_administrator(*, name: str, password: str) -> bool:
    """Add an administrator to an instance that has none. False where this one is there already: nothing is changed,
    the password neither.

    No right is asked for: whoever can call this has the instance's database and keys. Raises Refused where there is
    another administrator, WrongUse for a name or password that is not good.
    """
    admins = Person.objects.filter(role=Role.ADMIN.value, user__is_active=True)
    if admins.filter(user__username__iexact=name).exists():
        return False
    if admins.exists():
        raise Refused(
            "There is an administrator already, who adds others under Settings, People and rights.",
            code="administrator_exists",
        )
    if User.objects.filter(username__iexact=name).exists():
        raise Refused(f"{name} is someone else here. Choose another name.", code="name_taken")
    create_person(name=name, role=Role.ADMIN, password=password, by=SYSTEM)
    return True
