"""Options and texts that the commands which plan and run recoveries share."""

import re
import sys
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any, Final

from recovery.approvals.selectors import plan_in_force, read_approvals
from recovery.contracts.choices import ChoicesChange
from recovery.contracts.forecast import Downstream, Forecast
from recovery.contracts.measured import JudgedCriterion
from recovery.contracts.names import ChangeIntent, name_strategy
from recovery.diagnosis.advice import meant_of
from recovery.errors import Refused, RepriseError, WrongUse
from recovery.management.commands._base import CommandAnswer, Options
from recovery.models import Flow, Plan, Recovery
from recovery.people.roles import Actor
from recovery.pipelines.find import find_flow, find_fresh
from recovery.planning import plan_now
from recovery.plans.accepted import effects_of
from recovery.sources import position_requests, targets
from recovery.strategies.common import plural
from recovery.verification.foreseen import is_beyond_proof
from recovery.verification.words import bound_findings, headline, whole_findings
from recovery.workflow import by_hand, further
from recovery.workflow.jobs_below import read_jobs_below
from recovery.workflow.moves import state_label
from recovery.workflow.selectors import open_recovery_of, recovery_or_404, rollback_refusal
from recovery.workflow.usual import usual_look

WAIT_SECONDS = 1800.0
RECOVERY: Final = re.compile(r"[Rr]-[0-9]+")


def say(line: str) -> None:
    """Progress goes to stderr: stdout is the answer's."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def say_counting(flow: Flow) -> None:
    """That Spark is asked what there is to say of rows, which takes a while, and how long it usually does."""
    usual = usual_look(flow, "facts")
    usually = f"; usually {usual.seconds:.0f} s" if usual else ""
    say(f"Reading checkpoint, code and table of {flow.short}, and counting rows{usually}.")


def flow_options(parser: ArgumentParser) -> None:
    """PIPELINE, --flow."""
    parser.add_argument("pipeline", help="Id or unique name of the pipeline; or a recovery of it, as R-12.")
    parser.add_argument(
        "--flow", help="Name, last part of the name, or target table. Default: the failing flow."
    )


class FlowsAction(Action):
    """`flow` is the first that is named, `flows` are all of them."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        namespace.flows = [*(getattr(namespace, "flows", None) or ()), values]
        namespace.flow = namespace.flows[0]


def plan_hash_option(parser: ArgumentParser) -> None:
    """`--plan HASH`: the act is of this plan alone."""
    parser.add_argument(
        "--plan",
        metavar="HASH",
        help="Hash of the plan that you read; refused if another plan is in force.",
    )


def plan_options(parser: ArgumentParser) -> None:
    """What a plan may be given."""
    parser.add_argument("pipeline", help="Id or unique name of the pipeline; or a recovery of it, as R-12.")
    parser.add_argument(
        "--flow",
        action=FlowsAction,
        help="Name, last part of the name, or target table. Default: the failing flow. Repeat it for several flows of "
        "the pipeline: their plans are sealed, approved and run together, with one update (J-3). FLOW=STRATEGY gives "
        "one of them another strategy.",
    )
    parser.set_defaults(flows=[])
    parser.add_argument(
        "--strategy",
        help="continue (seeded reset; the default), repair (repair damaged files, keep state), revert "
        "(restore the old code; the default with --meant no), rebuild (build the new code's state"
        " from processed input), prime (start its state empty), reread (go back by --position and"
        " build state again; also called rewind), replay (take table and reading back by --to and"
        " read again; also for a healthy flow), full-refresh, backfill (back up the table, "
        "refresh it, fill back rows that no input holds) or empty (an empty checkpoint for the "
        "same table). An open recovery keeps its strategy, code and key unless an option names "
        "others. plan also takes all: it compares every strategy and chooses nothing.",
    )
    parser.add_argument(
        "--to",
        metavar="TARGET",
        help=f"With --strategy replay: what it goes back to, {targets.FORMS}.",
    )
    parser.add_argument(
        "--meant",
        choices=[meant.value for meant in ChangeIntent],
        help="Whether the change that made code and checkpoint differ was intended. Approvers see the answer.",
    )
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--code", metavar="DIR", help="Folder with the changed source, in the layout of the root."
    )
    change.add_argument("--patch", metavar="FILE.diff", help="Unified diff against today's source.")
    change.add_argument(
        "--keep-code",
        action="store_true",
        help="Run the source that is in the workspace and ignore edits in the recovery.",
    )
    parser.add_argument("--key", help="Columns that identify a row in verification: a,b.")
    _start_options(parser)
    _acceptance_options(parser)
    _below_options(parser)


def _start_options(parser: ArgumentParser) -> None:
    """--position, --confirm: where sources start, and which goes on as which."""
    parser.add_argument(
        "--position",
        action="append",
        default=[],
        metavar="SOURCE[/PART]=WISH",
        help="Where to start a source, by its number in the code, or all. Repeat it for further sources. "
        f"WISH is {position_requests.FORMS}, or committed. Without it a source continues after its last committed "
        f"batch. For one Kafka partition write 0/orders-3=1200, which takes {position_requests.OF_A_PART}; "
        "the others start as their source does.",
    )
    parser.add_argument(
        "--confirm",
        action="append",
        default=[],
        metavar="OLD->NEW",
        help="Confirm which source of the code continues a source of the checkpoint: 0->1, or 0-> if "
        "it is dropped. A plan that needs this is refused and names what to confirm.",
    )


def _acceptance_options(parser: ArgumentParser) -> None:
    """--accept-loss, --accept-repeats."""
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="Accept positions and a plan that lose rows, or may. Otherwise they are refused, with the number of rows.",
    )
    parser.add_argument(
        "--accept-repeats",
        action="store_true",
        help="Accept positions that read rows again and a plan that writes rows twice, or may. "
        "Otherwise they are refused, with the number of rows.",
    )


def _below_options(parser: ArgumentParser) -> None:
    """--refresh-below, --no-refresh-below."""
    below = parser.add_mutually_exclusive_group()
    below.add_argument(
        "--refresh-below",
        action="store_true",
        default=None,
        help="Refresh the views and tables below after the rerun. This is the default unless they were"
        " left out before.",
    )
    below.add_argument(
        "--no-refresh-below",
        dest="refresh_below",
        action="store_false",
        help="Leave the views and tables below stale or empty; the plan shows it.",
    )


def seal(
    flow: Flow, options: Options, patch: Mapping[str, str] | None, *, by: Actor, again: bool = False
) -> tuple[Recovery, Plan]:
    """Seal the plan that the options of `plan_options` describe, with the patch that they name."""
    return plan_now.make_plan(
        flow=flow,
        change=read_change(options, patch),
        positions=options["position"],
        accept=effects_of(loss=options["accept_loss"], repeats=options["accept_repeats"]),
        again=again,
        by=by,
    )


def read_change(options: Options, patch: Mapping[str, str] | None) -> ChoicesChange:
    """The options as a change. What they do not name stays as it was chosen, but for the sources: those start where
    they were committed, and none is confirmed, unless `--position` and `--confirm` are there."""
    return ChoicesChange(
        meant=meant_of(options["meant"]),
        strategy=options["strategy"] or None,
        default_strategy=True,
        target=targets.parse_target(options["to"]) if options.get("to") else None,
        key=None if options["key"] is None else tuple(options["key"].split(",")),
        patch={} if options["keep_code"] else patch,
        confirmed=tuple(options["confirm"]),
        refresh_below=options["refresh_below"],
    )


def split_flow(options: Options) -> Options:
    """`--flow NAME=STRATEGY` of one flow as `--flow NAME --strategy STRATEGY`."""
    name, _, strategy = (options["flow"] or "").partition("=")
    return {**options, "flow": name, "strategy": strategy} if strategy else options


def flow_of(options: Options, by: Actor) -> Flow:
    """The flow that PIPELINE and --flow name, or a recovery as R-12, as the workspace has it now.

    Raises NotFound, Unreachable; WrongUse where both name other flows; Refused for a recovery that has ended while
    another one of its flow is open: what was meant for the one would change the other.
    """
    if recovery := recovery_of(options, by):
        flow: Flow = recovery.flow
        now, opened = find_fresh(flow.pipeline.pipeline_id, by), open_recovery_of(flow.pk)
        if options["flow"] and find_flow(now, options["flow"]) != flow:
            raise WrongUse(
                f"{recovery.label} belongs to {flow.name}, not to {options['flow']}. Name only one of the two."
            )
        if opened is not None and opened != recovery:
            raise Refused(
                f"{recovery.label} is {state_label(recovery.state)} and {opened.label} is open for {flow.short}. "
                f"Name {opened.label} to continue with it.",
                code="another_is_open",
            )
        return find_flow(now, flow.name)
    return find_flow(find_fresh(options["pipeline"], by), options["flow"])


def recovery_of(options: Options, by: Actor) -> Recovery | None:
    """The recovery that stands in place of a pipeline, as R-12. Raises NotFound."""
    return recovery_or_404(options["pipeline"], by) if RECOVERY.fullmatch(options["pipeline"]) else None


def ended(recovery: Recovery) -> CommandAnswer:
    """How a recovery that was waited for has ended: exit 0 only when it is proven."""
    data = by_hand.summary(recovery)
    lines = [f"{recovery.label} is {state_label(recovery.state)}. {recovery.reason}"]
    proof = recovery.proof
    if recovery.state == "succeeded" and proof:
        lines.append(headline(proof).says)
    lines += [_criterion(one) for one in (proof.criteria if proof else ())]
    lines += [f"  {'whole flow':<13} {f.says}" for f in whole_findings(proof)]
    lines += [f"  {'not asked':<13} {f.says}" for f in bound_findings(proof)]
    if recovery.state == "needs_attention":
        lines.append(_next_after_failure(recovery))
    if recovery.state == "diagnosing":
        lines.append("Next: seal a new plan with bin/manage plan.")
    return CommandAnswer(data, "\n".join(lines), exit_code=0 if recovery.state == "succeeded" else 1)


def _next_after_failure(recovery: Recovery) -> str:
    """The ways on, first the one that only adds rows, or only deletes repeats, where that can be planned."""
    label, proof, back = recovery.label, recovery.proof, _way_back(recovery)
    newest = recovery.steps.exclude(state__in=("pending", "skipped")).last()
    is_of_proof = newest is not None and newest.kind == "verify"
    if is_of_proof and proof is not None and all(criterion.ok is not False for criterion in proof.criteria):
        ran = plan_in_force(recovery)
        if ran is not None and is_beyond_proof(ran.contents, proof):
            return (
                "Next: nothing is known to be wrong, and as the plan said, new rows cannot be compared here. Compare "
                f"them yourself, then end it without proof: bin/manage skip {label} --reason TEXT. {back}"
            )
        return (
            "Next: nothing is known to be wrong, and not all could be measured. Measure again: bin/manage execute "
            f"{label} --wait. End it without proof: bin/manage skip {label} --reason TEXT. {back}"
        )
    resume = f"remove the cause, then bin/manage execute {label} --wait. {back}"
    way = further.find_way(recovery)
    if way is None:
        return f"Next: {resume}"
    plan = f"bin/manage plan {label} --strategy {name_strategy(way.strategy)}"
    return f"Next: {plan} plans a correction of the {way.says}, once. Or {resume}"


def _way_back(recovery: Recovery) -> str:
    """The command that undoes it, or why it cannot be undone; "" where the workspace does not answer."""
    try:
        no_way_back = rollback_refusal(recovery)
    except RepriseError:
        return ""
    if no_way_back:
        return f"It cannot be rolled back: {no_way_back.says}"
    return f"Undo it: bin/manage rollback {recovery.label}."


def awaited(recovery: Recovery, plan: Plan) -> str:
    """What this plan waits for, and the command that goes on, for people."""
    if recovery.state == "diagnosing":
        return f"{recovery.label} is being prepared again: {recovery.reason}"
    state = f"is {recovery.state.replace('_', ' ')}"
    return describe_wait(recovery.label, state, recovery, plan)


def describe_wait(label: str, state: str, recovery: Recovery, plan: Plan) -> str:
    """The same of R-n, or of J-n by the approval of one of its plans."""
    approval = read_approvals(recovery, plan)
    awaited_consent = approval["awaits"]
    if awaited_consent is None:
        return f"It may run: bin/manage execute {label} --wait"
    voters = ", ".join(approval["voters"]) or "no one, ask an admin"
    who = f" Who may vote: {voters}." if approval["missing"] else ""
    vote = f"Vote with: bin/manage approve {label} --reason TEXT, or reject."
    return f"{label} {state}: {awaited_consent['says']}{who}\n{vote}"


def _criterion(one: JudgedCriterion) -> str:
    mark = {True: "holds", False: "FAILS", None: "not measured"}[one.ok]
    return f"  {mark:<13} {one.says} {one.why}"


def _after(forecast: Forecast) -> str:
    """What stands in the table then; where no one knows, or there is none, what is written."""
    rows, written = forecast.table_after, forecast.new_rows
    if rows is None:
        return f"writes   {'an unknown number of' if written is None else f'{written:,}'} rows"
    return f"table    {rows} rows afterwards"


def _below(one: Downstream) -> str:
    """What becomes of a dataset below, in a few words."""
    rows = "" if one.rows is None else f", {plural(one.rows, 'row')}"
    return f"{one.effect}{rows}{_fewer(one)}" + (f" ({one.reason.replace('_', ' ')})" if one.reason else "")


def _fewer(one: Downstream) -> str:
    """What of a loss reaches it."""
    if one.fewer is None:
        return ""
    lost, rows = "lacks lost rows", one.fewer.rows
    return (
        f", {lost}, number unknown" if rows is None else f", {lost}: {one.fewer.bound.before_number}{rows:,}"
    )


def plan_text(data: Mapping[str, Any], plan: Plan, then: str) -> str:
    """The forecast, the findings and the steps of a plan, for people."""
    forecast = plan.contents.forecast
    lines = [
        f"Plan {data['plan_hash'][:8]} of {data['recovery']}: {name_strategy(data['strategy'])}",
        "",
        "Forecast",
    ]
    for name, part in (("lost", forecast.lost), ("doubled", forecast.doubled), ("reread", forecast.reread)):
        rows = "unknown" if part.rows is None else f"{part.rows:,}"
        of = f" in {plural(part.files, 'file')}" if part.files else ""
        lines.append(f"  {name:<8} {rows:>8} rows{of}, {part.bound}. {part.why}".rstrip())
    lines.append(f"  {_after(forecast)}; state: {forecast.state}")
    lines += [f"  below    {d.dataset}: {_below(d)}" for d in forecast.downstream]
    known = read_jobs_below(plan.recovery.flow)
    for job in (known.jobs if known else None) or ():
        lines.append(f"  below    {job.dataset}: named by job {job.name}, {job.by} {job.parameter}".rstrip())
    lines.append("  below    readers outside of the registered workspaces are not known")
    for finding in data["findings"]:
        lines += ["", f"{finding['severity'].capitalize()}: {finding['says']}", f"  {finding['do']}"]
    lines += ["", "Steps"] + [
        f"  {n}. {step.kind:<7} {step.says}" for n, step in enumerate(plan.contents.steps, start=1)
    ]
    lines += ["", f"Undo: {data['rollback']}", f"Next: {then}"]
    return "\n".join(lines)
