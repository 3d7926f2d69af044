"""`manage.py adopt CHECKPOINT`: a plain Structured Streaming query joins the inventory, where it runs.

`--roots` finds many of them, and matches each with its event log by query id.
"""

import shlex
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Final

from django.conf import settings

from recovery.errors import WrongUse
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand, table
from recovery.models import Pipeline
from recovery.names import shown
from recovery.people.roles import ENVIRONMENTS, Right
from recovery.pipelines import retagging
from recovery.strategies.common import plural
from recovery.streams.actions import RUNNERS, StreamDetails, adopt_stream
from recovery.streams.candidates import (
    Listing,
    SkipReason,
    StreamCandidate,
    adopt_candidates,
    list_candidates,
    workspaces_of,
)
from recovery.streams.describing import stream_json
from recovery.streams.finding import ScanProblem

OF_ONE = ("sink", "program", "argument", "spark_python", "runner", "start", "stop", "running", "name")
UNMATCHED: Final = 20
"""So many queries without a checkpoint are named; `--json` names more."""
SKIPS = {
    SkipReason.NONE: "",
    SkipReason.ADOPTED: "on the list",
    SkipReason.SHARED: "its query id is in another folder too",
    SkipReason.NO_QUERY: "no query id can be read",
    SkipReason.OVER_LIMIT: "beyond the limit of one call",
}


def join_arguments(words: Sequence[str]) -> list[str]:
    """`--argument --env=prod` as one word: argparse would take what follows for an option of its own, and refuse it."""
    joined, left = [], iter(words)
    for word in left:
        value = next(left, None) if word == "--argument" else None
        joined.append(word if value is None else f"{word}={value}")
    return joined


class Command(RepriseCommand):
    """`{pipeline, flow}`, and what is known of it: `{state, checkpoint, sink, event_log, program, runner}`. With
    `--roots`: `{found, adopted, streams[], unmatched[], refused[], problems[]}`; exit 1 where one was refused."""

    help = "Adopts a plain stream by its checkpoint. Changes nothing of the stream."
    right = Right.RECOVER
    examples = (
        "Examples:\n"
        "  bin/manage adopt s3://shop-lake/checkpoints/orders --sink s3://shop-lake/tables/orders "
        "--event-log s3://shop-lake/spark-events\n"
        "  bin/manage adopt --roots s3://shop-lake/checkpoints --event-log s3://shop-lake/spark-events --list\n"
        "  bin/manage adopt /data/checkpoints/orders --program /srv/orders.py --argument --in=/data/in "
        "--start 'systemctl start orders' --stop 'systemctl stop orders' "
        "--running 'systemctl is-active --quiet orders'"
    )

    def run_from_argv(self, argv: list[str]) -> None:
        super().run_from_argv([*argv[:2], *join_arguments(argv[2:])])

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "checkpoint", nargs="?", help="The folder that the program names as checkpointLocation."
        )
        parser.add_argument(
            "--roots", nargs="+", metavar="FOLDER", help="Adopt every checkpoint below these folders instead."
        )
        parser.add_argument(
            "--list", action="store_true", help="With --roots: show what would be adopted and stop."
        )
        parser.add_argument("--name", help="Its name in Reprise. Default: the folder's name.")
        parser.add_argument("--sink", metavar="PATH|TABLE", help="Where it writes. Needed to count its rows.")
        parser.add_argument(
            "--event-log",
            metavar="URL",
            help="Folder of Spark's event logs: they show cause, rates and state.",
        )
        parser.add_argument(
            "--program", metavar="FILE", help="Its Python file. Shows what the next start would do."
        )
        parser.add_argument(
            "--argument", action="append", metavar="A", help="An argument of the program. Repeat it for more."
        )
        parser.add_argument(
            "--spark-python",
            metavar="PYTHON",
            help="The Python that runs it. Recorded only: Reprise studies programs with the server's own.",
        )
        parser.add_argument(
            "--runner",
            choices=RUNNERS,
            help="Who starts and stops it. Default: command with --start (needs --running too), else by-hand.",
        )
        for name, says in (
            ("start", "Starts it."),
            ("stop", "Stops it."),
            ("running", "Ends with 0 while it runs, with another number else."),
        ):
            parser.add_argument(
                f"--{name}",
                metavar="CMD",
                help=f"{says} Words as for a shell, run by the worker without one. Needs an admin's token.",
            )
        parser.add_argument("--owner", metavar="TEXT", help="Who owns it: a team, an address.")
        parser.add_argument(
            "--environment", choices=ENVIRONMENTS, help="Environment whose rules apply. Default: production."
        )
        parser.add_argument(
            "--workspace", metavar="NAME", help="The workspace of plain streams, if there are several."
        )

    def answer(self, options: Options) -> CommandAnswer:
        if bool(options["checkpoint"]) == bool(options["roots"]):
            raise WrongUse("Name one checkpoint, or --roots with the folders above several.")
        if options["roots"]:
            return self._many(options)
        if options["list"]:
            raise WrongUse("--list needs --roots, the folders to search.")
        stream = adopt_stream(checkpoint=options["checkpoint"], said=_said(options), by=self.actor)
        data, pipeline = stream_json(stream), stream.pipeline
        is_unique = Pipeline.objects.filter(name=pipeline.name).count() == 1
        typed = shlex.quote(pipeline.name) if is_unique else pipeline.pipeline_id
        waits = ""
        if moves_at := retagging.moves_at(pipeline):
            waits = (
                f" It stays in {pipeline.environment} until {moves_at:%Y-%m-%d %H:%M} UTC, and while a recovery is "
                f"open: {pipeline.wanted_environment} has weaker rules."
            )
        return CommandAnswer(
            data,
            f"Stream {shown(str(data['flow']))} is on the list: {data['state']}.{waits} "
            f"Next: bin/manage diagnose {typed}",
        )

    def _many(self, options: Options) -> CommandAnswer:
        if given := [name for name in OF_ONE if options[name] is not None]:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise WrongUse(
                f"{names} applies to a single stream. Leave it out with --roots, and set it later."
            )
        said = _said(options)
        listing = list_candidates(roots=options["roots"], said=said, by=self.actor)
        found, refused = list(listing.candidates), list[ScanProblem]()
        if not options["list"]:
            found, refused = adopt_candidates(listing=listing, said=said, by=self.actor)
            _poll(found)
        before = {c.place for c in listing.candidates if c.skip is SkipReason.ADOPTED}
        adopted = [c for c in found if c.pipeline and c.place not in before]
        data = {
            "found": len(found),
            "adopted": len(adopted),
            "streams": [c.as_json() for c in found],
            "refused": [_problem(p) for p in refused],
            "problems": [_problem(p) for p in listing.scan.problems],
            "is_whole": listing.scan.is_whole and listing.logs_are_whole,
            "folders": listing.scan.folders,
            "versioned": listing.scan.versioned,
            "logs": listing.logs,
            "queries_without_checkpoint": listing.queries_without,
            "unmatched": [u.as_json() for u in listing.unmatched],
            "seconds": listing.seconds,
        }
        says = _text(found, listing, len(adopted), is_list=options["list"])
        return CommandAnswer(data, says, exit_code=int(bool(refused)))


def _said(options: Options) -> StreamDetails:
    arguments = options["argument"]
    return StreamDetails(
        name=options["name"],
        sink=options["sink"],
        event_log=options["event_log"],
        program=options["program"],
        arguments=None if arguments is None else tuple(arguments),
        spark_python=options["spark_python"],
        runner=options["runner"],
        start=options["start"],
        stop=options["stop"],
        running=options["running"],
        environment=options["environment"],
        workspace=options["workspace"],
        owner=options["owner"],
    )


def _poll(found: list[StreamCandidate]) -> None:
    from recovery.pipelines.inventory import refresh  # late: a list that adopts nothing starts without it

    for workspace_id in workspaces_of(found):
        refresh(workspace_id=workspace_id)


def _problem(problem: ScanProblem) -> dict[str, str]:
    return {"place": problem.place, "code": problem.code, "says": problem.says}


def _write_unmatched(listing: Listing) -> str:
    """The queries without a checkpoint, each with its application; the first of many."""
    head = ("QUERY", "NAME", "STATE", "APPLICATION")
    rows = [
        (shown(u.query_id), shown(u.name), u.state, shown(u.application))
        for u in listing.unmatched[:UNMATCHED]
    ]
    queries = plural(listing.queries_without, "query", "queries")
    lines = [f"Without a checkpoint below these folders: {queries} of the event logs.", table(head, rows)]
    if more := listing.queries_without - len(rows):
        lines.append(f"And {more:,} more. --json names more of them.")
    return "\n".join(lines)


def _text(found: list[StreamCandidate], listing: Listing, adopted: int, *, is_list: bool) -> str:
    """The list, then what is wrong with it, then what to type next."""
    head = ("NAME", "STATE", "LAST BATCH", "CHECKPOINT", "NOT ADOPTED")
    rows = [
        (
            shown(c.name),
            c.state,
            "" if c.committed is None else str(c.committed),
            shown(c.place),
            shown(c.problem.says) if c.problem else SKIPS[c.skip],
        )
        for c in found
    ]
    new = sum(c.skip is SkipReason.NONE for c in listing.candidates)
    parts = [table(head, rows)] if rows else ["No checkpoint of a plain stream is below these folders."]
    parts += [f"{shown(p.place)}: {shown(p.says)}" for p in listing.scan.problems]
    if over := sum(c.skip is SkipReason.OVER_LIMIT for c in found):
        parts.append(
            f"{over} more can be adopted. Ask again: one call adopts at most {settings.REPRISE_ADOPT_MOST} "
            "(REPRISE_ADOPT_MOST)."
        )
    if not listing.scan.is_whole:
        parts.append("The search was cut short by its bounds: name folders further down.")
    if not listing.logs_are_whole:
        parts.append("Not all of the event logs were read. Ask again: it goes on where it ended.")
    if listing.queries_without:
        parts.append(_write_unmatched(listing))
    parts.append(
        f"{new} would be adopted. Leave --list out to adopt them."
        if is_list
        else f"{adopted} adopted. Next: bin/manage flows --failing"
    )
    return "\n\n".join(parts)
