"""`manage.py administrator`: the first administrator of a new instance."""

from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings

from recovery.errors import WrongUse
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.people.first import make_first_administrator


class Command(RepriseCommand):
    """The password comes from a file or a setting, never from the command line, which others can read."""

    help = "Adds the first administrator of an instance. Refused if there already is one."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "name", nargs="?", default=settings.ENV.admin_name, help="Default: REPRISE_ADMIN_NAME."
        )
        parser.add_argument(
            "--password-file", help="Default: REPRISE_ADMIN_PASSWORD or REPRISE_ADMIN_PASSWORD_FILE."
        )

    def answer(self, options: Options) -> CommandAnswer:
        name, file = options["name"], options["password_file"]
        made = make_first_administrator(
            name=name, password=read(file) if file else settings.ENV.admin_password
        )
        says = f"{name} may sign in now." if made else f"{name} is there already; nothing was changed."
        return CommandAnswer({"name": name, "made": made}, says)


def read(file: str) -> str:
    """The password in a file. Raises WrongUse."""
    try:
        return Path(file).expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"The password file {file} cannot be read. Check its path and rights.") from error
