"""What is known of one source's position, as pages, commands and plans show it, without secrets. Pure.

Options of readers hold passwords, so none of them is taken over; start options alone are (`StartOption.options`).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recovery.checkpoints.formats import Malformed
from recovery.contracts import codec
from recovery.contracts.amounts import Amount
from recovery.contracts.positions import (
    InputBetween,
    MovedPart,
    OptionStart,
    ShownPart,
    ShownPlace,
    ShownRetention,
    ShownSource,
)
from recovery.sources import labels, position_requests, registry, unasked
from recovery.sources.base import (
    Distance,
    PartChange,
    PartMove,
    PositionPart,
    SourceFacts,
    SourceRetention,
    StartOption,
)
from recovery.sources.comparing import ZERO, count_noun

USER = re.compile(r"//[^/@\s]*@")


def show_source(facts: SourceFacts, *, index: int | None = None) -> ShownSource:
    """What is known of one source. `index`: of the source in the code, where that is not how the checkpoint knows it.
    `after`: where the stream starts; without a wish the committed position. `reach` and `option` are those of
    `after`."""
    position, start = facts.position, facts.start
    after = start.label if start else position.label
    lost, reread = (start.lost, start.reread) if start else (ZERO, ZERO)
    return ShownSource(
        source=str(position.source if index is None else index),
        kind=position.kind,
        location=USER.sub("//***@", facts.location),
        committed=_show_place(position.kind, position.offset_json, position.label),
        after=_show_place(position.kind, facts.begins, after),
        changes=tuple(_show_change(c) for c in _list_changes(facts)),
        lost=show_distance(lost),
        reread=show_distance(reread),
        unread=show_distance(facts.unread),
        fallbacks=dict(start.fallbacks) if start else {},
        precision=start.precision if start else position.precision,
        reach=_show_reach(facts.reach, position.reachable),
        option=None if facts.option is None else show_option(facts.option),
        can=tuple(position_requests.NAMES[field] for field in registry.source_kind_of(position.kind).CAN),
        problem=facts.problem,
    )


def read_sources(stored: Iterable[Mapping[str, object]]) -> tuple[ShownSource, ...]:
    """Sources as they are stored with a look at positions."""
    return tuple(codec.read(ShownSource, source) for source in stored)


def _show_place(kind: str, offset_json: str | None, label: str) -> ShownPlace:
    parts = _read_or_plain(registry.source_kind_of(kind).list_parts, unasked.UNKNOWN.list_parts, offset_json)
    return ShownPlace(
        label=label or labels.label_position(kind, offset_json),
        offset_json=offset_json,
        parts=tuple(ShownPart(name=p.name, value=p.value, label=p.label) for p in parts),
    )


def _read_or_plain(
    own: Callable[..., tuple[Any, ...]], plain: Callable[..., tuple[Any, ...]], *lines: str | None
) -> tuple[Any, ...]:
    """What a kind says of its lines; where it cannot read one, what can be said of any line."""
    try:
        return own(*lines)
    except Malformed:
        return plain(*lines)


def _list_changes(facts: SourceFacts) -> Sequence[PartChange]:
    if facts.start is not None:
        return facts.start.changes
    line, module = facts.position.offset_json, registry.source_kind_of(facts.position.kind)
    return _read_or_plain(module.compare_positions, unasked.UNKNOWN.compare_positions, line, line)


def _show_change(change: PartChange) -> MovedPart:
    return MovedPart(
        part=change.part,
        before=_part_value(change.before),
        after=_part_value(change.after),
        moved=change.moved,
    )


def _part_value(part: PositionPart | None) -> str | None:
    return None if part is None else part.value


def show_distance(distance: Distance) -> InputBetween:
    """What is between two positions, as it is shown and stored."""
    return InputBetween(
        rows=distance.rows, files=distance.files, bytes=distance.bytes, seconds=distance.seconds
    )


def _show_reach(retained: SourceRetention | None, known: bool | None) -> ShownRetention:
    if retained is None:
        return ShownRetention(readable=known)
    return ShownRetention(
        readable=retained.readable,
        why=retained.why,
        until_ms=retained.until_ms,
        lost=None if retained.lost is None else show_distance(retained.lost),
        parts=tuple(retained.parts),
    )


def show_option(option: StartOption) -> OptionStart:
    """A start by options of the reader, with what it doubles and misses on the boundary."""
    return OptionStart(
        supported=option.supported,
        precision=option.precision,
        options=dict(option.options),
        code=option.code,
        place=option.place,
        doubled=option.doubled,
        missed=option.missed,
        note=option.note,
    )


@dataclass(frozen=True)
class Costs:
    """What the wished positions cost, over all sources: sentences, one a source, ready for people.

    `lost`: rows that are never read. `repeated`: rows that are read a second time. Where that is not known, that is a
    sentence too: an unknown cost has to be accepted like a known one.
    """

    lost: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()


def sum_costs(sources: Sequence[ShownSource]) -> Costs:
    """What these starts cost. A source that stays where it was committed costs nothing."""
    lost = [(source.source, _describe_cost(source, source.lost, "never read")) for source in sources]
    repeated = [
        (source.source, _describe_cost(source, source.reread, "read a second time")) for source in sources
    ]
    return Costs(
        tuple(f"Source {source}: {why}" for source, why in lost if why),
        tuple(f"Source {source}: {why}" for source, why in repeated if why),
    )


def list_doubts(sources: Sequence[ShownSource]) -> tuple[str, ...]:
    """Why no one can say that all is read exactly once from there, a sentence for each source of which that is so:
    records are gone, or it could not be asked. `sum_costs` does not know of them."""
    return tuple(
        f"Source {source.source}: {source.problem or source.reach.why or 'What it still holds is not known.'}"
        for source in sources
        if source.problem or source.reach.readable is not True
    )


def _describe_cost(source: ShownSource, distance: InputBetween, what: str) -> str:
    """One sentence, or nothing where it costs nothing."""
    counted = [
        (amount, noun) for amount, noun in ((distance.rows, "row"), (distance.files, "file")) if amount
    ]
    said = ", ".join(say_amount(amount, noun) for amount, noun in counted if amount.value)
    if not said and distance.bytes and distance.bytes.value:
        said = say_amount(distance.bytes, "byte")
    unclear = _list_unclear_parts(source)
    if said:
        more = f"; of {', '.join(unclear[:3])} it is not known" if unclear else ""
        return f"{said} {what}{more}"
    return f"how many rows are {what} is not known" if unclear or not (counted or distance.bytes) else ""


def _list_unclear_parts(source: ShownSource) -> list[str]:
    """Parts whose two positions cannot be compared, so that no distance holds what is between."""
    if len(source.changes) == 1 and all(_has_any(of) for of in (source.lost, source.reread)):
        return []  # it skips some and repeats others, and both were counted
    return [
        c.part
        for c in source.changes
        # beside a position that is not known, what is between is bounded, not unclear
        if c.moved is PartMove.GONE or (c.moved is PartMove.UNCLEAR and c.before is not None)
    ]


def _has_any(distance: InputBetween) -> bool:
    return any(amount.value for amount in distance.counts)


def say_amount(amount: Amount, noun: str) -> str:
    """`8 rows`, `at most 8 rows`, `about 8 rows`."""
    return f"{amount.bound.before_number}{count_noun(amount.value, noun)}"


@dataclass(frozen=True)
class ApiCall:
    """A call of the Pipelines API."""

    method: str
    path: str
    body: Mapping[str, list[str]]
    note: str


NO_CALL: Final = (
    "The API takes no position, and its call for an empty checkpoint would lose rows here: the table is one of files, "
    "which skips batch numbers that it already has."
)


def api_call(*, pipeline_id: str, flow: str, dataset: str) -> ApiCall:
    """What the Pipelines API itself offers for a start elsewhere.

    It takes no position: an empty checkpoint, with the start options in the code (Databricks, `start_update`,
    `reset_checkpoint_selection`; without a refresh selection it would update every table of the pipeline).
    """
    return ApiCall(
        method="POST",
        path=f"/api/2.0/pipelines/{pipeline_id}/updates",
        body={"reset_checkpoint_selection": [flow], "refresh_selection": [dataset]},
        note="The API takes no position. This empties the checkpoint of the flow, so each source begins at its "
        "start option in the code, or at its default; take the option out again afterwards. Do not use it with a "
        "table of files: the table skips batch numbers that it already has, and their rows are lost. Reprise's own "
        "server has the call too. Open-source spark-pipelines has only --full-refresh, which empties the table.",
    )
