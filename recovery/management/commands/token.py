"""`manage.py token`: another token for whoever owns this one, or one for a service account."""

from argparse import ArgumentParser

from django.conf import settings
from django.contrib.auth.models import User

from recovery.errors import NotFound
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.people.actions import create_token
from recovery.people.roles import Right


class Command(RepriseCommand):
    """The token is shown once, on stdout. People make their first one in the browser."""

    help = "Creates an access token for yourself or, as an admin, for a service account."
    right = Right.VIEW

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("account", nargs="?", help="A service account. Default: you.")
        parser.add_argument("--name", default="command line", help="What the token is for.")
        most = settings.REPRISE_TOKEN_DAYS
        parser.add_argument("--days", type=int, help=f"How long it is good; default, and most: {most} days.")

    def answer(self, options: Options) -> CommandAnswer:
        account = options["account"]
        owner = User.objects.filter(username=account).first() if account else self.owner()
        if owner is None:
            raise NotFound(f"There is no account {account!r}. An admin adds service accounts in the console.")
        text = create_token(owner=owner, name=options["name"], by=self.actor, days=options["days"])
        said = f"{text}\nKeep it now: it is not shown again. It acts as {owner.username}."
        return CommandAnswer({"token": text, "owner": owner.username, "name": options["name"]}, said)

    def owner(self) -> User:
        """Whoever acts."""
        return User.objects.get(username=self.actor.name)
