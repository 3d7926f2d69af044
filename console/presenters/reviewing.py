"""A sealed plan, and a void one, as the review page shows them. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import BaseModel

from console.presenters import below, checkpoint, diff, expected_steps, wizard, words
from recovery.contracts.acceptance import Acceptance, Accepted, Cost, Effect
from recovery.contracts.amounts import Bound
from recovery.contracts.choices import Choices
from recovery.contracts.criterion_values import (
    NO_REPEATS,
    AcceptedRepeats,
    Expected,
    ExpectedCheckpoint,
    ExpectedDatasets,
    ExpectedDeleted,
    ExpectedFiles,
    ExpectedFill,
    ExpectedGrowth,
    ExpectedInput,
    ExpectedKeys,
    ExpectedNothing,
    ExpectedOthers,
    ExpectedRows,
    ExpectedRowsBefore,
)
from recovery.contracts.names import ChangeIntent, Strategy, name_strategy
from recovery.contracts.plan import PlanBody, Preconditions
from recovery.models import Plan
from recovery.plans.accepted import costs_of
from recovery.plans.drift import SETTINGS
from recovery.strategies.catalogue import NEEDS_START
from recovery.workflow.usual import UsualDuration

STEP_NAMES: Final = {
    "stop": "Stop",
    "backup": "Back up",
    "table-backup": "Back up table",
    "patch": "Patch code",
    "restore": "Put the table back",
    "seed": "Reset flow",
    "rerun": "Rerun",
    "fill": "Fill",
    "deduplicate": "Deduplicate",
    "refresh": "Refresh what is below",
    "verify": "Verify",
    "rollback": "Roll back",
}
IF_NOT: Final = {
    "stop": "nothing was changed: the plan is void, and shows what moved",
    "backup": "nothing was changed; run it again, or skip it with a reason",
    "table-backup": "the step fails before anything is emptied; run it again",
    "patch": "the step fails; roll back writes the old file back",
    "restore": "unknown until the table's log proves it; a rollback brings the rows back",
    "seed": "the old version stays in use; nothing was switched",
    "rerun": "unknown until proven: a probe reads what happened",
    "fill": "the step fails, or the plan is void where something moved; run again, nothing is written twice",
    "deduplicate": "the step fails, or the plan is void where something moved; run again, nothing is deleted twice",
    "refresh": "the step fails, and the flow's own table stays as it is; run it again, or skip it with a reason",
    "verify": "the recovery stays open and shows which row differs",
}


@dataclass(frozen=True)
class PlannedStepRow:
    number: int
    name: str
    says: str
    #: what it is to show when it is done
    expected: str
    #: how long such a step took before, and in which runs; "" where none tells it
    usual: str
    usual_of: str
    if_not: str


@dataclass(frozen=True)
class CostToAccept:
    """One cost that a person is asked to accept; `code` and `flag` are those of the refusal without."""

    effect: str
    title: str
    says: str
    why: str
    code: str
    flag: str
    #: who accepted fewer rows, or a surer number of them; "" where that effect was not accepted
    held_by: str = ""
    #: what that person accepted: `9 rows`
    held: str = ""


def list_costs(costs: Sequence[Cost], held: Accepted) -> list[CostToAccept]:
    """What is asked. `held`: what was accepted before, and is less than this."""
    title = {Effect.LOSS: "Rows would be lost", Effect.REPEATS: "Rows would be written twice"}
    return [
        CostToAccept(
            c.effect.value,
            title[c.effect],
            c.says,
            c.why,
            c.effect.refusal,
            c.effect.flag,
            *_held_acceptance(held.of(c.effect)),
        )
        for c in costs
    ]


def unaccepted_badge(rows: Sequence[CostToAccept]) -> str:
    """`Not accepted: 9 rows would be lost`: the badge while a person is asked."""
    return f"Not accepted: {', '.join(c.says for c in rows)}"


def _held_acceptance(acceptance: Acceptance | None) -> tuple[str, str]:
    return (
        ("", "") if acceptance is None or acceptance.cost is None else (acceptance.by, acceptance.cost.amount)
    )


@dataclass(frozen=True)
class AcceptedRow:
    """What the plan costs and who accepted that."""

    says: str
    by: str
    reason: str
    code: str


def list_acceptances(plan: Plan) -> list[AcceptedRow]:
    """Of plans that were sealed before acceptances were part of them: none."""
    held = plan.contents.accepted
    pairs = [(cost, held.of(cost.effect)) for cost in costs_of(plan.contents.forecast)]
    return [
        AcceptedRow((pair.cost or cost).says, pair.by, pair.reason, f"accepted-{cost.effect.value}")
        for cost, pair in pairs
        if pair is not None
    ]


@dataclass(frozen=True)
class Review:
    contents: PlanBody
    lead: str
    forecast: list[wizard.ForecastNumber]
    windows: wizard.LostWindows | None
    accepted: list[AcceptedRow]
    grows: str
    positions: list[wizard.PositionRow]
    numbering: str
    findings: list[checkpoint.FindingRow]
    counted: str
    steps: list[PlannedStepRow]
    #: None: the plan waits for no run
    total: expected_steps.TotalTime | None
    diffs: list[diff.Diff]
    fingerprints: list[tuple[str, str]]
    key_line: str
    below: list[below.EffectRow]
    meant: "MeantAnswer | None"


@dataclass(frozen=True)
class MeantAnswer:
    """Whether the change was meant. `code`: the answer; `by`: who said so, "" where that was not kept."""

    code: str
    says: str
    by: str


MEANT: Final = {
    ChangeIntent.YES: "Yes",
    ChangeIntent.NO: "No, it was a mistake",
    ChangeIntent.UNKNOWN: "Not known",
}


def describe_meant(choices: Choices) -> MeantAnswer | None:
    """None where no one was asked."""
    meant = choices.meant
    return None if meant is None else MeantAnswer(meant.value, MEANT[meant], choices.meant_by)


def plan_view(plan: Plan, usual: Mapping[str, UsualDuration] | None = None) -> Review:
    """`usual`: how long steps took before, by kind; None: the plan waits for no run."""
    contents = plan.contents
    forecast, numbering = contents.forecast, contents.numbering
    findings = checkpoint.finding_rows([finding.as_dict() for finding in contents.findings])
    query = "new query id" if numbering.query_id == "new" else "same query id"
    return Review(
        contents=contents,
        lead=lead_sentence(contents),
        forecast=wizard.forecast_view(forecast),
        windows=wizard.lost_windows(forecast.lost, contents.watermark_ms),
        accepted=list_acceptances(plan),
        grows=_growth_text(contents),
        positions=wizard.position_rows(contents.positions),
        numbering=f"The first new batch is {numbering.next_batch}; {query}; {_state_text(contents)}.",
        findings=findings,
        counted=checkpoint.count_findings(findings),
        steps=_step_rows(contents, usual or {}),
        total=None if usual is None else expected_steps.total_time(contents, usual),
        diffs=[diff.compare_texts(c.path, c.before, c.after) for c in contents.patch],
        fingerprints=list_fingerprints(contents.preconditions),
        key_line=wizard.key_line(contents.key, contents.key_from, whole_rows=contents.whole_rows),
        below=below.effect_rows(forecast.downstream),
        meant=describe_meant(plan.recovery.chosen),
    )


def _step_rows(contents: PlanBody, usual: Mapping[str, UsualDuration]) -> list[PlannedStepRow]:
    return [
        PlannedStepRow(
            number,
            STEP_NAMES.get(step.kind, step.kind),
            step.says,
            expected_steps.expect_result(contents, step),
            *expected_steps.describe_usual(usual.get(step.kind)),
            IF_NOT.get(step.kind, ""),
        )
        for number, step in enumerate(contents.steps, start=1)
    ]


def _state_text(contents: PlanBody) -> str:
    if contents.state == "keep":
        return f"state kept ({contents.state_held or 'as it is'})"
    dropped = f"state dropped ({contents.state_held or 'none'})"
    if contents.state == "rebuild":
        return f"{dropped} and rebuilt by a replay of what was processed"
    if contents.strategy == Strategy.PRIME:
        return f"{dropped}; that of the new code starts empty"
    return f"{dropped} and built again by the code" if contents.strategy in NEEDS_START else dropped


def lead_sentence(contents: PlanBody) -> str:
    """One sentence: what this plan does to which flow, where."""
    flow, pipeline = words.last_part(contents.flow), contents.pipeline.name
    named = f"flow {flow}" if flow == pipeline else f"flow {flow} of pipeline {pipeline}"
    where = f"{named} in {contents.environment}"
    last = contents.numbering.next_batch - 1
    refresh = f"Empty the table of {where} and read everything that can still be read again."
    if contents.sink.is_declared:
        refresh = f"Give {where} an empty checkpoint and send everything that can still be read again."
    return {
        "continue": f"Continue {where} after batch {last}, without the old state.",
        "repair": f"Repair the checkpoint of {where} and go on after batch {last} with its state.",
        "rebuild": f"Replay what {where} has processed for the state of its new code, and go on after batch {last}.",
        "prime": f"Go on with {where} after batch {last}; the state of its new code starts empty.",
        "rewind": f"Go back in the input of {where} and let its code build its state again, from batch {last + 1} on.",
        "replay": f"Put the table of {where} back to batch {last}, and read again what came after it.",
        "revert": f"Put the old code of {where} back and go on after batch {last} with its state.",
        "full-refresh": refresh,
        "empty": f"Give {where} an empty checkpoint, keep what is written, and read again everything that is there.",
        "top-up": f"Add the rows that the table of {where} lacks, once; flow and checkpoint stay as they are.",
        "deduplicate": f"Delete the rows that the table of {where} has too often, once; flow and checkpoint stay as "
        "they are.",
        "backfill": f"Back up the table of {where}, empty it, read everything that can still be read again, and fill "
        "back the rows that no input holds.",
    }.get(contents.strategy, f"Recover {where} by {name_strategy(contents.strategy)}.")


def _growth_text(contents: PlanBody) -> str:
    forecast, waiting = contents.forecast, contents.waiting_files
    grown = words.format_count(forecast.new_rows, "new row")
    table = f"Table {words.format_number(contents.table_rows)} → {words.format_count(forecast.table_after, 'row')}."
    if contents.sink.is_declared:
        table = f"Sent to {contents.sink.place}."
    files = all(position.is_files for position in contents.positions)
    return (
        f"{grown}, {words.format_count(len(waiting), 'file')} waiting. {table}"
        if files
        else f"{grown}. {table}"
    )


def list_fingerprints(conditions: Preconditions) -> list[tuple[str, str]]:
    """What the plan relies on; read again before anything is changed."""
    point, sink = conditions.checkpoint, conditions.sink
    rows = [
        (
            "Checkpoint",
            f"version {point.version}, batch {point.last_committed}, {words.shorten_hash(point.fingerprint)}",
        ),
        ("Sink", f"{sink.declared}, {words.shorten_hash(sink.fingerprint) or 'not distinguished'}")
        if sink.declared is not None
        else ("Table's log", f"batch {sink.head}, {words.shorten_hash(sink.fingerprint)}"),
        ("Active update", conditions.active_update or "none"),
    ]
    if settings := conditions.settings:
        rows.append(("Pipeline's settings", f"as sealed: {', '.join(SETTINGS.get(p, p) for p in settings)}"))
    return rows + [
        (words.name_tail(path), f"sha256 {words.shorten_hash(digest)}")
        for path, digest in conditions.code.items()
    ]


@dataclass(frozen=True)
class DriftRow:
    what: str
    planned: str
    now: str
    says: str


@dataclass(frozen=True)
class VoidNotice:
    hash: str
    at: words.StoredMoment
    sealed_at: datetime
    sealed_by: str
    says: str
    rows: list[DriftRow]
    #: by a person, before it ran: no drift was found
    replaced: bool
    #: by an approver, or no one decided in time
    rejected: bool


WHAT: Final = {
    "checkpoint": "Checkpoint",
    "code": "Code",
    "settings": "Pipeline's settings",
    "sink": "Table's log",
    "update": "Active update",
    "plan": "Plan",
    "approval": "Approval",
}


def describe_void(plan: Plan) -> VoidNotice:
    """Void stays void: what was sealed, what was found, who sealed it."""
    rows = [
        DriftRow(
            WHAT.get(d["what"], d["what"]),
            str(d.get("planned") or "–"),
            str(d.get("now") or "–"),
            str(d["says"]),
        )
        for d in plan.drift
    ]
    return VoidNotice(
        words.shorten_hash(plan.hash),
        plan.voided_at,
        plan.sealed_at,
        plan.sealed_by,
        " ".join(r.says for r in rows) or "It no longer holds.",
        rows,
        any(d["what"] in ("plan", "approval") for d in plan.drift),
        any(d["what"] == "approval" for d in plan.drift),
    )


SCOPES = {"both": "old and new version together", "new": "the new version", "same": "the version in use"}


def describe_expected(value: Expected | None) -> str:
    """What a criterion expects, in people's words; one that is not known here, or has another shape, as it is."""
    match value:
        case ExpectedFiles(files=int(files)):
            place = SCOPES.get(value.scope, "the checkpoint")
            if not files:  # topics and tables are known by positions
                return (
                    f"each batch of {place} begins where the one before it ended, and all that waited is read"
                )
            return f"{words.format_count(files, 'file')}, each in one batch of {place}"
        case ExpectedGrowth():
            before = "the earlier rows" if value.before is None else words.format_count(value.before, "row")
            filled = ", and those that were filled back" if value.filled else ""
            return f"{before} and those that the new batches wrote{filled}"
        case ExpectedRows(key=tuple(key)):
            by = "every column" if value.whole_rows else ", ".join(key) or "the whole row"
            return f"none missing, none too many, by {by}"
        case ExpectedKeys():
            return f"none by {', '.join(value.key)}{_accepted_text(value.accepted or NO_REPEATS)}"
        case ExpectedRowsBefore():
            rows = value.rows
            return "as they were" if rows is None else f"{words.format_count(rows, 'row')} as they were"
        case ExpectedNothing():
            return "the same rows and data files"
        case ExpectedOthers():
            but = ", but for what the updates write too" if value.ran else ""
            return f"files of what is watched as they were{but}"
    return _describe_written(value)


def _describe_written(value: Expected | None) -> str:
    """Of what a recovery writes beside the flow's own updates, and below its table."""
    match value:
        case ExpectedFill():
            return "the backup as it was made, and each row of it that no input holds as it was"
        case ExpectedDeleted():
            return f"{words.format_count(value.rows, 'row')} deleted, each equal to one that stays; none came"
        case ExpectedInput():
            return f"each of {words.format_count(value.rows, 'row')} of the input, as often as it is there"
        case ExpectedCheckpoint():
            last = value.last_committed
            return "as it was" if last is None else f"as it was, after batch {words.format_number(last)}"
        case ExpectedDatasets():
            names = ", ".join(map(words.last_part, value.datasets))
            return f"{names}: refreshed by an update that completed"
    return plain_value(value)


def _accepted_text(accepted: AcceptedRepeats) -> str:
    """The repeats that the plan accepts: `, but 60 rows as accepted`."""
    rows, bound = accepted.rows, accepted.bound
    if rows == 0 and bound is Bound.EXACT:
        return ""
    number = (
        "a number that is not known"
        if rows is None
        else f"{bound.before_number}{words.format_count(rows, 'row')}"
    )
    return f", but {number}, as accepted"


def plain_value(value: object) -> str:
    """A JSON value of a criterion in people's words: `batch 3, offsets {"logOffset":2}`."""
    if value is None:
        return "not measured"
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return ", ".join(f"{str(k).replace('_', ' ')} {_inner_text(v)}" for k, v in value.items()) or "–"
    return _inner_text(value)


def _inner_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return words.format_number(value)
    if isinstance(value, str):
        return value
    if value is None:
        return "none"
    if isinstance(value, list):
        shown = ", ".join(_inner_text(v) for v in value[:6])
        return (shown + (f" and {len(value) - 6} more" if len(value) > 6 else "")) or "none"
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )  # as Spark writes offsets
