"""`manage.py workspace add|change|test|on|off|list|remove`: the workspaces that the console polls."""

import sys
from argparse import ArgumentParser
from typing import Any

from recovery import references
from recovery.contracts import codec
from recovery.errors import WrongUse
from recovery.management.commands._base import (
    CommandAnswer,
    Options,
    RepriseCommand,
    add_common_options,
    ago,
    table,
)
from recovery.models import Workspace
from recovery.names import shown
from recovery.people.roles import ENVIRONMENTS, Right
from recovery.pipelines import actions, workspace_words
from recovery.pipelines.actions import WorkspaceDetails
from recovery.pipelines.workspace_answers import AnswerResult, WorkspaceTest
from recovery.pipelines.workspace_asking import keep_test

STDIN = "-"


class Command(RepriseCommand):
    """`add`, `change`, `on`, `off`, `remove`: `{workspace}`; `list`: `{workspaces}`; `test`: `{name, test}`.

    A test ends with 1 where something is missing, with 2 where nothing answers.
    """

    help = "Adds, tests, changes, switches, lists and removes workspaces."
    right = Right.MANAGE
    examples = (
        "Examples:\n"
        "  bin/manage workspace add main-eu --url https://main-eu.example --secret - < token\n"
        "  bin/manage workspace add dev --url https://dev.example --secret env:REPRISE_WORKSPACE_DEV "
        "--environment development\n"
        "  bin/manage workspace test main-eu"
    )

    def add_options(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True, metavar="add|change|test|on|off|list|remove")
        self._described(acts.add_parser("add", help="Add a workspace."), needed=True)
        self._described(
            acts.add_parser("change", help="Change address, environment or secrets."), needed=False
        )
        for act, says in (
            ("test", "Ask it six questions; reads only."),
            ("on", "Poll it again."),
            ("off", "Poll it no more; its history stays."),
        ):
            one = acts.add_parser(act, help=says)
            one.add_argument("name")
            add_common_options(one)
        add_common_options(acts.add_parser("list", help="List all workspaces with their last test."))
        gone = acts.add_parser("remove", help="Erase its secrets and hide it. Its recoveries stay.")
        gone.add_argument("name")
        gone.add_argument("--reason", default="", help="Why, for the audit log.")
        add_common_options(gone)

    def _described(self, parser: ArgumentParser, *, needed: bool) -> None:
        parser.add_argument("name")
        if needed:
            parser.add_argument(
                "--kind",
                choices=actions.KINDS,
                help="pipelines (the default) or streams, for adopted plain streams.",
            )
        parser.add_argument("--url", help="https://host, without a path. Not for plain streams.")
        parser.add_argument(
            "--event-log",
            action="append",
            metavar="URL",
            help="For plain streams: a folder of Spark's event logs. Repeat it for more; '' for none.",
        )
        parser.add_argument(
            "--secret",
            metavar="REF|-",
            help=f"The workspace's token: {references.WORKSPACES.rule}; - reads it from stdin and keeps it encrypted.",
        )
        parser.add_argument(
            "--questions-url",
            help="Reprise's Pipelines API server that studies its code and counts its rows; '' for none.",
        )
        parser.add_argument(
            "--questions-secret",
            metavar="REF|-",
            help="Token of that server, as for --secret. Not needed if that server is the workspace.",
        )
        parser.add_argument(
            "--questions-spark",
            metavar="NAME",
            help="Name of the workspace's Spark in that server's REPRISE_SPARK_REMOTES.",
        )
        parser.add_argument(
            "--environment", choices=ENVIRONMENTS, help="Environment whose rules apply. Default: production."
        )
        parser.add_argument(
            "--root",
            action="append",
            metavar="PLACE",
            help="Read checkpoints and tables only below this folder or URL. Repeat it for more; '' for "
            "all that the instance may read.",
        )
        add_common_options(parser)

    def answer(self, options: Options) -> CommandAnswer:
        act, name = options["act"], options.get("name", "")
        if act == "list":
            return self._list()
        if act == "test":
            return self._test(name)
        return self._changed(act, name, options)

    def _changed(self, act: str, name: str, options: Options) -> CommandAnswer:
        if act == "add":
            row = actions.add_workspace(name=name, given=_given(options), by=self.actor)
        elif act == "change":
            row = actions.change_workspace(name=name, given=_given(options), by=self.actor)
        elif act == "remove":
            row = actions.remove_workspace(name=name, reason=options["reason"], by=self.actor)
        else:
            row = actions.switch_workspace(name=name, on=act == "on", by=self.actor)
        words = {
            "add": "added",
            "change": "changed",
            "remove": "removed",
            "on": "switched on",
            "off": "switched off",
        }
        data = codec.to_json(actions.describe_workspace(row))
        tail = f" Next: bin/manage workspace test {shown(row.name)}" if act in ("add", "change", "on") else ""
        return CommandAnswer(
            {"workspace": data}, f"Workspace {shown(row.name)} ({row.environment}) {words[act]}.{tail}"
        )

    def _test(self, name: str) -> CommandAnswer:
        row = actions.note_test(name=name, by=self.actor)
        found = keep_test(row.pk)
        assert found is not None, "it was there a moment ago"
        good = found.held == len(found.answers)
        data = {"name": row.name, "test": workspace_words.as_json(found)}
        return CommandAnswer(data, _lines(found), exit_code=0 if good else 1 if found.reached else 2)

    def _list(self) -> CommandAnswer:
        rows = list(Workspace.objects.kept().order_by("name"))
        data = [{**codec.to_json(actions.describe_workspace(w)), **_state(w)} for w in rows]
        if not rows:
            return CommandAnswer({"workspaces": []}, "No workspace yet. Add one: bin/manage workspace add.")
        head = ("NAME", "ENVIRONMENT", "ADDRESS", "STATE", "POLLED", "LAST TEST")
        lines = [
            (
                w.name,
                w.environment,
                w.url or "plain streams",
                _word(w),
                f"{ago(w.polled_at)} ago" if w.polled_at else "never",
                _tested(w),
            )
            for w in rows
        ]
        return CommandAnswer({"workspaces": data}, table(head, lines))


def _given(options: Options) -> WorkspaceDetails:
    token, questions = options["secret"], options["questions_secret"]
    if token == questions == STDIN:
        raise WrongUse("Only one secret can be read from stdin. Give the other one as a reference.")
    return WorkspaceDetails(
        url=options["url"],
        environment=options["environment"],
        token=_stdin() if token == STDIN else None,
        token_ref=None if token == STDIN else token,
        questions_url=options["questions_url"],
        questions_token=_stdin() if questions == STDIN else None,
        questions_token_ref=None if questions == STDIN else questions,
        questions_spark=options["questions_spark"],
        kind=options.get("kind"),
        event_logs=None if options["event_log"] is None else tuple(filter(None, options["event_log"])),
        roots=None if options["root"] is None else tuple(filter(None, options["root"])),
    )


def _stdin() -> str:
    text = sys.stdin.read(actions.LONGEST_SECRET + 2).strip()
    if not text:
        raise WrongUse("The secret was to come from stdin, which is empty.", code="no_secret")
    return text


def _state(row: Workspace) -> dict[str, Any]:
    return {
        "polled_at": row.polled_at.isoformat() if row.polled_at else None,
        "problem": row.poll_error or None,
        "test": workspace_words.as_json(WorkspaceTest.from_dict(row.tested)),
    }


def _word(row: Workspace) -> str:
    return (
        "off" if not row.on else "no answer" if row.poll_error else "ok" if row.polled_at else "not asked yet"
    )


def _tested(row: Workspace) -> str:
    found = WorkspaceTest.from_dict(row.tested)
    return f"{found.held} of {len(found.answers)} hold, {ago(found.began)} ago" if found else "never"


def _lines(test: WorkspaceTest) -> str:
    """A question a line, what it means below it."""
    told: list[str] = []
    for line in workspace_words.lines(test):
        mark = "ok" if line.result is AnswerResult.HOLDS else line.holds
        told.append(f"{line.number}  {mark:<9}  {line.asks}  {shown(line.answer)}")
        told += [f"              {cost}" for cost in line.means]
    return "\n".join(
        [*told, "", f"{test.held} of {len(test.answers)} hold, {test.seconds} s. Nothing was changed."]
    )
