"""`manage.py reject RECOVERY --reason TEXT`: a vote against the plan, which ends the request."""

from recovery.management.commands._voting import VoteCommand


class Command(VoteCommand):
    """Exit 0: rejected, the recovery goes back to being prepared; 1: refused; 2: no such recovery."""

    help = "Rejects the plan of a recovery, in the name of the token's owner."
    choice = "reject"
