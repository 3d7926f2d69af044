"""What the commands do with the same actions as the pages: open, stop, run, wait, report."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypedDict

from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.positions import ShownSource
from recovery.errors import Refused, RepriseError, Unreachable, WrongUse
from recovery.models import Flow, JointPlan, Plan, Recovery, Step
from recovery.people.roles import Actor
from recovery.pipelines import starters
from recovery.pipelines.workspaces import client_for
from recovery.sources.base import StartChoice
from recovery.workflow import actions, joining, positioning
from recovery.workflow.awaited import PersonAct, awaited_act
from recovery.workflow.deployed import read_code
from recovery.workflow.flow_snapshot import find_active_update
from recovery.workflow.journal import trying_flow
from recovery.workflow.lineends import laid_over
from recovery.workflow.moves import state_label
from recovery.workflow.patching import apply_diff
from recovery.workflow.selectors import open_recovery_of, plan_of, rollback_refusal
from recovery.workflow.usual import UsualDuration, usual_steps

Say = Callable[[str], None]
MOVING = frozenset({"running", "verifying"})
SILENCE_SECONDS: Final = 15.0
"""After so long without a line a command says that the step still runs."""


def open_or_go_on(flow: Flow, *, by: Actor, again: bool = False, healthy: bool = False) -> Recovery:
    """The flow's recovery: opened now, or the open one that has no plan in force yet; with `again` its plan is
    taken back where it has not run. `healthy`: as `actions.open_recovery`.

    Raises Refused when the open one already has a plan or runs, and for a healthy flow.
    """
    opened = open_recovery_of(flow.pk)
    if opened is None:
        return actions.open_recovery(flow_id=flow.pk, by=by, healthy=healthy)
    if again and plan_of(opened) is not None:
        actions.edit_again(recovery_id=opened.pk, by=by)
        opened.refresh_from_db()
    if opened.state != "diagnosing":
        ways = name_ways_on(opened)  # asks API and storage, so before the transaction
        with trying_flow("recovery.open", flow, by, recovery=opened.label):
            raise Refused(
                f"{opened.label}, opened by {opened.created_by}, is already open for {flow.short} "
                f"({state_label(opened.state)}). {ways}",
                code="already_open",
            )
    return opened


def name_ways_on(opened: Recovery) -> str:
    """What can be done with an open recovery, or with one that ended without proof. Asks API and storage whether a
    rollback is possible."""
    label = opened.label
    if opened.state == "unproven":
        if _may_go_back(opened):
            return f"Undo it with: bin/manage rollback {label}, or plan the next one with: bin/manage plan."
        return "Plan the next one with: bin/manage plan."
    if opened.state == "diagnosing":
        return f"Go on with: bin/manage plan {label}, or end it with: bin/manage cancel {label}."
    if opened.state in MOVING:
        return f"Watch it with: bin/manage execute {label} --wait, or stop it with: bin/manage stop."
    if opened.state == "needs_attention":
        undo = f", or undo it with: bin/manage rollback {label}" if _may_go_back(opened) else ""
        return f"Resume it with: bin/manage execute {label}{undo}."
    return (
        f"Run it with: bin/manage execute {label}, change it with: bin/manage plan --again, or end it with: "
        f"bin/manage cancel {label}."
    )


def _may_go_back(recovery: Recovery) -> bool:
    """Whether a rollback is possible; no where API or storage do not answer."""
    try:
        return rollback_refusal(recovery) is None
    except RepriseError:
        return False


def is_running(flow: Flow) -> bool:
    """Is an update of the flow's pipeline active, by the Pipelines API?"""
    answer = client_for(flow.pipeline.workspace).get_pipeline(flow.pipeline.pipeline_id)
    return find_active_update(answer) is not None


def needs_stop(flow: Flow) -> bool:
    """Does the flow's pipeline run, or can it at any time?"""
    return is_running(flow) or can_start(flow)


def can_start(flow: Flow) -> bool:
    """Is something awake that starts the pipeline without a person: a job, its continuous mode, its retries?"""
    client = client_for(flow.pipeline.workspace)
    return bool(starters.known(client, flow.pipeline.pipeline_id).awake)


def look(
    *,
    flow: Flow,
    recovery: Recovery | None,
    given: Sequence[str],
    code: str | None,
    diff: str | None,
    keep_code: bool = False,
    by: Actor,
) -> tuple[dict[str, StartChoice | None], tuple[ShownSource, ...]]:
    """What other positions would cost: as `positioning.looked_at`, with the code that was named, else that which the
    recovery holds, or with `keep_code` the code as it is. Changes nothing; it is in the log, since Spark runs the code.

    Raises Denied, WrongUse, Unreachable.
    """
    label = recovery.label if recovery else ""
    with trying_flow("recovery.look", flow, by, recovery=label) as attempted:
        attempted.done(
            f"What would be read from other positions was asked: {'; '.join(given) or 'as committed'}."
        )
    patch = read_patch(flow, code=code, diff=diff)
    if keep_code:
        patch = {}
    elif patch is None and recovery is not None:
        patch = recovery.chosen.patch
    return positioning.looked_at(flow, given, patch)


def read_patch(flow: Flow, *, code: str | None, diff: str | None) -> Mapping[str, str] | None:
    """New text by workspace path, from a folder laid out like the pipeline's root or from a unified diff; None where
    neither is named.

    Raises WrongUse when a file cannot be read or the diff does not apply.
    """
    if not code and not diff:
        return None
    client = client_for(flow.pipeline.workspace)
    spec = client.get_pipeline(flow.pipeline.pipeline_id).get("spec") or {}
    libraries, now = read_code(client, spec)
    if diff:
        try:
            return apply_diff(Path(diff).read_text(encoding="utf-8"), now)
        except (OSError, UnicodeDecodeError) as error:
            raise WrongUse(f"{diff} cannot be read: {error}") from error
    return _folder(Path(code or ""), now, (spec.get("root_path") or "").rstrip("/"), libraries)


def _folder(folder: Path, now: Mapping[str, str], root: str, libraries: Sequence[str]) -> dict[str, str]:
    if not folder.is_dir():
        raise WrongUse(f"{folder} is not a folder. --code takes a folder laid out like the pipeline's root.")
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".py", ".sql") or not path.is_file() or "__pycache__" in path.parts:
            continue
        name = path.relative_to(folder).as_posix()
        target = next((p for p in now if p == f"{root}/{name}"), None) or _by_name(now, path.name)
        try:
            found[target or f"{root}/{name}"] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WrongUse(f"{path} cannot be read as UTF-8 text: {error}") from error
    if not found:
        raise WrongUse(
            f"{folder} holds no .py or .sql file. The pipeline's files are: {', '.join(libraries)}."
        )
    return {path: text for path, text in found.items() if laid_over(now, {path: text})[path] != now.get(path)}


def _by_name(now: Mapping[str, str], name: str) -> str | None:
    """A file given without its folders stands for the only workspace file of that name."""
    same = [p for p in now if p.rsplit("/", 1)[-1] == name]
    return same[0] if len(same) == 1 else None


def stop_first(*, flow: Flow, recovery_id: int, by: Actor, say: Say, timeout: float = 120) -> None:
    """Stop the pipeline by a worker, when an update is active or something can start one; wait until that is proven."""
    if not needs_stop(flow):
        return
    step = actions.request_stop(recovery_id=recovery_id, by=by)
    say(f"Stopping {'stream' if flow.pipeline.workspace.has_streams else 'pipeline'} {flow.pipeline.name}.")
    _wait_for_step(step.pk, time.monotonic() + timeout, say)


def _wait_for_step(step_id: int, until: float, say: Say) -> None:
    said: dict[int, int] = {}
    while True:
        step = Step.objects.get(pk=step_id)
        _say_news(step, said, say)
        if step.state == "done":
            return
        if step.state == "failed" or (step.state == "unknown" and step.evidence):
            raise Refused(f"The stop failed: {step.problem}")
        if time.monotonic() > until:
            raise Unreachable(
                "The stop did not end in time. Check that a worker is running, and look at its log in the logs "
                "folder."
            )
        time.sleep(0.1)


def _say_news(step: Step, said: dict[int, int], say: Say) -> bool:
    """Say the lines of a step's log that are new, and whether there were any. `said`: how many were said of each step,
    kept here."""
    new = step.log[said.get(step.pk, 0) :]
    for stamp, line in new:
        say(f"{stamp[11:19]}  {step.kind:<8} {line}")
    said[step.pk] = len(step.log)
    return bool(new)


def _say_still_running(steps: Sequence[Step], usual: Mapping[str, UsualDuration], say: Say) -> None:
    """That the step which runs does so, for how long, and how long it usually takes; or for which act of a person it
    waits."""
    step, now = next((s for s in steps if s.state == "running"), None), timezone.now()
    if step is None or step.started_at is None:
        return
    if awaited := awaited_act(step):
        act = "start" if awaited.act is PersonAct.START else "stop"
        lasts, since = f"Waits for your {act}", awaited.asked_at or step.started_at
        usually = ""
    else:
        lasts, since, known = "Runs", step.started_at, usual.get(step.kind)
        usually = f", usually {known.seconds:.0f} s" if known else ""
    say(f"{now:%H:%M:%S}  {step.kind:<8} {lasts} for {(now - since).total_seconds():.0f} s{usually}.")


def wait(recovery: Recovery, *, say: Say, timeout: float) -> Recovery:
    """Follow the steps until the recovery rests; say each line of their logs once, and in a silence what still runs.

    Raises Unreachable when no worker takes a step, or when the time is over (the recovery goes on).
    """
    said: dict[int, int] = {}
    heard = time.monotonic()
    until, usual = heard + timeout, usual_steps(recovery.flow)
    while True:
        recovery.refresh_from_db()
        steps = list(recovery.steps.all())
        news = [_say_news(step, said, say) for step in steps]
        if _rests(recovery, steps):
            return recovery
        if any(news):
            heard = time.monotonic()
        elif time.monotonic() - heard >= SILENCE_SECONDS:
            _say_still_running(steps, usual, say)
            heard = time.monotonic()
        _worker_is_there(steps)
        if time.monotonic() > until:
            raise Unreachable(
                f"{recovery.label} has not ended within {timeout:.0f} s. It continues without this command; watch "
                f"it with: bin/manage execute {recovery.label} --wait."
            )
        time.sleep(0.1)


def _rests(recovery: Recovery, steps: Sequence[Step]) -> bool:
    """Ended, or a person must decide; a step being found out, undone or repeated does not rest yet."""
    if any(s.state == "unknown" and not s.evidence for s in steps):
        return False
    if any(s.state in ("pending", "running") and s.woken_at and s.kind == "rollback" for s in steps):
        return False
    return recovery.state not in MOVING


def _worker_is_there(steps: Sequence[Step]) -> None:
    late = timezone.now() - timedelta(seconds=60)
    for step in steps:
        if step.state == "pending" and step.woken_at and step.woken_at < late:
            raise Unreachable(
                f"No worker has begun step {step.kind} for 60 s. Start a worker, and the step runs."
            )


def summary(recovery: Recovery) -> dict[str, Any]:
    """The object that `recover` and `execute --wait` print."""
    plan = plan_of(recovery) or recovery.plans.order_by("-pk").first()
    measured = codec.to_read_json(recovery.proof) if recovery.proof else {}
    joint = joining.joint_of(recovery)
    return {
        "recovery": recovery.label,
        "joint_plan": joint.label if joint else None,
        "state": recovery.state,
        "owner": recovery.owner,
        "reason": recovery.reason,
        "plan_hash": plan.hash if plan else None,
        "forecast": forecast(plan) if plan else None,
        "measured": {k: v for k, v in measured.items() if k != "criteria"},
        "verification": measured.get("criteria", []),
        "steps": [_step(s) for s in recovery.steps.all()],
    }


class JointSummary(TypedDict):
    """The object that commands and the API show of plans that run together.

    `joint_plan`: J-n. `plan_hash`: that of the joint plan. `recoveries`: what is shown of each, in their order.
    """

    joint_plan: str
    plan_hash: str
    recoveries: list[Mapping[str, object]]


def describe_joint(
    joint: JointPlan, describe_plan: Callable[[Recovery, Plan], Mapping[str, object]]
) -> JointSummary:
    """Each recovery as `describe_plan` has it."""
    return {
        "joint_plan": joint.label,
        "plan_hash": joint.hash,
        "recoveries": [describe_plan(plan.recovery, plan) for plan in joining.plans_of(joint)],
    }


def _step(step: Step) -> dict[str, Any]:
    seconds = None
    if step.started_at and step.ended_at:
        seconds = round((step.ended_at - step.started_at).total_seconds(), 3)
    return {
        "kind": step.kind,
        "state": step.state,
        "attempt": step.attempt,
        "started_at": step.started_at.isoformat() if step.started_at else None,
        "seconds": seconds,
        "problem": step.problem or None,
        "code": step.problem_code or None,
        "evidence": step.evidence,
        "repeats": step.repeats,
        "log": step.log,
    }


def forecast(plan: Plan) -> dict[str, Any]:
    """`{lost, doubled, reread, downstream[], flows[]}` as the contract says, with the table's growth beside them."""
    contents = plan.contents
    sealed = contents.forecast
    told = codec.to_read_json(sealed) | {"downstream": [codec.to_json(d) for d in sealed.downstream]}
    return {**told, "flows": [{"flow": contents.flow, **told}]}


def planned(recovery: Recovery, plan: Plan) -> dict[str, Any]:
    """The object that `plan` prints."""
    contents = plan.contents
    return {
        "recovery": recovery.label,
        "plan_hash": plan.hash,
        "strategy": contents.strategy,
        "forecast": forecast(plan),
        "accepted": codec.to_json(contents.accepted),
        "findings": [finding.as_dict() for finding in contents.findings],
        "steps": [codec.to_json(step) for step in contents.steps],
        "positions": [codec.to_read_json(position) for position in contents.positions],
        "criteria": [codec.to_json(criterion) for criterion in contents.criteria],
        "key": list(contents.key),
        "key_from": contents.key_from,
        "patch": [change.without_texts for change in contents.patch],
        "rollback": contents.rollback,
    }
