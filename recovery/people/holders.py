"""Who holds a right in an environment, by their role there."""

from django.db.models import Q, QuerySet

from recovery.models import Person, RoleIn
from recovery.people.roles import RIGHTS, Right, rules_of


def holders_of_right(right: Right, environment: str) -> QuerySet[Person]:
    """People, no service accounts, none switched off, whose role there has the right. Withheld resets aside."""
    roles = [role.value for role, may in RIGHTS.items() if right in may]
    roles_there = RoleIn.objects.filter(environment=rules_of(environment))
    named = Q(pk__in=roles_there.filter(role__in=roles).values("person"))
    default = Q(role__in=roles) & ~Q(pk__in=roles_there.values("person"))
    return Person.objects.filter(named | default, service=False, user__is_active=True)
