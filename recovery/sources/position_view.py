"""What is known of one source's position, as pages, commands and plans show it: plain JSON, without secrets. Pure.

Options of readers hold passwords, so none of them is taken over; start options alone are (`StartOption.options`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recovery.checkpoints.formats import Malformed
from recovery.contracts import codec
from recovery.contracts.amounts import Amount
from recovery.sources import labels, position_requests, registry, unparsed_offsets
from recovery.sources.base import Change, Distance, Moved, Part, Reach, SourceFacts, StartOption
from recovery.sources.comparing import ZERO, count_noun

USER = re.compile(r"//[^/@\s]*@")
MEASURES = ("rows", "files", "bytes", "seconds")


def as_dict(facts: SourceFacts) -> dict[str, Any]:
    """`{source, kind, location, committed, after, changes, lost, reread, unread, fallbacks, precision, reach, option,
    can, problem}` (docs/wiring.md). `after`: where the stream starts; without a wish the committed position.
    `reach` and `option` are those of `after`."""
    position, start = facts.position, facts.start
    after = start.label if start else position.label
    lost, reread = (start.lost, start.reread) if start else (ZERO, ZERO)
    return {
        "source": str(position.source),
        "kind": position.kind,
        "location": USER.sub("//***@", facts.location),
        "committed": _show_position(position.kind, position.offset_json, position.label),
        "after": _show_position(position.kind, facts.begins, after),
        "changes": [_show_change(c) for c in _list_changes(facts)],
        "lost": show_distance(lost),
        "reread": show_distance(reread),
        "unread": show_distance(facts.unread),
        "fallbacks": dict(start.fallbacks) if start else {},
        "precision": (start.precision if start else position.precision).value,
        "reach": _show_reach(facts.reach, position.reachable),
        "option": None if facts.option is None else show_start_option(facts.option),
        "can": [position_requests.NAMES[field] for field in registry.source_kind_of(position.kind).CAN],
        "problem": facts.problem,
    }


def _show_position(kind: str, offset_json: str | None, label: str) -> dict[str, Any]:
    parts = _read_or_plain(registry.source_kind_of(kind).list_parts, unparsed_offsets.list_parts, offset_json)
    return {
        "label": label or labels.label_position(kind, offset_json),
        "offset_json": offset_json,
        "parts": [{"name": p.name, "value": p.value, "label": p.label} for p in parts],
    }


def _read_or_plain(
    own: Callable[..., tuple[Any, ...]], plain: Callable[..., tuple[Any, ...]], *lines: str | None
) -> tuple[Any, ...]:
    """What a kind says of its lines; where it cannot read one, what can be said of any line."""
    try:
        return own(*lines)
    except Malformed:
        return plain(*lines)


def _list_changes(facts: SourceFacts) -> Sequence[Change]:
    if facts.start is not None:
        return facts.start.changes
    line, module = facts.position.offset_json, registry.source_kind_of(facts.position.kind)
    return _read_or_plain(module.compare_positions, unparsed_offsets.compare_positions, line, line)


def _show_change(change: Change) -> dict[str, Any]:
    return {
        "part": change.part,
        "before": _part_value(change.before),
        "after": _part_value(change.after),
        "moved": change.moved.value,
    }


def _part_value(part: Part | None) -> str | None:
    return None if part is None else part.value


def show_distance(measured: Distance) -> dict[str, Any]:
    """`{rows, files, bytes, seconds}`, each `{value, exact, why, bound}`, or None where the source cannot tell."""
    return {name: show_amount(getattr(measured, name)) for name in MEASURES}


def show_amount(measured: Amount | None) -> dict[str, Any] | None:
    return None if measured is None else codec.to_json(measured)


def _show_reach(retained: Reach | None, known: bool | None) -> dict[str, Any]:
    if retained is None:
        return {"readable": known, "why": "", "until_ms": None, "lost": None, "parts": []}
    return {
        "readable": retained.readable,
        "why": retained.why,
        "until_ms": retained.until_ms,
        "lost": None if retained.lost is None else show_distance(retained.lost),
        "parts": list(retained.parts),
    }


def show_start_option(start: StartOption) -> dict[str, Any]:
    """A start by options of the reader, with what it doubles and misses on the boundary."""
    return {
        "supported": start.supported,
        "precision": start.precision.value,
        "options": dict(start.options),
        "code": start.code,
        "place": start.place,
        "doubled": show_amount(start.doubled),
        "missed": show_amount(start.missed),
        "note": start.note,
    }


@dataclass(frozen=True)
class Costs:
    """What the wished positions cost, over all sources: sentences, one a source, ready for people.

    `lost`: rows that are never read. `repeated`: rows that are read a second time. Where that is not known, that is a
    sentence too: an unknown cost has to be accepted like a known one.
    """

    lost: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()


def sum_costs(shown: Sequence[Mapping[str, Any]]) -> Costs:
    """Of sources as `as_dict` gives them. A source that stays where it was committed costs nothing."""
    lost = [(source["source"], _describe_cost(source, "lost", "never read")) for source in shown]
    repeated = [
        (source["source"], _describe_cost(source, "reread", "read a second time")) for source in shown
    ]
    return Costs(
        tuple(f"Source {source}: {why}" for source, why in lost if why),
        tuple(f"Source {source}: {why}" for source, why in repeated if why),
    )


def list_doubts(shown: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Why no one can say that all is read exactly once from there, a sentence for each source of which that is so:
    records are gone, or it could not be asked. `sum_costs` does not know of them."""
    reasons = [
        (source["source"], source["problem"] or source["reach"]["why"] or "What it still holds is not known.")
        for source in shown
        if source["problem"] or source["reach"]["readable"] is not True
    ]
    return tuple(f"Source {source}: {why}" for source, why in reasons)


def _describe_cost(source: Mapping[str, Any], name: str, what: str) -> str:
    """One sentence, or nothing where it costs nothing."""
    distance = source[name]
    measures = [
        (distance[measure], noun)
        for measure, noun in (("rows", "row"), ("files", "file"))
        if distance[measure]
    ]
    said = ", ".join(said_amount(amount, noun) for amount, noun in measures if amount["value"])
    if not said and distance["bytes"] and distance["bytes"]["value"]:
        said = said_amount(distance["bytes"], "byte")
    unclear = _list_unclear_parts(source)
    if said:
        more = f"; of {', '.join(unclear[:3])} it is not known" if unclear else ""
        return f"{said} {what}{more}"
    return f"how many rows are {what} is not known" if unclear or not (measures or distance["bytes"]) else ""


def _list_unclear_parts(source: Mapping[str, Any]) -> list[str]:
    """Parts whose two positions cannot be compared, so that no distance holds what is between."""
    if len(source["changes"]) == 1 and all(_has_any(source[name]) for name in ("lost", "reread")):
        return []  # it skips some and repeats others, and both were counted
    return [c["part"] for c in source["changes"] if c["moved"] in (Moved.UNCLEAR, Moved.GONE)]


def _has_any(distance: Mapping[str, Any]) -> bool:
    return any(distance[name] and distance[name]["value"] for name in ("rows", "files"))


def said_amount(stored: Mapping[str, Any], noun: str) -> str:
    """`8 rows`, `at most 8 rows`, `about 8 rows`."""
    amount = codec.read(Amount, stored)
    return f"{amount.bound.before_number}{count_noun(amount.value, noun)}"


def api_call(*, pipeline_id: str, flow: str, dataset: str) -> dict[str, Any]:
    """What the Pipelines API itself offers for a start elsewhere: `{method, path, body, note}`.

    It takes no position: an empty checkpoint, with the start options in the code (Databricks, `start_update`,
    `reset_checkpoint_selection`; without a refresh selection it would update every table of the pipeline).
    """
    return {
        "method": "POST",
        "path": f"/api/2.0/pipelines/{pipeline_id}/updates",
        "body": {"reset_checkpoint_selection": [flow], "refresh_selection": [dataset]},
        "note": "The API takes no position. This empties the checkpoint of the flow, so each source begins where its "
        "start option in the code says, or at its default; take the option out again afterwards. Into a file table "
        "rows vanish that way: it passes over batch numbers that it has. Reprise's own server has the call too. "
        "Open-source spark-pipelines has none: it has only --full-refresh, which empties the table.",
    }
