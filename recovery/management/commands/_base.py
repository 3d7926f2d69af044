"""What every command shares: who acts, one JSON object or calm text, exit 0, 1 or 2.

stdout carries the answer and nothing else; logs and refusals go to stderr. Exit 0: good; 1: the answer is
bad news or a refusal; 2: wrong use, or something that the answer needs is not reachable.
"""

import json
import os
import sys
from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandParser, DjangoHelpFormatter
from django.db import InterfaceError, OperationalError, ProgrammingError
from django.utils import timezone

from recovery import trace
from recovery.audit.actions import audited_attempt
from recovery.audit.aims import find_aim
from recovery.cli.answer import CommandAnswer as CommandAnswer
from recovery.cli.answer import plain as plain
from recovery.cli.answer import refusal_json, say_refusal, wrong_use_json
from recovery.errors import RepriseError, Unreachable, WrongUse
from recovery.names import shown
from recovery.people.actions import actor_for_token
from recovery.people.roles import Actor, Right

LARGEST_TOKEN = 4096
Options = Mapping[str, Any]
"""What argparse read from a command's words, by the names of its options."""


class ManageParser(CommandParser):
    """Wrong use is one JSON object too, when JSON was asked for."""

    def error(self, message: str) -> NoReturn:
        if "--json" in sys.argv and self.called_from_command_line:
            sys.stdout.write(json.dumps(wrong_use_json(message)) + "\n")
        super().error(message)
        raise SystemExit(2)


def _subparsers(parser: ArgumentParser) -> list[ArgumentParser]:
    """Those of `audit verify` and the like: made by Django's own class, they would answer wrong use in text alone."""
    made = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    return [one for action in made for one in action.choices.values()]


class Formatter(DjangoHelpFormatter, RawDescriptionHelpFormatter):
    """Examples stand below the options, a line each."""


def add_common_options(parser: ArgumentParser) -> None:
    """What every command takes, on a subcommand: it has a parser of its own, and must not undo what its parent read."""
    parser.add_argument(
        "--json", action="store_true", default=SUPPRESS, help="Print one JSON object to stdout."
    )
    parser.add_argument(
        "--token-file", default=SUPPRESS, help="File that holds your access token; replaces REPRISE_TOKEN."
    )


class RepriseCommand(BaseCommand):
    """Subclasses say `right` (checked before anything else; None: no token is needed), add their options in
    `add_options` and answer in `answer`. Whatever RepriseError they raise becomes a sentence and an exit code.
    """

    right: ClassVar[Right | None] = None
    examples: ClassVar[str] = ""
    as_json = False
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        shown = {"formatter_class": Formatter, "epilog": self.examples} if self.examples else {}
        parser = super().create_parser(prog_name, subcommand, **shown, **kwargs)
        for one in (parser, *_subparsers(parser)):
            one.__class__ = ManageParser
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print one JSON object to stdout.")
        if self.right is not None:
            parser.add_argument(
                "--token-file", help="File that holds your access token; replaces REPRISE_TOKEN."
            )
        self.add_options(parser)

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the command's own options."""

    def answer(self, options: Options) -> CommandAnswer:
        """Do what the command is for. Raises RepriseError for every expected failure."""
        raise NotImplementedError

    def follow(self) -> int:
        """What goes on after the answer was printed; the exit code of its end."""
        return 0

    @cached_property
    def actor(self) -> Actor:
        """Who acts: the owner of the token, with that person's rights. Raises WrongUse, Denied."""
        return actor_for_token(token_text(self._token_file), via="command")

    def handle(self, *args: Any, **options: Any) -> None:
        with trace.bound(trace.new("cmd")):
            self._handle(options)

    def _handle(self, options: dict[str, Any]) -> None:
        self._token_file: str | None = options.pop("token_file", None)
        self.__dict__.pop("actor", None)
        self.as_json = as_json = bool(options.pop("json"))
        try:
            found = self._checked_answer(options)
        except RepriseError as error:
            self._refuse(error, as_json)
        except (OperationalError, ProgrammingError, InterfaceError, ImproperlyConfigured) as error:
            self._refuse(_database_away(error), as_json)
        if as_json or found.text:
            self.stdout.write(json.dumps(found.data) if as_json else found.text)
            self.stdout.flush()
        if code := found.exit_code or self.follow():
            sys.exit(code)

    def _checked_answer(self, options: Options) -> CommandAnswer:
        right = self.right
        if right is not None and not self.actor.may(right):
            name = self.__class__.__module__.rsplit(".", 1)[-1]
            aim = find_aim(options)
            with audited_attempt(
                action="command.denied",
                by=self.actor,
                target_kind="command",
                target=f"{name}: {aim.target}" if aim.target else name,
                recovery=aim.recovery,
                environment=aim.environment,
                pipeline=aim.pipeline,
            ):
                self.actor.check(right)
        return self.answer(options)

    def _refuse(self, error: RepriseError, as_json: bool) -> NoReturn:
        self.stderr.write(say_refusal(error))
        if as_json:
            self.stdout.write(json.dumps(refusal_json(error)))
        sys.exit(error.exit_code)


def token_text(token_file: str | None) -> str:
    """The caller's token: `--token-file`, else REPRISE_TOKEN, else REPRISE_TOKEN_FILE. Raises WrongUse."""
    file = token_file or ("" if os.environ.get("REPRISE_TOKEN") else os.environ.get("REPRISE_TOKEN_FILE"))
    if not file:
        text = os.environ.get("REPRISE_TOKEN", "").strip()
        if not text:
            raise WrongUse(
                "This command acts in your name: set REPRISE_TOKEN to your access token, or give --token-file."
            )
        return text
    try:
        with Path(file).expanduser().open(encoding="utf-8") as stream:
            text = stream.read(LARGEST_TOKEN).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"The token file {file} cannot be read. Check its path and rights.") from error
    if not text:
        raise WrongUse(f"The token file {file} is empty.")
    return text


def _database_away(error: Exception) -> Unreachable:
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "no such table" in said or "does not exist" in said:
        return Unreachable(
            "The database has no tables yet. Start bin/demo, or run bin/manage migrate.", code="no_tables"
        )
    if "locked" in said or "lock timeout" in said:  # SQLite; PostgreSQL with a lock_timeout
        return Unreachable(
            "The database is locked by another process. Nothing was changed; try again in a moment."
        )
    return Unreachable(f"The database cannot be used: {said}. Check REPRISE_HOME or REPRISE_DATABASE_URL.")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns aligned below their heads; nothing is cut, control characters are shown as what they are."""
    cells = [[shown(str(c)) for c in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(head), *cells]) for i in range(len(head))]
    lines = [list(head), *cells]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def ago(moment: datetime | None) -> str:
    """`2 h 5 min`: how long ago; "never" for no time."""
    if moment is None:
        return "never"
    return lasting((timezone.now() - moment).total_seconds())


def lasting(seconds: float) -> str:
    """`2 h 5 min`: a length of time; 0 s for one that is over."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
