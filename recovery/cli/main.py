"""The command `reprise`, for one look at one checkpoint: installed alone, without console, database or Spark."""

import argparse
import json
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import metadata
from typing import Final, NoReturn

from recovery.cli import error_text, evidence, inspection
from recovery.cli.answer import CommandAnswer, refusal_json, say_refusal, wrong_use_json
from recovery.errors import RepriseError, WrongUse

INTERRUPTED: Final = 130
EXITS: Final = (
    "exit codes: 0 good; 1 the answer is bad news or a refusal; 2 wrong use, or something cannot be reached."
)
EXAMPLES: Final = f"""\
examples:
  reprise inspect /data/checkpoints/orders --sink /data/tables/orders
  reprise inspect s3://shop-lake/checkpoints/orders --json
  kubectl logs orders-driver | reprise diagnose --error - s3://shop-lake/checkpoints/orders
  reprise evidence verify reprise-R-7-evidence.zip --key PUBLIC_KEY

{EXITS}"""


class CliParser(ArgumentParser):
    """Wrong use is one JSON object too, when JSON was asked for."""

    as_json = False

    def error(self, message: str) -> NoReturn:
        if CliParser.as_json:
            print_json(wrong_use_json(message))
        super().error(message)


def make_parser() -> CliParser:
    """The commands and their options."""
    parser = CliParser(
        prog="reprise",
        description="Shows what a Spark stream's checkpoint is worth, and why its program failed. Changes nothing.",
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"reprise {read_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    inspect = _add_command(commands, "inspect", "Show whether a checkpoint is sound.", inspection.HELP)
    inspection.add_options(inspect)
    diagnose = _add_command(
        commands, "diagnose", "Explain why a stream failed, by the text of its failure.", error_text.HELP
    )
    error_text.add_options(diagnose)
    short = "Check offline what an audit log gave out."
    acts = commands.add_parser("evidence", help=short, description=short).add_subparsers(
        dest="act", required=True, metavar="ACT"
    )
    verify = _add_command(acts, "verify", "Show whether files are what was given out.", evidence.HELP)
    evidence.add_options(verify)
    return parser


def _add_command(
    commands: "argparse._SubParsersAction[CliParser]", name: str, short: str, description: str
) -> CliParser:
    made = commands.add_parser(name, help=short, description=description, epilog=EXITS)
    made.add_argument("--json", action="store_true", help="One JSON object on stdout.")
    return made


def read_version() -> str:
    """The version of the wheel; "from a checkout" where none is installed."""
    try:
        return metadata.version("reprise")
    except metadata.PackageNotFoundError:
        return "from a checkout"


def give_answer(options: argparse.Namespace) -> CommandAnswer:
    """What the command answers. Raises RepriseError."""
    if options.command == "inspect":
        return inspection.answer(inspection.request_of(vars(options)))
    if options.command == "diagnose":
        if options.place and options.checkpoint:
            raise WrongUse("Name the checkpoint once: as an argument, or with --checkpoint.")
        return error_text.answer(options.error, options.place or options.checkpoint)
    return evidence.answer(options.files, options.key)


def print_json(value: object) -> None:
    """One JSON object on stdout."""
    sys.stdout.write(json.dumps(value) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    CliParser.as_json = "--json" in given
    options = make_parser().parse_args(given)
    try:
        found = give_answer(options)
    except RepriseError as error:
        sys.stderr.write(f"{say_refusal(error)}\n")
        found = CommandAnswer(refusal_json(error), "", error.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    try:
        if options.json:
            print_json(found.data)
        elif found.text:
            sys.stdout.write(f"{found.text}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has seen enough; Python would complain of it again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return found.exit_code


if __name__ == "__main__":
    sys.exit(main())
