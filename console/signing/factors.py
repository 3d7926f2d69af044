"""Second factors of someone else: an admin may see which, and take them away when a device is lost."""

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User

from console.signing.trail import FACTORS
from recovery.audit.actions import audited_attempt
from recovery.people.roles import Actor, Right


def list_factors(user: User) -> list[str]:
    """What someone has set up, in words."""
    factors = Authenticator.objects.filter(user=user).order_by("type").values_list("type", flat=True)
    return [FACTORS[kind] for kind in dict.fromkeys(factors)]


def remove_all(user: User, by: Actor) -> None:
    """Take every second factor away: a password alone signs in, until new ones are set up. Raises Denied."""
    name = user.get_username()
    with audited_attempt(action="factor.remove", by=by, target_kind="person", target=name) as trying:
        by.check(Right.MANAGE)
        gone = list_factors(user)
        Authenticator.objects.filter(user=user).delete()
        if gone:
            trying.done(
                f"Removed {' and '.join(gone)} of {name}.", before={"factors": gone}, after={"factors": []}
            )
