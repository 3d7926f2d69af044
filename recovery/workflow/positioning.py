"""What other start positions would cost, looked up before one is chosen (`planning`)."""

from collections.abc import Collection, Mapping, Sequence

from django.db import transaction
from django.utils import timezone

from recovery.contracts.acceptance import Effect
from recovery.contracts.choices import LookedPositions, PositionsAnswer
from recovery.contracts.positions import ShownSource, SourceMapping
from recovery.errors import Refused
from recovery.models import Flow, Recovery
from recovery.people.roles import Actor
from recovery.sinks import files
from recovery.sources import position_requests, position_view
from recovery.sources.base import StartChoice
from recovery.strategies.catalogue import POSITIONED
from recovery.workflow import broker, studies
from recovery.workflow.journal import trying
from recovery.workflow.moves import get, lock, only_in
from recovery.workflow.studies import LOOK


def request_positions(*, recovery_id: int, positions: Mapping[str, StartChoice | None], by: Actor) -> None:
    """Have a worker look up what these positions would cost; the answer appears in `studies.looked_sources`."""
    from recovery.workflow import tasks

    recovery = get(recovery_id)
    with trying("recovery.look", recovery, by) as attempted:
        broker.check()
        recovery = lock(recovery_id)
        only_in(recovery, "diagnosing", "planned")
        asked = PositionsAnswer(asked=_list_moved(positions))
        if known := sources_of(recovery):
            studies.refuse_unknown(positions, known)
        broker.send_on_commit(tasks.look_positions, recovery_id, studies.begin(recovery, LOOK, asked))
        attempted.done(
            f"What would be read from other positions was asked: {position_requests.describe_wishes(positions)}."
        )


def _list_moved(positions: Mapping[str, StartChoice | None]) -> dict[str, StartChoice]:
    """Only sources that start elsewhere than where they were committed."""
    return {source: wish for source, wish in sorted(positions.items()) if wish is not None}


def look_at_once(*, recovery_id: int, given: Sequence[str]) -> dict[str, StartChoice | None]:
    """Look up before returning, for commands, and keep the answer with the recovery as a worker does. `given`: as
    `position_requests.by_source` takes it. Returns the positions that were looked up."""
    recovery = get(recovery_id)
    wanted, shown = looked_at(recovery.flow, given, recovery.chosen.patch)
    with transaction.atomic():
        look = PositionsAnswer(asked=_list_moved(wanted))
        studies.begin(recovery, LOOK, look)
        now = timezone.now().isoformat()
        answer = LookedPositions(status="ready", wishes=look.asked, sources=shown, at=now)
        studies.keep_answer(recovery, LOOK, answer)
    return wanted


def looked_at(
    flow: Flow, given: Sequence[str], patch: Mapping[str, str] | None = None
) -> tuple[dict[str, StartChoice | None], tuple[ShownSource, ...]]:
    """What was given, as wishes by source, and every source with what they cost. Changes nothing.

    `all` is for those sources that are not named themselves; which there are has to be looked up first.
    """
    named = position_requests.by_source(given)
    every = named.pop("all", None)
    if every is not None:
        there = studies.positions_shown(flow, {}, patch)
        named = {
            **position_requests.for_all(every, [one for one in there if one.source not in named]),
            **named,
        }
    return named, studies.positions_shown(flow, {k: w for k, w in named.items() if w is not None}, patch)


def mapping_of(recovery: Recovery) -> SourceMapping | None:
    """How the chosen strategy takes the checkpoint's sources for the code's; None before anybody looked."""
    gathered = recovery.gathered
    if gathered.options is None:
        return None
    option = gathered.option_of(recovery.chosen.strategy or POSITIONED[0])
    return (option.mapping if option else None) or SourceMapping()


def find_api_call(flow: Flow, recovery: Recovery | None) -> position_view.ApiCall | None:
    """What the Pipelines API offers in place of a position; None where that loses rows: an empty checkpoint begins at
    batch 0, which a table of files skips. `recovery`: the one that has gathered where the flow writes."""
    if recovery is not None and recovery.gathered.sink.kind == files.KIND:
        return None
    return position_view.api_call(pipeline_id=flow.pipeline.pipeline_id, flow=flow.name, dataset=flow.dataset)


def list_unmet(shown: Collection[ShownSource], wanted: Collection[str]) -> list[str]:
    """Why wishes could not be met, a sentence each: such a source would start where it was committed."""
    return [f"Source {one.source}: {one.problem}" for one in shown if one.problem and one.source in wanted]


def refuse_costs(shown: Sequence[ShownSource], accept: Collection[Effect]) -> None:
    """Raise Refused, naming the rows, for positions whose costs were not accepted."""
    told = position_view.sum_costs(shown)
    missing = [
        (effect, f"These positions {does}, and that was not accepted: {'; '.join(costs)}.")
        for effect, does, costs in (
            (Effect.LOSS, "leave rows out", told.lost),
            (Effect.REPEATS, "read rows again", told.repeated),
        )
        if costs and effect not in accept
    ]
    if missing:
        raise Refused(
            " ".join(says for _, says in missing),
            code=missing[0][0].refusal,
            flags=tuple(effect.flag for effect, _ in missing),
        )


def sources_of(recovery: Recovery) -> set[str]:
    """Names of the sources that are known of this recovery: by the newest look, else by its facts."""
    if sources := studies.looked_sources(recovery):
        return {one.source for one in sources}
    return {str(n) for option in recovery.gathered.judged for n in range(len(option.positions))}
