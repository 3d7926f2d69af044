"""The page of start offsets: a card a source, what moves in it, what that costs, the same without Reprise. Pure."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from console.presenters import words
from console.presenters.status import Badge
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.choices import PositionsAnswer
from recovery.contracts.names import name_strategy
from recovery.contracts.positions import (
    DroppedSource,
    InputBetween,
    InputRetention,
    OptionStart,
    PartMove,
    PositionChange,
    ShownSource,
    SourceMapping,
    SourcePair,
)
from recovery.contracts.start_choice import StartChoice
from recovery.models import Recovery
from recovery.sources import position_requests, position_view
from recovery.strategies.catalogue import POSITIONED
from recovery.workflow import positioning
from recovery.workflow.outdated import outdating_of

FEW = 20
"""Parts that a source may have for all of them to be shown, with a field each."""
SHOWN = 50
"""Rows of one list; more are found by the filter."""

KIND_WORDS: Final = {
    "files": "files",
    "kafka": "Kafka",
    "delta": "Delta table",
    "iceberg": "Iceberg table",
    "auto-loader": "Auto Loader",
    "kinesis": "Kinesis",
    "pubsub": "Pub/Sub",
    "python": "Python data source",
}
FORM_WORDS: Final = {
    "time": "At a time",
    "version": "At a version",
    "file": "Just after a file",
    "json": "By hand: the source's own offset",
    "earliest": "The earliest that is still there",
    "latest": "The latest: only what comes from now on",
}
EXAMPLES: Final = {
    "time": "a time with its zone: 2026-11-22T03:00:00Z",
    "version": "a version: 12",
    "file": "a path as it is listed",
    "json": "an offset as the source writes it",
}
MOVED: Final = {
    "same": Badge("info", "unchanged"),
    "forward": Badge("attention", "Ahead"),
    "back": Badge("attention", "Back"),
    "new": Badge("info", "New"),
    "gone": Badge("failed", "Gone"),
    "unclear": Badge("unknown", "Unclear"),
}
MEANS: Final = {
    "forward": "What is between is never read.",
    "back": "What is between is read again.",
    "new": "Nothing was read of it before.",
    "gone": "It is no longer there.",
    "unclear": "The two positions cannot be compared.",
}
PRECISION: Final = {
    "exact": "exact: the same rows as a seeded checkpoint",
    "at_least_once": "at least once: it reads some rows twice",
    "at_most_once": "at most once: it can miss rows",
    "unknown": "not known",
}
NAMED: Final = {"-2": "earliest", "-1": "latest"}


@dataclass(frozen=True)
class PartWarning:
    """What has to be read of one part before it is chosen. `code`: which of them, for `data-code` of the page."""

    code: str
    says: str


@dataclass(frozen=True)
class PartRow:
    """One part before and after. `loud`: what has to be read before it is chosen. `stands`: what its field shows.
    `asked`: what was wished for this part alone, as people write it."""

    part: str
    before: str
    after: str
    badge: Badge
    means: str
    quiet: bool
    loud: tuple[PartWarning, ...]
    stands: str
    moved: str
    asked: str = ""


@dataclass(frozen=True)
class PositionCostRow:
    """One number with its unit, and how it was found out. `rows`: None where they were not counted."""

    code: str
    rows: int | None
    word: str
    text: str
    why: str = ""
    bad: bool = False


@dataclass(frozen=True)
class StartOptionRow:
    """The same start by options of the reader, in the code."""

    says: str
    code: str
    place: str
    boundary: str
    note: str


@dataclass(frozen=True)
class PositionCard:
    source: str
    kind: str
    location: str
    #: of the look, as people write it; empty: as committed
    wish: str
    problem: str | None
    parts: int
    line: str | None
    rows: list[PartRow]
    unchanged: list[PartRow]
    #: rows that no list holds
    hidden: int
    unchanged_in_all: int
    #: a field for each row
    fields: bool
    #: this kind can be set part by part
    by_part: bool
    amounts: list[PositionCostRow]
    readable: Badge
    readable_says: str
    until_ms: int | None
    fallbacks: list[tuple[str, str]]
    option: StartOptionRow | None
    forms: list[tuple[str, str]]
    examples: str
    form: str = ""
    value: str = ""
    typed_parts: str = ""


@dataclass(frozen=True)
class PositionsPage:
    """All of it. `differs`: what was looked at is not what is chosen. `doubts`: why no one can say that what was looked
    at reads every row once, whatever else it costs."""

    status: str
    cards: list[PositionCard]
    lost: Sequence[str]
    repeated: Sequence[str]
    doubts: Sequence[str]
    chosen: list[tuple[str, str]]
    looked: list[tuple[str, str]]
    differs: bool
    many: bool
    takes_time: bool
    command: str = ""
    #: of the Pipelines API; "" where there is none, or it loses rows
    call: str = ""
    call_note: str = ""
    look: PositionsAnswer = field(default_factory=PositionsAnswer)


@dataclass(frozen=True)
class MatchRow:
    """A proposal about one source of the checkpoint. `key`: what is confirmed; empty where no one has to."""

    old: str
    new: str
    badge: Badge
    why: str
    asks: str
    key: str
    confirmed: bool


@dataclass(frozen=True)
class SourceMatching:
    """Which source is which, where the code's differ from the checkpoint's."""

    pairs: list[MatchRow]
    #: source, what it asks, whether a start is chosen
    added: list[tuple[str, str, bool]]
    notes: list[str]
    #: proposals that no one has confirmed yet
    open: int


CERTAIN: Final = {
    "certain": Badge("ok", "Certain"),
    "likely": Badge("attention", "Likely"),
    "last_of_kind": Badge("unknown", "By elimination"),
}


def source_matches(recovery: Recovery, mapping: SourceMapping | None) -> SourceMatching | None:
    """None where every source goes on as itself, or no one has looked yet."""
    if mapping is None:
        return None
    needed, said = mapping.confirmable, recovery.chosen.confirmed
    if not (needed or mapping.added or mapping.notes):
        return None
    chosen = recovery.chosen.positions
    return SourceMatching(
        pairs=[
            *(_pair_row(pair, confirmed=pair.key in said) for pair in mapping.pairs),
            *(_dropped_row(dropped, confirmed=dropped.key in said) for dropped in mapping.dropped),
        ],
        added=[(added.new, added.asks, added.new in chosen) for added in mapping.added],
        notes=list(mapping.notes),
        open=sum(key not in said for key in needed),
    )


def _pair_row(pair: SourcePair, *, confirmed: bool) -> MatchRow:
    key = pair.key if pair.confirm else ""
    return MatchRow(
        pair.old, pair.new, CERTAIN[pair.certainty], pair.why, asks=pair.confirm, key=key, confirmed=confirmed
    )


def _dropped_row(dropped: DroppedSource, *, confirmed: bool) -> MatchRow:
    badge = Badge("failed", "Dropped")
    return MatchRow(
        dropped.old, "", badge, dropped.says, asks="Yes, it is dropped", key=dropped.key, confirmed=confirmed
    )


def takes_positions(strategy: str) -> bool:
    """Whether a start elsewhere can be chosen with this strategy."""
    return strategy in POSITIONED


def positions_page(
    recovery: Recovery,
    sources: Sequence[ShownSource],
    *,
    wanted: str,
    everything: bool,
    typed: Mapping[str, str],
) -> PositionsPage:
    """`sources`: as the newest look found them. `wanted`: text that the names of shown parts contain. `typed`: what was
    sent and refused."""
    look: PositionsAnswer = recovery.chosen.positions_look
    looked, chosen = look.wishes or {}, recovery.chosen.positions
    costs = position_view.sum_costs(sources)
    is_plain = recovery.flow.pipeline.workspace.has_streams  # it has no Pipelines API
    call = None if is_plain else positioning.find_api_call(recovery.flow, recovery)
    counted = () if outdating_of(recovery) else recovery.gathered.positions
    return PositionsPage(
        status=look.status or "none",
        cards=[
            source_card(source, looked, wanted=wanted, everything=everything, typed=typed, counted=counted)
            for source in sources
        ],
        lost=costs.lost,
        repeated=costs.repeated,
        doubts=position_view.list_doubts(sources),
        chosen=_written_requests(chosen),
        looked=_written_requests(looked),
        differs=looked != chosen,
        many=any(len(source.changes) > FEW for source in sources),
        takes_time=bool(sources) and all("time" in source.can for source in sources),
        command=command_line(recovery, looked, costs),
        call=f"{call.method} {call.path}\n{json.dumps(call.body, indent=2)}" if call else "",
        call_note=call.note if call else "" if is_plain else position_view.NO_CALL,
        look=look,
    )


def _written_requests(wanted: Mapping[str, StartChoice]) -> list[tuple[str, str]]:
    return [(key, position_requests.wish_text(wish)) for key, wish in sorted(wanted.items())]


def command_line(recovery: Recovery, looked: Mapping[str, StartChoice], costs: position_view.Costs) -> str:
    """The same on the command line, where what it costs has to be accepted too."""
    arguments = [
        f"--position {shlex.quote(argument)}"
        for key, wish in looked.items()
        for argument in position_requests.wish_arguments(key, wish)
    ]
    arguments += [f"--confirm {shlex.quote(key)}" for key in recovery.chosen.confirmed]
    arguments += ["--accept-loss"] * bool(costs.lost) + ["--accept-repeats"] * bool(costs.repeated)
    strategy = name_strategy(recovery.chosen.strategy or "continue")
    return " ".join(["bin/manage plan", recovery.label, "--strategy", strategy, *arguments])


def source_card(
    source: ShownSource,
    looked: Mapping[str, StartChoice],
    *,
    wanted: str = "",
    everything: bool = False,
    typed: Mapping[str, str] | None = None,
    counted: Sequence[PositionChange] = (),
) -> PositionCard:
    """One source, and what was typed for it. `counted`: sources whose waiting rows were counted."""
    typed, key = typed or {}, source.source
    wish = looked.get(key)
    rows = _part_rows(
        source, wanted, {n: position_requests.text_of_part(w) for n, w in wish.parts.items()} if wish else {}
    )
    quiet = [r for r in rows if r.quiet and not wanted] if len(source.changes) > FEW else []
    loud = [r for r in rows if r not in quiet] if quiet else rows
    most = len(rows) if everything else SHOWN
    return PositionCard(
        source=key,
        kind=KIND_WORDS.get(source.kind, source.kind),
        location=source.location,
        wish=position_requests.wish_text(wish) if wish else "",
        problem=source.problem,
        parts=len(source.changes),
        line=source.after.offset_json,
        rows=loud[:most],
        unchanged=quiet[:most],
        hidden=max(0, len(loud) - most) + max(0, len(quiet) - most),
        unchanged_in_all=len(quiet),
        fields=_by_part(source)
        and len(loud[:most]) <= SHOWN
        and (bool(wanted) or len(source.changes) <= FEW),
        by_part=_by_part(source),
        amounts=_cost_rows(with_counted_rows(source, counted)),
        readable=_readable_badge(source.reach),
        readable_says=source.reach.why or "The source was not asked.",
        until_ms=source.reach.until_ms,
        fallbacks=list(source.fallbacks.items()),
        option=_start_option(source.option),
        forms=[(form, FORM_WORDS[form]) for form in FORM_WORDS if form in source.can],
        examples="; ".join(EXAMPLES[form] for form in EXAMPLES if form in source.can),
        form=typed.get(f"form.{key}", ""),
        value=typed.get(f"value.{key}", ""),
        typed_parts=typed.get(f"parts.{key}", ""),
    )


def _by_part(source: ShownSource) -> bool:
    return "parts" in source.can


def _part_rows(source: ShownSource, wanted: str, asked: Mapping[str, str]) -> list[PartRow]:
    """Loud ones first, then what moves, then what stays; each in the order of the source. `asked`: wishes of parts."""
    committed, starts = ({part.name for part in place.parts} for place in (source.committed, source.after))
    single = len(source.changes) == 1
    rows = []
    for change in source.changes:
        part = change.part
        if wanted.lower() not in part.lower():
            continue
        loud = _part_warnings(source, part)
        rows.append(
            PartRow(
                part=part,
                before=_position_text(
                    part in committed, change.before, source.committed.label if single else ""
                ),
                after=_position_text(part in starts, change.after, source.after.label if single else ""),
                badge=MOVED[change.moved],
                means=MEANS.get(change.moved, ""),
                quiet=change.moved is PartMove.SAME and not loud,
                loud=loud,
                stands=change.after or "",
                moved=change.moved,
                asked=asked.get(part, ""),
            )
        )
    return sorted(rows, key=lambda r: (not r.loud, r.quiet))


def _position_text(is_there: bool, value: str | None, label: str) -> str:
    if not is_there and value is None:
        return "none"
    return label or NAMED.get(value or "", value or "nothing read yet")


def _part_warnings(source: ShownSource, part: str) -> tuple[PartWarning, ...]:
    """What a person has to know of this part: not as asked for, or not to be read."""
    warnings = []
    if part in source.fallbacks:
        warnings.append(PartWarning("not-as-asked", f"Not as asked: {source.fallbacks[part]}"))
    if source.reach.readable is False and part in source.reach.parts:
        warnings.append(PartWarning("not-all-there", "What follows is not all there any more."))
    return tuple(warnings)


def with_counted_rows(source: ShownSource, counted: Sequence[PositionChange]) -> ShownSource:
    """The source with the rows that wait, where the facts counted those of the same start and as many files: a look
    lists files and runs no code."""
    waits = source.unread
    if waits.rows or not waits.files:
        return source
    same = (
        place.next
        for place in counted
        if (place.location, place.after.offset_json) == (source.location, source.after.offset_json)
        and place.next.files == waits.files.value
    )
    ahead = next(same, None)
    if ahead is None or ahead.rows is None:
        return source
    rows = Amount(value=ahead.rows, bound=ahead.rows_bound)
    return source.model_copy(update={"unread": waits.model_copy(update={"rows": rows})})


def _cost_rows(source: ShownSource) -> list[PositionCostRow]:
    """Never read, read again, waiting: each with unit and how it was found out."""
    lost, again = source.lost, source.reread
    return [
        PositionCostRow(
            "lost", _counted_rows(lost), "Never read", *describe_distance(lost), bad=_has_amount(lost)
        ),
        PositionCostRow(
            "reread", _counted_rows(again), "Read again", *describe_distance(again), bad=_has_amount(again)
        ),
        PositionCostRow(
            "unread", _counted_rows(source.unread), "Waits after the start", *describe_distance(source.unread)
        ),
    ]


def _counted_rows(distance: InputBetween) -> int | None:
    return distance.rows.value if distance.rows else None


def _has_amount(distance: InputBetween) -> bool:
    known = [amount for amount in (distance.rows, distance.files, distance.bytes) if amount]
    return not known or any(amount.value for amount in known)


def describe_distance(distance: InputBetween) -> tuple[str, str]:
    """`8 rows in 3 files, 2.1 KiB, over 2 h 5 min` and how that was found out: exact, or why it is not."""
    rows, files, size, seconds = distance.rows, distance.files, distance.bytes, distance.seconds
    if not (rows or files or size):
        return "not known", "unknown"
    amounts = [position_view.say_amount(rows, "row")] if rows else []
    if files and (files.value or not rows):
        amounts.append(position_view.say_amount(files, "file"))
    if size and (size.value or not amounts):
        amounts.append(size.bound.before_number + words.format_size(size.value))
    if seconds and seconds.value:
        amounts.append(f"over {words.format_duration(seconds.value)}")
    unsure = [
        amount.why or amount.bound.value for amount in (rows, files, size) if amount and not amount.exact
    ]
    sure = dict.fromkeys(
        unsure or [f"{Bound.EXACT.value}{'' if rows else ' in files' if files else ' in bytes'}"]
    )
    return ", ".join(amounts), "; ".join([*sure, *([] if rows else ["rows not counted"])])


def _readable_badge(reach: InputRetention) -> Badge:
    if reach.readable is None:
        return Badge("unknown", "Not known")
    return Badge("ok", "Readable") if reach.readable else Badge("failed", "Not readable")


def _start_option(option: OptionStart | None) -> StartOptionRow | None:
    if option is None:
        return None
    effects = [
        f"{position_view.say_amount(amount, 'row')} {what}"
        for amount, what in ((option.doubled, "twice"), (option.missed, "never"))
        if amount
    ]
    return StartOptionRow(
        says=f"An empty checkpoint with this option is {PRECISION[option.precision]}."
        if option.supported
        else "This source has no such option.",
        code=option.code,
        place=option.place,
        boundary=f"On the boundary it reads {' and '.join(effects)}." if effects and option.supported else "",
        note=option.note,
    )
