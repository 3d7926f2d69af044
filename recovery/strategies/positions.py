"""Where each source is before a recovery and after it, as plans hold and pages show it."""

from collections.abc import Sequence

from recovery.checkpoints.formats import Malformed
from recovery.contracts.amounts import Bound
from recovery.contracts.positions import (
    InputRetention,
    LabelledPosition,
    MovedPart,
    NextInput,
    PositionChange,
    ReadableInput,
)
from recovery.sources import files, labels, position_view, registry, unasked
from recovery.sources.base import InputFile, PartChange, PartMove, SourceFacts, SourceRetention
from recovery.sources.comparing import ZERO, count_noun
from recovery.strategies.base import Facts
from recovery.strategies.common import name_of
from recovery.strategies.sources import number_of
from recovery.strategies.starts import is_moved

SHOWN_PARTS = 200  # of those that stay where they are; whatever moves is always told


def positions(facts: Facts, *, after: str) -> tuple[PositionChange, ...]:
    """Before -> after per source. `after`: "same" goes on at its start, "start" begins again."""
    return tuple(_position(facts, source, anew=after == "start") for source in facts.sources)


def _position(facts: Facts, source: SourceFacts, *, anew: bool) -> PositionChange:
    start, kind = source.start, source.position.kind
    reach = source.reach
    parts, more = ((), 0) if anew else _parts(source)
    return PositionChange(
        source=source.position.source,
        location=source.location,
        kind=kind,
        before=_before(source),
        after=LabelledPosition(label="the beginning", offset_json=None) if anew else _after(source),
        next=_next_file(facts, source, anew) if kind == files.KIND else _next(facts, source, anew),
        readable=_files_readable(source) if kind == files.KIND else _readable(source, reach),
        parts=parts,
        more_parts=more,
        lost=position_view.show_distance(start.lost if start and not anew else ZERO),
        reread=position_view.show_distance(start.reread if start and not anew else ZERO),
        fallbacks=dict(start.fallbacks) if start and not anew else {},
        option=None if source.option is None else position_view.show_option(source.option),
        reach=None
        if reach is None
        else InputRetention(readable=reach.readable, why=reach.why, until_ms=reach.until_ms),
    )


def _before(source: SourceFacts) -> LabelledPosition:
    last = source.processed[-1].path if source.processed else None
    position = source.position
    return LabelledPosition(
        label=position.label, offset_json=position.offset_json, name=name_of(last) if last else None
    )


def _after(source: SourceFacts) -> LabelledPosition:
    if source.start is None or not is_moved(source):
        return _before(source)
    return LabelledPosition(label=source.start.label, offset_json=source.start.offset_json)


def _parts(source: SourceFacts) -> tuple[tuple[MovedPart, ...], int]:
    """Parts before and after, those that move first, and how many of the others are left out."""
    changes = source.start.changes if source.start else _changes(source)
    moving = [c for c in changes if c.moved is not PartMove.SAME]
    staying = [c for c in changes if c.moved is PartMove.SAME]
    shown = [*moving, *staying[:SHOWN_PARTS]]
    parts = tuple(
        MovedPart(
            part=c.part,
            before=c.before.label if c.before else None,
            after=c.after.label if c.after else None,
            moved=c.moved,
        )
        for c in shown
    )
    return parts, len(changes) - len(shown)


def _changes(source: SourceFacts) -> Sequence[PartChange]:
    line = source.position.offset_json
    try:
        return registry.source_kind_of(source.position.kind).compare_positions(line, line)
    except Malformed:
        return unasked.UNKNOWN.compare_positions(line, line)


def _next_file(facts: Facts, source: SourceFacts, anew: bool) -> NextInput:
    ahead: tuple[InputFile, ...] = (*source.processed, *source.waiting) if anew else source.waiting
    rows = [facts.counts.by_file.get(f.path) for f in ahead]
    return NextInput(
        name=name_of(ahead[0].path) if ahead else None,
        mtime_ms=ahead[0].mtime_ms if ahead else None,
        files=len(ahead),
        rows=None if None in rows else sum(r for r in rows if r is not None),
        exact=None not in rows,
    )


def _next(facts: Facts, source: SourceFacts, anew: bool) -> NextInput:
    """Rows as the source itself counts what waits; where it cannot, by Spark, if this is the only source.

    Spark's count is of what the code makes of them: no number of rows read where it gathers them in groups.
    """
    rows: int | None
    counted = facts.counts.everything if anew else facts.counts.waiting
    unread = None if anew else source.unread.rows
    gathers = set(facts.new_code.operators or ()) - {"dedupe"}
    if len(facts.sources) == 1 and counted is not None and not gathers and not (unread and unread.exact):
        rows, bound = counted, Bound.EXACT
    else:
        rows, bound = (None, Bound.UNKNOWN) if unread is None else (unread.value, unread.bound)
    waiting = source.unread.files
    begins = None if anew else source.begins
    return NextInput(
        name=None if begins is None else labels.label_position(source.position.kind, begins),
        files=0 if waiting is None or anew else waiting.value,
        rows=rows,
        exact=bound is Bound.EXACT,
        bound=bound if bound in (Bound.AT_MOST, Bound.AT_LEAST) else None,
    )


def _files_readable(source: SourceFacts) -> ReadableInput:
    total = number_of(source) + len(source.gone)
    says = f"{total - len(source.gone)} of {total} files" if total else "no file has arrived yet"
    return ReadableInput(ok=not source.gone, says=says)


def _readable(source: SourceFacts, reach: SourceRetention | None) -> ReadableInput:
    """`says` is a part of a sentence: ... can be read now; only ... can still be read."""
    if reach is None or reach.readable is None:
        return ReadableInput(ok=None, says="a part that is not known")
    if not reach.readable:
        return ReadableInput(ok=False, says="a part of what waits")
    rows = source.unread.rows
    unit = registry.source_kind_of(source.position.kind).UNIT
    if rows is None:
        return ReadableInput(ok=True, says="all that waits")
    many = count_noun(rows.value, unit)
    says = f"all {many} that wait" if rows.exact else f"all that waits ({rows.bound.before_number}{many})"
    return ReadableInput(ok=True, says=says)
