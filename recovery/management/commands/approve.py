"""`manage.py approve RECOVERY --reason TEXT`: a vote for the plan, by the token's owner."""

from recovery.management.commands._voting import VoteCommand


class Command(VoteCommand):
    """Exit 0: the vote counts; 1: refused (not yours to approve, expired, another plan); 2: no such recovery."""

    help = "Votes for the plan of a recovery, in the name of the token's owner."
    choice = "approve"
