"""All ways out of a flow's failure next to each other. Reads only: nothing is opened, chosen or sealed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.utils import timezone

from recovery.approvals.rules import ApprovalRule, count_people, strategy_allowed
from recovery.approvals.selectors import rule_for
from recovery.contracts.choices import Choices, ChoicesChange
from recovery.contracts.diagnosis import Diagnosis
from recovery.contracts.names import ChangeIntent, Strategy, name_strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.contracts.positions import PositionChange
from recovery.contracts.ways import Readability, WaitAdvice, WaitKind, WayBack, WayBlocker, WayOut, Ways
from recovery.diagnosis.advice import asks_meant
from recovery.models import Flow, Recovery, Stream
from recovery.people.roles import Actor
from recovery.pipelines import retention
from recovery.pipelines.retention import RetentionState
from recovery.strategies.base import Facts
from recovery.strategies.catalogue import judge_all
from recovery.strategies.deciding import is_harmless
from recovery.strategies.effort import measure_all
from recovery.strategies.recommending import decision
from recovery.strategies.turning import ASK_FIRST, list_changes
from recovery.workflow import diagnosing, positioning
from recovery.workflow.gather import gather
from recovery.workflow.journal import trying_flow

SAY_FIRST: Final = "It depends on whether the change was meant, and no one has answered. Answer first."
NOT_COUNTED: Final = "Rows are not counted yet."
NONE_RUNS: Final = "No strategy can run here. Each names what bars it."
NONE_FREE: Final = "No strategy that can run here is free of a cost to accept."
NOT_AS_ANSWERED: Final = (
    "Only {names} can run here without a cost, and it is not what you answered about the change."
)
ONLY_WITHOUT_RULE: Final = (
    "Only {names} can run here without a cost, and it does more than this failure needs."
)
STANDINGS: Final = {
    RetentionState.GONE: Readability.GONE,
    RetentionState.DUE: Readability.KEPT,
    RetentionState.SOON: Readability.KEPT,
    RetentionState.KEPT: Readability.KEPT,
    RetentionState.SAFE: Readability.SAFE,
}
WAIT_WORDS: Final = {
    Readability.GONE: "Some of what waits can no longer be read. Waiting does not bring it back, and may lose more.",
    Readability.UNKNOWN: "Whether what waits can still be read is not known. Look at the sources before you wait.",
    Readability.KEPT: "All that waits can be read now, the first of it until {until}. Waiting makes the table older.",
    Readability.SAFE: "All that waits can be read now, and nothing is known to take it. Waiting makes the table older.",
}


@dataclass(frozen=True)
class Deadline:
    """How long what waits can be read. `until`: when the first of it may go; None: no such time is known."""

    readable: Readability
    until: datetime | None = None


def look_at_ways(
    *,
    flow: Flow,
    recovery: Recovery | None,
    change: ChoicesChange,
    positions: Sequence[str] = (),
    by: Actor,
) -> Ways:
    """Gather, judge and measure every strategy. It is in the log, since Spark runs the code; nothing else is changed.

    `change`: what is named in place of what the open `recovery` has chosen. `positions`: as
    `position_requests.by_source` takes them. Raises Denied, Refused for a healthy flow, WrongUse, Unreachable.
    """
    diagnosis = recovery.diagnosis_value if recovery else diagnosing.diagnose_broken(flow)
    with trying_flow("recovery.look", flow, by, recovery=recovery.label if recovery else "") as attempted:
        if diagnosis is None:
            raise diagnosing.refuse_healthy(flow)
        attempted.done("What each way out would do was asked.")
    facts = _gather_for(flow, recovery, change, positions)
    people = count_people(rule_for(flow.pipeline.environment))
    options = measure_all(facts, judge_all(facts), people=people)
    meant = change.meant or (recovery.chosen.meant if recovery else None)
    return build_ways(
        flow, bar_forbidden(flow, options), diagnosis, meant, at=facts.gathered_at, recovery=recovery
    )


def _gather_for(
    flow: Flow, recovery: Recovery | None, change: ChoicesChange, positions: Sequence[str]
) -> Facts:
    """With the code, the key and the starts that are named, else with those of the recovery."""
    held = recovery.chosen if recovery else Choices()
    wanted = positioning.looked_at(flow, positions, change.patch)[0] if positions else held.positions
    return gather(
        flow,
        patch=held.patch if change.patch is None else change.patch,
        strategy=(held.strategy or "") if change.patch is None else "",
        key=held.key if change.key is None else change.key,
        wishes={source: wish for source, wish in wanted.items() if wish is not None},
        confirmed=change.confirmed or held.confirmed,
        refresh_below=held.refresh_below if change.refresh_below is None else change.refresh_below,
        recovery=recovery.label if recovery else "",
    )[1]


def ways_of(recovery: Recovery) -> Ways:
    """The same by the rows that were counted for a recovery; without any option before they were."""
    return build_ways(
        recovery.flow,
        options_of(recovery),
        recovery.diagnosis_value,
        recovery.chosen.meant,
        at=recovery.gathering.at,
        recovery=recovery,
    )


def options_of(recovery: Recovery, rule: ApprovalRule | None = None) -> tuple[Option, ...]:
    """The options that were counted for a recovery, with those barred that the environment's rule forbids today.
    `rule`: that rule, where it was read already."""
    return bar_forbidden(recovery.flow, recovery.gathered.judged, rule)


def bar_forbidden(
    flow: Flow, options: Sequence[Option], rule: ApprovalRule | None = None
) -> tuple[Option, ...]:
    """The options, with those barred that the rule of the flow's environment does not allow."""
    rule = rule or rule_for(flow.pipeline.environment)
    refused = [strategy_allowed(rule, option.strategy) for option in options]
    code = BlockerCode.STRATEGY_NOT_ALLOWED
    return tuple(
        option if no is None else option.barred(Blocker(code=code, says=no.says))
        for option, no in zip(options, refused, strict=True)
    )


def build_ways(
    flow: Flow,
    options: Sequence[Option],
    diagnosis: Diagnosis,
    meant: ChangeIntent | None,
    *,
    at: str | None,
    recovery: Recovery | None,
) -> Ways:
    """The answer over judged options. `at`: when their rows were counted."""
    decided = decision(options, diagnosis, meant)
    asks = asks_meant(diagnosis.advice)
    return Ways(
        pipeline=flow.pipeline.name,
        flow=flow.name,
        recovery=recovery.label if recovery else None,
        counted_at=at,
        meant=meant,
        asks_meant=asks,
        recommended=_named(decided.strategy),
        runner_up=_named(decided.runner_up),
        rule=decided.rule or None,
        because=decided.because or _why_none(options, asks, meant),
        would_change=list_changes(options, diagnosis, meant),
        options=tuple(_way(option) for option in options),
        answers=_answers(flow, options, asks=asks, advised=asks and meant in (None, ChangeIntent.UNKNOWN)),
    )


def _named(strategy: str) -> Strategy | None:
    return Strategy(strategy) if strategy else None


def _why_none(options: Sequence[Option], asks: bool, meant: ChangeIntent | None) -> str:
    if asks and meant is None:
        return SAY_FIRST
    if asks and meant is ChangeIntent.UNKNOWN:
        return ASK_FIRST
    if not options:
        return NOT_COUNTED
    free = [option for option in options if is_harmless(option)]
    if not free:
        return NONE_FREE if any(option.blocker is None for option in options) else NONE_RUNS
    names = " and ".join(name_strategy(option.strategy) for option in free)
    return (NOT_AS_ANSWERED if asks else ONLY_WITHOUT_RULE).format(names=names)


def _way(option: Option) -> WayOut:
    blocker, undo = option.blocker, option.effort.undo if option.effort else None
    return WayOut(
        strategy=option.strategy,
        title=option.title,
        summary=option.summary,
        blocked=None if blocker is None else WayBlocker(code=blocker.code, says=blocker.says),
        forecast=option.forecast,
        effort=option.effort,
        undo=WayBack(
            possible=option.undoable, until_batch=undo.until_batch if undo else None, says=option.rollback
        ),
    )


def _answers(flow: Flow, options: Sequence[Option], *, asks: bool, advised: bool) -> tuple[WaitAdvice, ...]:
    found = find_deadline(flow, options)
    until = found.until.isoformat() if found.until else None
    at = f"{found.until:%Y-%m-%d %H:%M} UTC" if found.until else "a time that is not known"
    owner = Stream.objects.filter(pipeline=flow.pipeline_id).values_list("owner", flat=True).first()
    who = f"Ask {owner}" if owner else "No owner is recorded: ask who knows the code"
    what = "whether the change was meant" if asks else "before you choose"
    waits = WAIT_WORDS[found.readable].format(until=at)
    return tuple(
        WaitAdvice(answer=answer, advised=is_advised, readable=found.readable, says=says, until=until)
        for answer, is_advised, says in (
            (WaitKind.NOTHING_YET, False, waits),
            (WaitKind.CALL_OWNER, advised, f"{who} {what}. {waits}"),
        )
    )


def _is_readable(place: PositionChange) -> bool | None:
    """Whether all that waits in one source can be read; None: not known."""
    if place.reach is not None:
        return place.reach.readable
    # of files, not ok is said of those that were read as well: nothing is known then of what waits
    return place.readable.ok or None


def find_deadline(flow: Flow, options: Sequence[Option]) -> Deadline:
    """By the sources as they were counted; before that, as the inventory saw them last."""
    places = next((option.positions for option in options if option.positions), ())
    if places:
        ends = [place.until_ms for place in places if place.until_ms]
        until = datetime.fromtimestamp(min(ends) / 1000, UTC) if ends else None
        told = [_is_readable(place) for place in places]
        if False in told:
            return Deadline(Readability.GONE)
        return Deadline(
            Readability.UNKNOWN if None in told else Readability.KEPT if until else Readability.SAFE, until
        )
    seen = retention.of(flow, flow.sources.all(), timezone.now())
    if seen is None:
        return Deadline(Readability.UNKNOWN)
    return Deadline(STANDINGS.get(seen.standing, Readability.UNKNOWN), seen.until)
