"""Whether several sealed plans can run together, with one update, and each be proven on its own. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from recovery.contracts.joint import JOINABLE, JOINT_SCHEMA, JoinedPlan, JointBody
from recovery.contracts.names import CORRECTING, StepKind, Strategy, name_strategy
from recovery.contracts.plan import PlanBody
from recovery.contracts.steps import UpdateArgs


class JointRefusalCode(StrEnum):
    """Why plans do not run together."""

    TOO_FEW = "too_few_plans"
    OTHER_PIPELINE = "other_pipeline"
    SAME_TABLE = "same_table"
    READS_THE_OTHER = "reads_the_other"
    STARTS_NO_UPDATE = "starts_no_update"
    FILLS_BACK = "fills_back"
    KEEPS_ROWS = "keeps_rows"
    WHOLE_PIPELINE = "whole_pipeline"
    OTHER_CODE = "other_code"


@dataclass(frozen=True)
class JointRefusal:
    """A refusal: its code and the sentence."""

    code: JointRefusalCode
    says: str


def find_joint_refusal(
    plans: Sequence[PlanBody], reads: Mapping[str, Collection[str]]
) -> JointRefusal | None:
    """Why these plans cannot run together; None where they can. `reads`: of each flow, the flows that write what it
    reads, directly or through others."""
    checks = (_few, _elsewhere, _one_table, _alone, _whole, _other_code)
    refusals = (check(plans) for check in checks)
    return next((no for no in refusals if no), None) or _reading(plans, reads)


def _few(plans: Sequence[PlanBody]) -> JointRefusal | None:
    if len({plan.flow for plan in plans}) == len(plans) > 1:
        return None
    return JointRefusal(
        JointRefusalCode.TOO_FEW, "Plans run together where they are of two or more flows, one plan each."
    )


def _elsewhere(plans: Sequence[PlanBody]) -> JointRefusal | None:
    if len({(plan.workspace, plan.pipeline.id, plan.environment) for plan in plans}) == 1:
        return None
    return JointRefusal(
        JointRefusalCode.OTHER_PIPELINE,
        "Plans run together where they are of one pipeline: it has one update.",
    )


def _one_table(plans: Sequence[PlanBody]) -> JointRefusal | None:
    """Rows of one table are counted for one flow: two that write it would each find the other's."""
    seen: dict[str, str] = {}
    for plan in plans:
        other = seen.setdefault(plan.dataset, plan.flow)
        if other != plan.flow:
            return JointRefusal(
                JointRefusalCode.SAME_TABLE,
                f"{other} and {plan.flow} both write {plan.dataset}, so neither could be proven on its own. "
                "Recover them one after the other.",
            )
    return None


def _alone(plans: Sequence[PlanBody]) -> JointRefusal | None:
    solo = next((plan for plan in plans if plan.strategy not in JOINABLE), None)
    if solo is None:
        return None
    named = f"{name_strategy(solo.strategy)} of {solo.flow}"
    if solo.strategy in CORRECTING:
        return JointRefusal(
            JointRefusalCode.STARTS_NO_UPDATE,
            f"{named} starts no update that it could share. Run it alone, before the others or after them.",
        )
    if solo.strategy == Strategy.BACKFILL:
        return JointRefusal(
            JointRefusalCode.FILLS_BACK,
            f"{named} runs alone: it empties its table and fills rows back from a backup. Run it after the others; or "
            "choose full-refresh if no row has to be filled back.",
        )
    return JointRefusal(
        JointRefusalCode.KEEPS_ROWS,
        f"{named} runs alone: it reads everything again beside the rows of its table. Run it after the others; or "
        "choose full-refresh, which empties the table first.",
    )


def _whole(plans: Sequence[PlanBody]) -> JointRefusal | None:
    whole = next((plan for plan in plans if _is_of_pipeline(read_update(plan))), None)
    if whole is None:
        return None
    return JointRefusal(
        JointRefusalCode.WHOLE_PIPELINE,
        f"The update of {whole.flow} runs the whole pipeline, as it writes to no table, so flows that are not named "
        "would run too. Recover it alone.",
    )


def _other_code(plans: Sequence[PlanBody]) -> JointRefusal | None:
    first = plans[0]
    for plan in plans[1:]:
        same = (
            plan.preconditions.code == first.preconditions.code
            and plan.preconditions.settings == first.preconditions.settings
            and plan.reviewed_code == first.reviewed_code
        )
        if not same:
            return JointRefusal(
                JointRefusalCode.OTHER_CODE,
                f"{plan.flow} would run with other code than {first.flow}, and one update has one code. Plan both "
                "with the same code, or revert both.",
            )
    return None


def _reading(plans: Sequence[PlanBody], reads: Mapping[str, Collection[str]]) -> JointRefusal | None:
    for plan in plans:
        above = next((other.flow for other in plans if other.flow in reads.get(plan.flow, ())), None)
        if above is not None:
            return JointRefusal(
                JointRefusalCode.READS_THE_OTHER,
                f"{plan.flow} reads what {above} writes, so its rows cannot be forecast before that has run. "
                f"Recover {above} first.",
            )
    return None


def read_update(plan: PlanBody) -> UpdateArgs:
    """What the plan's own rerun asks its update for."""
    rerun = plan.find_step(StepKind.RERUN)
    return rerun.args_as(UpdateArgs) if rerun else UpdateArgs()


def _is_of_pipeline(update: UpdateArgs) -> bool:
    return not (update.refresh or update.full_refresh)


def build_joint(plans: Sequence[tuple[str, PlanBody]]) -> JointBody:
    """The contents of a joint plan of these plans, each with its hash, in this order."""
    bodies = [body for _, body in plans]
    updates = [read_update(body) for body in bodies]
    return JointBody(
        schema_number=JOINT_SCHEMA,
        workspace=bodies[0].workspace,
        environment=bodies[0].environment,
        pipeline=bodies[0].pipeline,
        plans=tuple(JoinedPlan(recovery=b.recovery, flow=b.flow, plan=digest) for digest, b in plans),
        refresh=tuple(dict.fromkeys(table for update in updates for table in update.refresh)),
        full_refresh=tuple(dict.fromkeys(table for update in updates for table in update.full_refresh)),
    )
