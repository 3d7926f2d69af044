"""What a plan says of its sources: whether they can be gone on from, what a chosen start costs, what is not known."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from recovery.checkpoints.report import Finding, Severity
from recovery.checkpoints.starts import why_not_seedable
from recovery.checkpoints.uris import decode_uri
from recovery.contracts.amounts import Amount, Bound, RowAmount
from recovery.contracts.option import Blocker, BlockerCode
from recovery.sources import file_facts, files, labels, registry
from recovery.sources.base import Distance, EmptyStart, InputFile, SourceFacts
from recovery.sources.comparing import count_noun, format_time
from recovery.strategies.base import Facts

SOON_MS = 48 * 3600 * 1000  # retention that strikes within this time is a finding: approvals take a night
NOT_ASKED = "What it still holds could not be read."


def unit(facts: Facts) -> str:
    """What is counted in the sources, in people's word: `file`, `record`; `row` where they differ."""
    units = {registry.source_kind_of(s.position.kind).UNIT for s in facts.sources}
    return units.pop() if len(units) == 1 else "row" if units else "file"


def name_of(source: SourceFacts) -> str:
    return f"Source {source.position.source}"


def block(facts: Facts) -> Blocker | None:
    """Why no stream over these sources can be continued from where it stands or shall start; None when it can."""
    going_on = [s for s in facts.checkpoint.sources if not facts.source_map or s.index in facts.source_map]
    for source in going_on:
        if why := why_not_seedable(source):
            return Blocker(code=BlockerCode.SOURCE_NOT_SEEDABLE, says=why)
    reasons = (_unmet(s) or _unreachable(s, facts) for s in concerned(facts))
    return next((reason for reason in reasons if reason), None)


def concerned(facts: Facts) -> list[SourceFacts]:
    """Sources that go on, or have a start: of one that was added nothing is known before somebody chose one."""
    old = facts.source_map or tuple(range(len(facts.sources)))
    return [s for s, was in zip(facts.sources, old, strict=True) if was is not None or s.start is not None]


def uncertain(facts: Facts) -> tuple[SourceFacts, ...]:
    """Sources of which no one can tell whether all that waits there can be read."""
    return tuple(s for s in concerned(facts) if _unknown(s))


def kept(facts: Facts, otherwise: str, *, planned: bool = False) -> RowAmount:
    """What is lost where every position stays: nothing, which is said with `otherwise`, unless no one can tell.

    `planned`: a batch that was planned stays in the source's log, and makes Spark forget what is too old beside it.
    """
    if unsure := uncertain(facts):
        why = f"Whether every unread {unit(facts)} can still be read is not known: {_why_unknown(unsure[0])}"
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)
    if aged := _aged(facts) if planned else []:
        why = (
            f"{count_noun(len(aged), 'unread file')} {'is' if len(aged) == 1 else 'are'} too old beside the batch "
            f"that was planned (maxFileAge), such as {aged[0].rsplit('/', 1)[-1]}: Spark never reads "
            f"{'it' if len(aged) == 1 else 'them'} with this checkpoint."
        )
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why, files=len(aged))
    passed_over = sum(len(source.ignored) for source in concerned(facts))
    if passed_over:
        files = count_noun(passed_over, "file")
        otherwise += (
            f" This leaves out {files} that Spark passes over, recovery or not (maxFileAge, fileNameOnly)."
        )
    if changed := sum(len(list_rewritten(source)) for source in concerned(facts)):
        files = count_noun(changed, "committed file")
        otherwise += f" This leaves out rows that were added to {files} since: Spark reads a file once."
    return nothing(otherwise)


def _aged(facts: Facts) -> list[str]:
    """Files that wait, unless the planned batch stays in the source's log."""
    aged: list[str] = []
    for source in facts.sources:
        held = source.facts
        if isinstance(held, file_facts.FileSourceFacts) and source.start is None:
            at_entry = file_facts.log_entry_of(source.position.offset_json)
            read = held.read_at(-1 if at_entry is None else at_entry)
            late = {f.path for f in file_facts.list_unread(read, held, planned=True).passed_over}
            aged += [f.path for f in source.waiting if f.path in late]
    return aged


def anew(facts: Facts) -> tuple[EmptyStart, ...]:
    """Where each source begins with an empty checkpoint."""
    return tuple(_fresh(s) for s in facts.sources)


def _fresh(source: SourceFacts) -> EmptyStart:
    if (
        source.position.kind == files.KIND and source.facts is None
    ):  # its lists are told without asking anybody
        return EmptyStart(True, not source.gone, "Every file that is there is read.")
    options = source.options or source.reader.options
    return registry.source_kind_of(source.position.kind).find_empty_start(options, source.facts)


def again(facts: Facts, otherwise: str) -> RowAmount:
    """What is read a second time where every position stays: files that were written again after Spark forgot them.
    `otherwise` is said where there are none."""
    files_twice = twice(facts)
    if not files_twice:
        return forecast_read_elsewhere(facts) or nothing(otherwise)
    why = files.said_twice([f.path for f in files_twice])
    return RowAmount(rows=facts.counts.reread, bound=Bound.AT_MOST, why=why, files=len(files_twice))


def list_read_elsewhere(facts: Facts) -> tuple[InputFile, ...]:
    """Files that wait, and seem to be ones that were read at another place: a folder that was moved, copied or linked
    holds the same rows, and Spark, which goes by paths, reads them again.

    Of a source that is new in place of a dropped one, or of whose committed files none is there, the name tells; of
    any other the name and the time of a committed file that is gone.
    """
    old = facts.source_map or tuple(range(len(facts.sources)))
    held = {progress.index: progress.committed for progress in facts.checkpoint.sources}
    dropped = [
        entries for index, entries in held.items() if facts.source_map and index not in facts.source_map
    ]
    seen: list[InputFile] = []
    for source, was in zip(facts.sources, old, strict=True):
        entries = held.get(was) if was is not None else None
        if not source.waiting or (entries is None and not dropped):
            continue
        if entries is not None and source.processed:
            gone = set(source.gone)
            marks = {
                (_file_name(path), e.timestamp_ms)
                for e in (entries if gone else ())
                if (path := decode_uri(e.path)) in gone
            }
            seen += [f for f in source.waiting if (_file_name(f.path), f.mtime_ms) in marks]
            continue
        read = {decode_uri(e.path) for log in (dropped if entries is None else [entries]) for e in log}
        names = {_file_name(path) for path in read}
        seen += [f for f in source.waiting if f.path not in read and _file_name(f.path) in names]
    return tuple(seen)


def _file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def forecast_read_elsewhere(facts: Facts) -> RowAmount | None:
    """What may be read a second time under another path; None: nothing."""
    waiting = list_read_elsewhere(facts)
    if not waiting:
        return None
    why = _say_read_elsewhere(waiting)
    return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why, files=len(waiting))


def _find_read_elsewhere(facts: Facts) -> Iterable[Finding]:
    if waiting := list_read_elsewhere(facts):
        do = "If they are the same files, put the folder back, or choose a start behind them."
        yield Finding("FILES_READ_ELSEWHERE", Severity.WARNING, _say_read_elsewhere(waiting), do)


def _say_read_elsewhere(waiting: Sequence[InputFile]) -> str:
    have = "has" if len(waiting) == 1 else "have"
    return (
        f"{count_noun(len(waiting), 'waiting file')} {have} the name of one that was read in another folder, such as "
        f"{_file_name(waiting[0].path)}. The same files would be read a second time."
    )


def twice(facts: Facts) -> tuple[InputFile, ...]:
    """Files that were read and wait, with no start chosen."""
    files_twice: list[InputFile] = []
    for source in concerned(facts):
        done = {f.path for f in source.processed}
        files_twice += [f for f in source.waiting if source.start is None and f.path in done]
    return tuple(files_twice)


def gone_unread(facts: Facts) -> tuple[str, ...]:
    """Files that a batch had planned, which was never committed, and that are gone since."""
    return tuple(path for source in facts.sources for path in _gone_unread(source))


def _gone_unread(source: SourceFacts) -> list[str]:
    held = source.facts
    if not isinstance(held, file_facts.FileSourceFacts) or held.listing is None:
        return []
    known = {*held.there, *source.gone}
    return [path for path in held.entries if path not in known]


def list_rewritten(source: SourceFacts) -> tuple[InputFile, ...]:
    """Committed files whose time is not that of when they were read, and that are not read again: Spark goes by the
    path."""
    if not isinstance(source.facts, file_facts.FileSourceFacts):
        return ()
    committed = {file.path for file in source.processed} - {file.path for file in source.waiting}
    return tuple(file for file in file_facts.list_rewritten(source.facts) if file.path in committed)


def written_again(facts: Facts) -> bool:
    """Whether a file is there that held something else when it was read, for all that anyone knows."""
    held = (s.facts for s in facts.sources)
    return any(
        isinstance(told, file_facts.FileSourceFacts) and file_facts.list_rewritten(told) for told in held
    )


def number_of(source: SourceFacts) -> int:
    """How many files were read or wait; one that is read twice is one."""
    return len({f.path for f in (*source.processed, *source.waiting)})


def standing(facts: Facts) -> str | None:
    """Where the only source is."""
    return facts.sources[0].position.label if len(facts.sources) == 1 else None


def distance_of(rows: RowAmount) -> Distance:
    """An amount as sinks are asked about it."""
    return Distance(rows=None if rows.rows is None else Amount(value=rows.rows, bound=rows.bound))


def findings(facts: Facts, *, anew: bool = False) -> tuple[Finding, ...]:
    """What a person should know of the sources before choosing. `anew`: they are read from the beginning."""
    listed: list[Finding] = []
    for source in concerned(facts):
        passed_over = _comes_in(source) if anew and source.ignored else _ignored(source)
        listed += [*_not_known(source), *passed_over, *_soon(facts, source), *_find_cleaned(source)]
        listed += () if anew else _find_rewritten(source)
    if not anew and (files_twice := twice(facts)):
        says = files.said_twice([f.path for f in files_twice])
        do = "Take it away first if that must not be; the check that each file is in one batch will not pass."
        listed.append(Finding("INPUT_READ_TWICE", Severity.WARNING, says, do, file=files_twice[0].path))
    return (*listed, *(() if anew else _find_read_elsewhere(facts)))


def goes_on(facts: Facts) -> str:
    """Where reading goes on, a source after the other."""
    places = [
        f"{'source ' + str(s.position.source) + ' ' if len(facts.sources) > 1 else ''}"
        f"after {labels.label_position(s.position.kind, s.begins)}"
        if s.begins is not None
        else f"source {s.position.source} where its own options say"
        if s.position.is_known
        else f"source {s.position.source} where somebody has to say: its position is {s.position.label}"
        for s in facts.sources
    ]
    return f"Reading goes on {', '.join(places)}." if places else "Nothing was read yet."


def nothing(why: str) -> RowAmount:
    return RowAmount(rows=0, bound=Bound.EXACT, why=why)


def say_all_again(facts: Facts) -> str:
    """The way out that reads everything again, as the end of a sentence: nothing empties the table of a program, and a
    full refresh of a shared table starts each of its flows over."""
    if facts.is_plain:
        return "move table and checkpoint away together by hand"
    return "start all flows of the table over together by hand" if facts.writers else "choose full-refresh"


def _unmet(source: SourceFacts) -> Blocker | None:
    """The source was asked, and yet there is a problem: a start was wished that it does not have."""
    if source.problem and source.facts is not None and source.start is None:
        return Blocker(code=BlockerCode.START_NOT_FOUND, says=f"{name_of(source)}: {source.problem}")
    return None


def _unreachable(source: SourceFacts, facts: Facts) -> Blocker | None:
    reach = source.reach
    if reach is None or reach.readable is not False or not reach.stops:
        return None
    rows = reach.lost.rows if reach.lost else None
    size = f" That is {rows.bound.before_number}{count_noun(rows.value, 'row')}." if rows else ""
    return Blocker(
        code=BlockerCode.INPUT_GONE,
        says=f"{name_of(source)} cannot be read on from there. {reach.why}{size} Choose a start behind that "
        f"(continue), or {say_all_again(facts)}.",
    )


def _unknown(source: SourceFacts) -> bool:
    reach = source.reach
    if reach is None:
        return source.problem is not None or source.position.reachable is None
    return reach.readable is None


def _why_unknown(source: SourceFacts) -> str:
    reach = source.reach
    return source.problem or (reach.why if reach else NOT_ASKED)


def _not_known(source: SourceFacts) -> Iterable[Finding]:
    if _unknown(source):
        yield Finding(
            "SOURCE_NOT_ASKED",
            Severity.WARNING,
            f"{name_of(source)}: whether everything that waits can still be read is not known. {_why_unknown(source)}",
            "Make the source reachable and look again, or go on knowing that the forecast is not exact.",
        )


def _ignored(source: SourceFacts) -> Iterable[Finding]:
    reach = source.reach
    if reach is not None and reach.readable is False and not reach.stops:
        yield Finding(
            "INPUT_IGNORED",
            Severity.WARNING,
            f"{name_of(source)}: {reach.why}",
            "A recovery does not change that. Write what you need again, under another name.",
        )


def _find_rewritten(source: SourceFacts) -> Iterable[Finding]:
    changed = list_rewritten(source)
    if not changed:
        return
    says = (
        f"{name_of(source)}: {count_noun(len(changed), 'committed file')} changed since the read, such as "
        f"{_file_name(changed[0].path)}. Rows that were added there since are in no table."
    )
    do = "A recovery does not change that. Write what is missing again, under another name."
    yield Finding("INPUT_CHANGED_AFTER_READ", Severity.WARNING, says, do, file=changed[0].path)


def _find_cleaned(source: SourceFacts) -> Iterable[Finding]:
    """Source: FileStreamSourceCleaner; it takes the files of a batch away once the next one is committed."""
    how = next((str(v).lower() for name, v in source.options.items() if name.lower() == "cleansource"), "off")
    if how not in ("delete", "archive") or not source.waiting:
        return
    says = (
        f"{name_of(source)} {'deletes' if how == 'delete' else 'moves away'} files that it has read (cleanSource), and "
        "the proof compares the new rows with their files: what is gone by then cannot be compared, and the recovery "
        "ends without proof."
    )
    do = "Set cleanSource to off until the recovery is proven, or keep a copy of the waiting files."
    yield Finding("SOURCE_REMOVES_FILES", Severity.WARNING, says, do)


def _comes_in(source: SourceFacts) -> Iterable[Finding]:
    of = [f.path for f in source.ignored]
    yield Finding(
        "IGNORED_INPUT_COMES_IN",
        Severity.WARNING,
        f"{name_of(source)}: {count_noun(len(of), 'file')} that Spark passes over now (maxFileAge, fileNameOnly), "
        f"such as {of[0].rsplit('/', 1)[-1]}, {'is' if len(of) == 1 else 'are'} read from an empty checkpoint: rows "
        "come in that were never in the table.",
        "First remove what should not come in.",
        file=of[0],
    )


def _soon(facts: Facts, source: SourceFacts) -> Iterable[Finding]:
    reach = source.reach
    if reach is None or reach.readable is False or reach.until_ms is None:
        return
    now_ms = round(datetime.fromisoformat(facts.gathered_at).timestamp() * 1000)
    if reach.until_ms - now_ms > SOON_MS:
        return
    affected = f" ({', '.join(reach.parts[:3])})" if reach.parts else ""
    yield Finding(
        "RETENTION_SOON",
        Severity.WARNING,
        f"{name_of(source)}: retention may take the first unread "
        f"{registry.source_kind_of(source.position.kind).UNIT}{affected} from {format_time(reach.until_ms)} on.",
        "Recover before that, or make retention longer until the flow runs again.",
    )


def taken(facts: Facts) -> RowAmount | None:
    """Rows after the committed positions that can no longer be read by anyone; None where everything is there.

    A file that Spark passes over is there: an empty checkpoint reads it.
    """
    broken = [
        s.reach
        for s in facts.sources
        if s.reach is not None
        and s.reach.readable is False
        and (s.position.kind != files.KIND or s.facts is None or _gone_unread(s))
    ]
    if not broken:
        return None
    rows = [reach.lost.rows if reach.lost else None for reach in broken]
    total = None if None in rows else sum(r.value for r in rows if r is not None)
    return RowAmount(rows=total, bound=Bound.ESTIMATE, why=" ".join(reach.why for reach in broken))
