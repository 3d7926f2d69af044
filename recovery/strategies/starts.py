"""Starts that a person chose: what they skip, what they read again, what the seed gets of them."""

from collections.abc import Iterable, Sequence

from recovery.checkpoints.report import CheckpointReport, Finding, Severity
from recovery.checkpoints.starts import SourceStart
from recovery.checkpoints.uris import decode_uri
from recovery.contracts.amounts import Bound, RowAmount, joint_bound
from recovery.contracts.option import Blocker, BlockerCode
from recovery.contracts.steps import SeedArgs
from recovery.sources import registry
from recovery.sources.base import Distance, SourceFacts
from recovery.sources.comparing import count_noun, format_time, nothing_in
from recovery.sources.file_positions import FileCandidate
from recovery.strategies import mapped, sinks
from recovery.strategies.base import Facts
from recovery.strategies.sources import (
    again,
    forecast_read_elsewhere,
    kept,
    name_of,
    number_of,
    unit,
)


def takes_no_start(facts: Facts, strategy: str) -> Blocker | None:
    """Why a strategy that keeps the checkpoint's positions cannot run while another one is chosen."""
    chosen = [s for s in facts.sources if is_moved(s)]
    if not chosen:
        return None
    who = _told(chosen)
    return Blocker(
        code=BlockerCode.START_NOT_TAKEN,
        says=f"{strategy} takes the positions of the checkpoint, and {who} would start elsewhere; choose continue.",
    )


def not_taken(facts: Facts) -> tuple[Finding, ...]:
    """That a strategy which begins again leaves the chosen starts aside."""
    chosen = [s for s in facts.sources if is_moved(s)]
    if not chosen:
        return ()
    says = f"{_told(chosen)} begins where the reader's own options say, not at the start that was chosen."
    return (Finding("START_NOT_TAKEN", Severity.WARNING, says, "Choose continue to start there."),)


def is_moved(source: SourceFacts) -> bool:
    """Whether somebody chose another start than the committed position."""
    start = source.start
    if start is None:
        return False
    same = start.offset_json == source.position.offset_json
    return not (same and nothing_in(start.lost) and nothing_in(start.reread))


def starts(facts: Facts) -> tuple[SourceStart, ...]:
    """Where every source of the code starts, in plan order; () where each goes on where it is."""
    old = mapped.old_of(facts)
    if mapped.one_to_one(facts) and not any(is_moved(s) for s in facts.sources):
        return ()
    return tuple(_seeded(n, old[n], source) for n, source in enumerate(facts.sources))


def _continued(facts: Facts) -> list[SourceFacts]:
    """Sources that go on: of one that is new nothing was read, so that nothing is skipped or read again."""
    return [s for s, old in zip(facts.sources, mapped.old_of(facts), strict=True) if old is not None]


def _alone(facts: Facts) -> bool:
    """Whether counted rows are those of sources that go on, and of no other."""
    others = [s for s, old in zip(facts.sources, mapped.old_of(facts), strict=True) if old is None]
    return all(s.start is None or nothing_in(s.start.lost) for s in others)


def _seeded(index: int, old: int | None, source: SourceFacts) -> SourceStart:
    """As the seed gets it: of files also those that are read again, and those that count as read."""
    start = source.start
    if not isinstance(start, FileCandidate):
        return SourceStart(index, old, source.begins)
    committed = [*(f.path for f in source.processed), *source.gone]
    held, was = {decode_uri(e.path) for e in start.read}, set(committed)
    return SourceStart(
        index,
        old,
        start.offset_json,
        again=tuple(path for path in committed if path not in held),
        skip=tuple(e for e in start.read if decode_uri(e.path) not in was),
    )


def read_by(source: SourceFacts) -> int:
    """How many files stand in batches, or will: those that count as read at the start, and those that wait."""
    start = source.start
    if not isinstance(start, FileCandidate) or not is_moved(source):
        return number_of(source)
    return len({*(decode_uri(e.path) for e in start.read), *(f.path for f in source.waiting)})


def describe_starts(facts: Facts) -> str:
    """Where sources start, for the sentence of a step."""
    chosen = [s for s in facts.sources if s.start and is_moved(s)]
    places = [f"source {s.position.source} at {s.start.label}" for s in chosen if s.start]
    return f"{', '.join(places)}, every other position as it is" if places else "same positions"


def offsets_to_begin(facts: Facts, standing: CheckpointReport) -> list[str | None]:
    """The line after which each source goes on, as the first batch must begin."""
    moved = starts(facts)
    return [s.offset_json for s in moved] if moved else [s.offset_json for s in standing.sources]


def seed(facts: Facts, last: int | None) -> SeedArgs:
    """What the step that seeds gets: after which batch of which version, and which sources start elsewhere."""
    args = SeedArgs(last_committed=last, from_version=facts.checkpoint.version)
    moved = tuple(start.to_args() for start in starts(facts))
    return args.model_copy(update={"starts": moved}) if moved else args


def forecast_lost(facts: Facts) -> RowAmount:
    """Rows that a start never reads, or that a function may pass over with its batch."""
    return add_passed_over(facts, _never_read(facts))


def add_passed_over(facts: Facts, lost: RowAmount) -> RowAmount:
    """These rows, and those of batches that a function may pass over: how many they are is not known."""
    if not sinks.passes_over(facts):
        return lost
    why = (
        f"{lost.why} The function may skip the next batches, whatever rows they carry: the table has their "
        "numbers under an id (txnAppId) that may be the function's."
    )
    return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why, files=lost.files)


def _never_read(facts: Facts) -> RowAmount:
    of = unit(facts)
    skipping = [s for s in _continued(facts) if s.start and not nothing_in(s.start.lost)]
    behind = mapped.left_behind(facts)
    if skipping:
        counted = facts.counts.skipped if _alone(facts) else None
        lost = _between(facts, skipping, "lost", counted, _why_lost(skipping, of))
        return _at_least(facts, lost if behind is None else _together(lost, behind))
    if behind is not None:
        return _at_least(facts, behind)
    return kept(facts, f"Every committed {of} stays committed; every unread {of} is read.")


def _at_least(facts: Facts, lost: RowAmount) -> RowAmount:
    """What is lost for certain, beside a source of which no one can tell whether it can still be read: not all."""
    stays = kept(facts, "")
    if stays.exact:
        return lost
    why = f"{lost.why} {stays.why} So it may be more."
    least = joint_bound((lost.bound, Bound.AT_LEAST))
    return lost.bounded(least, why)


def forecast_reread(facts: Facts, otherwise: str) -> RowAmount:
    """Rows that were committed and are read a second time; `otherwise` is said where there are none."""
    back = [s for s in _continued(facts) if s.start and not nothing_in(s.start.reread)]
    if elsewhere := forecast_read_elsewhere(facts):
        return elsewhere
    if not back:
        return again(facts, otherwise)
    why = f"{_told(back)} starts before its committed position."
    if unclear := [s for s in back if not s.position.is_known]:
        why = f"{_told(unclear)} may have read behind its start: its committed position is not known."
    return _between(facts, back, "reread", facts.counts.reread, why)


def findings(facts: Facts) -> tuple[Finding, ...]:
    """One for each source that skips rows, and one for each that reads rows again."""
    return (*(f for s in _continued(facts) for f in _chosen(facts, s)), *_watermark(facts))


def _watermark(facts: Facts) -> Iterable[Finding]:
    """What the stored watermark does to rows that are read again."""
    back = [s for s in _continued(facts) if s.start and not nothing_in(s.start.reread)]
    stored = facts.checkpoint.closed_ms
    if back and stored and not facts.new_code.operators:
        at = format_time(stored)
        says = f"The stored watermark ({at}) drops none of the rows that are read again: the code keeps no state."
        yield Finding("WATERMARK_KEPT", Severity.INFO, says, "Nothing to do.")


def _between(
    facts: Facts, sources: Sequence[SourceFacts], way: str, counted: int | None, why: str
) -> RowAmount:
    """What is between committed positions and starts: as the code yields it, else as the sources count it."""
    spans: list[Distance] = [getattr(s.start, way) for s in sources]
    rows = [d.rows for d in spans]
    total = None if None in rows else sum(r.value for r in rows if r is not None)
    start, committed = sources[0].start, sources[0].position.label
    ends = (committed, start.label if start else None)
    begin, end = ends if way == "lost" else ends[::-1]
    return RowAmount(
        rows=total if counted is None else counted,
        bound=Bound.ESTIMATE.unless(counted is not None and not facts.new_code.operators),
        why=why if counted is not None else f"{why} The rows that the code makes of them were not counted.",
        files=sum(d.files.value for d in spans if d.files is not None),
        start=begin if len(sources) == 1 else None,
        end=end if len(sources) == 1 else None,
    )


def _together(one: RowAmount, other: RowAmount) -> RowAmount:
    rows = None if one.rows is None or other.rows is None else one.rows + other.rows
    return RowAmount(
        rows=rows,
        bound=joint_bound((one.bound, other.bound)),
        why=f"{one.why} {other.why}",
        files=one.files + other.files,
    )


def _why_lost(skipping: Sequence[SourceFacts], of: str) -> str:
    if unclear := [s for s in skipping if not s.position.is_known]:
        return (
            f"{_told(unclear)} starts behind the last known position. Whether the {of}s in between were read is not "
            "known; those that were not are never read."
        )
    return f"{_told(skipping)} starts behind unread {of}s, which are never read."


def _chosen(facts: Facts, source: SourceFacts) -> Iterable[Finding]:
    start = source.start
    if start is None or not is_moved(source):
        return
    alone = len(facts.sources) == 1
    words = " ".join(dict.fromkeys(start.fallbacks.values()))
    where = (
        f"{name_of(source)} would start at {start.label}, its committed position is {source.position.label}."
    )
    of = registry.source_kind_of(source.position.kind).UNIT
    counts = facts.counts
    for code, distance, counted, what, unless in (
        ("START_SKIPS", start.lost, counts.skipped, "never read", "they are not needed"),
        ("START_REPEATS", start.reread, counts.reread, "read a second time", "the table was cleared of them"),
    ):
        if nothing_in(distance):
            continue
        number, noun, bound = _size(counted if alone else None, distance, of)
        if number is None:
            size, verb = f"{of.capitalize()}s whose number is not known", "are"
        else:
            size, verb = f"{bound.before_number}{count_noun(number, noun)}", "is" if number == 1 else "are"
        says = f"{where} {size} in between {verb} {what}. {words}".rstrip()
        do = f"Take the committed position, unless {unless}."
        if not source.position.is_known:
            do = "Take the position that the progress event of the last committed batch shows (endOffset)."
        yield Finding(code, Severity.WARNING, says, do)
    if words and nothing_in(start.lost) and nothing_in(start.reread):
        yield Finding(
            "START_NOT_AS_SAID", Severity.WARNING, f"{where} {words}", "Make sure that it is meant."
        )


def _size(counted: int | None, distance: Distance, of: str) -> tuple[int | None, str, Bound]:
    """How much, of what, and what that number is, as well as it is known: rows that the code makes, rows or files
    that the source counts."""
    if counted is not None:
        return counted, "row", Bound.EXACT
    if distance.rows is not None:
        return distance.rows.value, "row" if of == "file" else of, distance.rows.bound
    if distance.files is not None:
        return distance.files.value, "file", distance.files.bound
    return None, of, Bound.UNKNOWN


def _told(sources: Sequence[SourceFacts]) -> str:
    return " and ".join(name_of(s) if n == 0 else name_of(s).lower() for n, s in enumerate(sources))
