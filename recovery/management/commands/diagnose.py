"""`manage.py diagnose PIPELINE`, or `--error FILE`: why a flow, or a stream of one's own, fails, and what to do."""

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from datetime import datetime
from textwrap import fill
from typing import TYPE_CHECKING, Final

from django.utils import timezone

from recovery.cli import error_text
from recovery.cli.diagnosis_text import write_body, write_error, write_points
from recovery.contracts import codec
from recovery.contracts.diagnosis import Diagnosis, Storage
from recovery.contracts.names import ChangeIntent, Strategy, name_strategy
from recovery.diagnosis.advice import asks_meant, recommend_advice
from recovery.diagnosis.row import SEVERITIES
from recovery.errors import WrongUse
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand, ago, plain
from recovery.models import Flow, Pipeline, Recovery
from recovery.names import shown
from recovery.people.roles import Right
from recovery.pipelines.across import twins_of
from recovery.pipelines.behind import since_of
from recovery.pipelines.failures import UpdateFailure, failure_from, say_failure
from recovery.pipelines.find import find_flow, find_fresh
from recovery.pipelines.losses import is_in_doubt

if TYPE_CHECKING:
    from recovery.workflow.doubting import Doubt


class Command(RepriseCommand):
    """Exit 0: the flow is not failing; 1: it or its pipeline is, or its table or input needs attention; 2: no such
    pipeline or flow, or workspace away.

    With `--error`, 1: the text holds a failure, or none that is recognised, as no text proves that a stream is well;
    2: the text cannot be read. It needs no token and no instance: it reads what the person at the machine can read.
    """

    help = (
        "Explains why a flow fails. With --error, explains the failure of a stream of your own from "
        "its text: the end of a driver log, or an exception."
    )
    right = Right.VIEW
    examples = """\
examples:
  bin/manage diagnose customers
  bin/manage diagnose --error driver.log --checkpoint s3://bucket/checkpoints/clicks
  kubectl logs clicks-driver | bin/manage diagnose --error -"""

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("pipeline", nargs="?", help="Id or unique name of the pipeline.")
        parser.add_argument(
            "--error",
            metavar="FILE",
            help="Failure text of a stream that is no flow here; - reads stdin. Name no pipeline then.",
        )
        parser.add_argument(
            "--checkpoint",
            metavar="PATH",
            help="With --error: path or URL of that stream's checkpoint. Reprise only reads it.",
        )
        parser.add_argument(
            "--flow", help="Name, last part of the name, or target table. Default: the failing flow."
        )

    def _checked_answer(self, options: Options) -> CommandAnswer:
        if options["error"] is None:
            return super()._checked_answer(options)
        return self.answer(options)  # a text that is at hand is no flow of anybody's: no right is asked for

    def answer(self, options: Options) -> CommandAnswer:
        if options["error"] is not None:
            return _answer_of_text(options)
        if options["pipeline"] is None or options["checkpoint"] is not None:
            raise WrongUse(
                "Name a pipeline, or give --error with the text of a failed stream, optionally with --checkpoint."
            )
        pipeline = find_fresh(options["pipeline"], self.actor)
        failure = failure_from(pipeline.failure)
        if options["flow"] is None and pipeline.judged == "failed" and failure and failure.is_whole:
            return answer_of_pipeline(pipeline, failure)
        flow = find_flow(pipeline, options["flow"])
        twins = [_named(t) for t in twins_of(flow, self.actor)]
        about = {
            "pipeline": {"id": pipeline.pipeline_id, "name": pipeline.name},
            "environment": pipeline.environment,
            "flow": flow.name,
            "dataset": flow.dataset,
            "state": flow.state,
            "failing_since": flow.failing_since.isoformat() if flow.failing_since else None,
            "shares_query_id": twins,
            "problem": pipeline.workspace.poll_error or None,
        }
        from recovery.workflow.doubting import doubts_of, table_doubt_of  # late, as below: they start slowly
        from recovery.workflow.selectors import open_or_unproven_recovery_of

        recovery = open_or_unproven_recovery_of(flow.pk)
        about["recovery"] = {"recovery": recovery.label, "state": recovery.state} if recovery else None
        doubt = doubts_of([flow.pk], timezone.now()).get(flow.pk) or table_doubt_of(flow)
        about["doubt"] = {"code": doubt.code, "says": doubt.says} if doubt else None
        if flow.state != "failed" and not flow.error and not is_in_doubt(flow):
            return _answer_of_healthy(flow, about, recovery, doubt)
        from recovery.workflow.diagnosing import diagnose_flow

        found = diagnose_flow(flow)
        says = text(flow, found, twins, recovery, doubt)
        return CommandAnswer({**about, "diagnosis": codec.to_json(found)}, says, exit_code=1)


def _answer_of_healthy(
    flow: Flow, about: Mapping[str, object], recovery: Recovery | None, doubt: "Doubt | None"
) -> CommandAnswer:
    """Of a flow that does not fail: with what contradicts that it is well."""
    says = f"{flow.name} is not failing: its state is {flow.state}, its last runs {runs(flow)}."
    doubted = [f"But: {shown(doubt.says)}"] if doubt else []
    known = [write_recovery(recovery)] if recovery else []
    return CommandAnswer(
        {**about, "diagnosis": None, "says": says},
        "\n".join([says, *doubted, *known]),
        exit_code=int(doubt is not None and doubt.code.needs_attention),
    )


def _named(flow: Flow) -> dict[str, str]:
    return {"pipeline": flow.pipeline.name, "flow": flow.name}


def _answer_of_text(options: Options) -> CommandAnswer:
    """Of a text alone, or with its checkpoint. Raises WrongUse."""
    if options["pipeline"] is not None or options["flow"] is not None:
        raise WrongUse("--error is for a stream that is no flow here: leave out the pipeline and --flow.")
    return error_text.answer(options["error"], options["checkpoint"])


def answer_of_pipeline(pipeline: Pipeline, failure: UpdateFailure) -> CommandAnswer:
    """Of an update that failed before or beside its flows: it is the pipeline that fails."""
    from recovery.workflow.diagnosing import diagnose_pipeline

    found, since = diagnose_pipeline(pipeline, failure), pipeline.judged_since
    run = pipeline.workspace.run_noun
    says = say_failure(failure, run)
    about = {
        "pipeline": {"id": pipeline.pipeline_id, "name": pipeline.name},
        "environment": pipeline.environment,
        "flow": None,
        "dataset": None,
        "state": pipeline.judged,
        "failing_since": since.isoformat() if since else None,
        "problem": pipeline.workspace.poll_error or None,
        "doubt": None,
        "diagnosis": codec.to_json(found),
        "says": says,
    }
    lines = [
        plain(found.title), "",
        f"Pipeline   {shown(pipeline.name)} ({pipeline.environment})",
        _write_failing(since, f"last in {run} {shown(failure.update_id)}"),
        f"Condition  {shown(found.condition or 'none that Spark names')}",
        "", fill(plain(says), 100),
        "", "Do", *write_points(found.do), "", "Do not",
        *write_points(t.removeprefix("Do not ") for t in found.dont),
    ]  # fmt: skip
    if found.causes:
        lines += ["", "The error", write_error(found.causes[-1].message)]
    return CommandAnswer(about, "\n".join(lines), exit_code=1)


def _write_failing(since: datetime | None, last: str) -> str:
    """Since when it fails; `last`: in which update it did."""
    began = f"since {since:%Y-%m-%d %H:%M:%S} UTC, for {ago(since)}, " if since else ""
    return f"Failing    {began}{last}"


def runs(flow: Flow) -> str:
    """The history in words."""
    return ", ".join(flow.history) or "are none yet"


def write_recovery(recovery: Recovery) -> str:
    """The recovery that whoever looks at its flow has to know of, and what can be done with it."""
    from recovery.workflow.by_hand import name_ways_on
    from recovery.workflow.moves import state_label

    return f"Recovery   {recovery.label}: {state_label(recovery.state)}. {name_ways_on(recovery)}"


def text(
    flow: Flow,
    found: Diagnosis,
    twins: Sequence[Mapping[str, str]] = (),
    recovery: Recovery | None = None,
    doubt: "Doubt | None" = None,
) -> str:
    """What happened, how bad it is, what to do, what not to do, and the error itself last."""
    lines = [plain(found.title), ""]
    last = f"last in {flow.pipeline.workspace.run_noun} {flow.failed_update or 'not known'}"
    lines += [
        f"Flow       {shown(flow.name)} of pipeline {shown(flow.pipeline.name)} ({flow.pipeline.environment})",
        _write_failing(since_of(flow), last)
        if flow.state == "failed"
        else f"State      {flow.state}, {last}",
        *(
            f"Shares     its query id with {shown(t['flow'])} of pipeline {shown(t['pipeline'])}"
            for t in twins
        ),
        *([write_recovery(recovery)] if recovery else []),
        f"Condition  {shown(found.condition or 'none that Spark names')}",
        f"Damaged    {plain(found.damaged)}",
        f"Severity   {found.severity} of 5, {SEVERITIES[found.severity]}",
        *([f"Table      {shown(doubt.says)}"] if doubt else []),
    ]
    return "\n".join([*lines, *write_body(found), "", *next_lines(flow, found)])


NO_STRATEGY: Final = "Next: follow the advice above, then start {run}: the flow is well once {it} completes."
ALL_WAYS: Final = "Every way out next to each other: {plan} all"


def next_lines(flow: Flow, found: Diagnosis) -> list[str]:
    """The command that goes on: one for each answer to whether the change was meant, where it hangs on that."""
    if found.storage is Storage.MANAGED:
        return ["Next: as above. The workspace keeps this checkpoint, so no plan can be made from here."]
    plan = f"bin/manage plan {flow.pipeline.pipeline_id} --flow {flow.name} --strategy"
    advice = found.advice
    if not asks_meant(advice):
        named = next((a.strategy for a in advice if a.strategy), None)
        if not named:
            return _without_strategy(flow, plan)
        return [f"Next: {plan} {name_strategy(named)}{_missing_options(flow, named)}"]
    answers = ((ChangeIntent.YES, "If the change was meant"), (ChangeIntent.NO, "If it was a mistake"))
    ways = [(says, recommend_advice(advice, meant)) for meant, says in answers]
    lines = [
        f"{says}: {plan} {name_strategy(one.strategy)} --meant {one.right_if}{_missing_options(flow, one.strategy)}"
        for says, one in ways
        if one is not None and one.strategy
    ]
    return lines or _without_strategy(flow, plan)


def _missing_options(flow: Flow, strategy: str) -> str:
    """What a person adds to the command. Only its owner keeps the code of a plain stream's last good run."""
    if strategy == Strategy.REVERT and flow.pipeline.workspace.has_streams:
        return " --code DIR, the folder with the program as it was"
    if strategy == Strategy.REWIND:
        return f" --position 0=WISH, as bin/manage plan {flow.pipeline.pipeline_id} --positions shows"
    return ""


def _without_strategy(flow: Flow, plan: str) -> list[str]:
    """Where no advice is a strategy: what to do, and how to see whether a strategy can run all the same."""
    is_plain = flow.pipeline.workspace.has_streams
    run, it = ("the stream", "a run") if is_plain else ("an update", "it")
    return [NO_STRATEGY.format(run=run, it=it), ALL_WAYS.format(plan=plan)]
