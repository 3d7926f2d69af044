"""The position of each source of a checkpoint: the committed offset line beside the source's own log."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial

from recovery.checkpoints import filelog, formats, logscan, positions
from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.findings import finding
from recovery.checkpoints.folders import folders_of
from recovery.checkpoints.formats import Malformed, OffsetFile
from recovery.checkpoints.logscan import EntryTally
from recovery.checkpoints.read_cache import Recent
from recovery.checkpoints.report import Entries, Finding, LostPosition, SourceEntry, SourceProgress
from recovery.errors import Unreachable

# (sha256 of a log file, log id up to which it counts) -> what it tallies to; at most two hundred entries each
_TALLIES: Recent[tuple[str, int | None], tuple[EntryTally, EntryTally]] = Recent(256)


def read_sources(
    tree: Tree,
    newest: tuple[int | None, int | None],
    read: Mapping[int | None, OffsetFile],
    findings: list[Finding],
) -> tuple[SourceProgress, ...]:
    """One progress per source line of the last committed batch (of the planned one, where that cannot be read).

    `newest`: the last committed and the last planned batch. `read`: all offset files that can be read; they tell
    which lines are one source's.
    """
    last, ahead_of = newest
    committed, planned, every = read.get(last), read.get(ahead_of), read.values()
    basis = committed or planned
    if basis is None:
        return ()
    ahead = {line.key: line.offset_json for line in planned.sources} if planned else {}
    folders = folders_in(tree, basis, every)
    sources: list[SourceProgress] = []
    for index, line in enumerate(basis.sources):
        reached = line.offset_json if committed else None
        log = folders[line.key]
        twin = next((s for s in sources if log == s.log), None) if log != line.key else None
        if twin is not None:
            sources.append(replace(twin, index=index, twin_of=twin.index))
            findings.append(finding("SOURCE_READ_TWICE", f"sources/{log}", source=index, other=twin.index))
            continue
        source = _read_source_progress(tree, index, log, reached, ahead.get(line.key), findings)
        name = None if line.key == str(index) or line.key != log else line.key
        lost = _find_lost_position(line.key, last, read) if last is not None and not committed else None
        sources.append(replace(source, name=name, log=log, lost=lost))
        findings += _find_unrecorded_entries(tree, source, line.key, log, every)
    return tuple(sources)


def _find_lost_position(key: str, batch: int, read: Mapping[int | None, OffsetFile]) -> LostPosition:
    """What is known of a source at committed batch `batch`, whose offset file cannot be read."""
    lines = {
        number: line.offset_json
        for number, offsets in read.items()
        if number is not None and number < batch
        for line in offsets.sources
        if line.key == key
    }
    known = max(lines, default=None)
    return LostPosition(batch, known, None if known is None else lines[known])


def _find_unrecorded_entries(
    tree: Tree, source: SourceProgress, key: str, log: str, every: Collection[OffsetFile]
) -> list[Finding]:
    """Log entries beyond those that any offset file knows.

    A source writes its entry just before the batch is planned (FileStreamSource.fetchMaxOffset), so a crash in
    between leaves one. Two or more: their batches have run.
    """
    known = [
        formats.log_offset(line.offset_json)
        for offsets in every
        for line in offsets.sources
        if line.key == key
    ]
    reached = max((at for at in known if at is not None), default=None)
    names = filelog.index_of(tree.names(f"sources/{log}"))
    newest = max(names, default=-1)
    if source.kind != "files" or reached is None or newest < reached + 2 or filelog.needed_entries(names)[1]:
        return []
    words = {"source": key, "entry": newest, "reached": reached}
    batch = max(n for n in tree.numbers("offsets"))
    return [finding("PROGRESS_UNRECORDED", f"sources/{log}/{names[newest]}", batch=batch, **words)]


def folders_in(tree: Tree, basis: OffsetFile, every: Collection[OffsetFile]) -> dict[str, str]:
    """Key of each line -> name of its log's directory below `sources/`."""
    logs = [n for n in tree.names("sources") if f"sources/{n}" in tree.directories and not n.startswith(".")]
    return folders_of(basis, every, {n: filelog.index_of(tree.names(f"sources/{n}")) for n in logs})


def _read_source_progress(
    tree: Tree, index: int, key: str, offset: str | None, planned: str | None, findings: list[Finding]
) -> SourceProgress:
    folder = f"sources/{key}"
    name = None if key == str(index) else key
    reached, ahead = formats.log_offset(offset), formats.log_offset(planned)
    if reached is None and not _begun_file_source(tree, folder, offset, planned):
        return _not_files(tree, index, key, name, (offset, planned), findings)
    names = filelog.index_of(tree.names(folder))
    _judge_reach(folder, key, names, reached, ahead, findings)
    ids, missing = filelog.needed_entries(names)
    for entry in missing:
        if reached is None or entry <= reached:
            findings.append(finding("SOURCE_LOG_GAP", f"{folder}/{entry}", entry=entry, source=key))
    if missing and reached is not None and missing[0] > reached:
        stray = max(names)
        findings.append(finding("SOURCE_LOG_STRAY", f"{folder}/{names[stray]}", entry=stray, source=key))
    before, after, good = EntryTally(), EntryTally(), []
    for entry in ids:
        late = reached is None or entry > reached
        tallies = _tally_with_findings(tree, folder, key, entry, names[entry], reached, late, findings)
        if tallies:
            before.merge(tallies[0])
            after.merge(tallies[1])
            good.append(f"{folder}/{names[entry]}")
    again = partial(_reread_counted_entries, tree, tuple(good), reached)
    return SourceProgress(
        index,
        "files",
        offset,
        reached,
        Entries(before.count, tuple(before.first), before.newest, partial(again, late=False)),
        Entries(after.count, tuple(after.first), after.newest, partial(again, late=True)),
        bool(filelog.compacted_ids(names)),
        name,
    )


def _reread_counted_entries(
    tree: Tree, files: tuple[str, ...], reached: int | None, *, late: bool
) -> Iterator[SourceEntry]:
    """The counted entries, read once more; their bytes must still be those that were counted."""
    known = {name: tree.digests[name] for name in files}
    fresh = replace(tree, digests={})
    try:
        for name in files:
            for block in logscan.iterate_blocks(fresh.pieces(name)):
                for entry in logscan.parse_entries(block):
                    if late == (reached is None or entry.batch_id > reached):
                        yield entry
            if fresh.digests[name] != known[name]:
                raise Malformed("it has changed")
    except Malformed as problem:
        raise Unreachable(
            f"{tree.store.location}/{name} was counted and can no longer be read: {problem.why}. "
            "Look at the checkpoint again."
        ) from problem


def _not_files(
    tree: Tree,
    index: int,
    key: str,
    name: str | None,
    lines: tuple[str | None, str | None],
    findings: list[Finding],
) -> SourceProgress:
    """A source without a log of files: its committed line is kept, and read where its shape is known. `lines`: the
    committed one and the planned one, which shows the kind alone where nothing is committed."""
    folder, (offset, planned) = f"sources/{key}", lines
    try:
        first = tree.bytes_of(f"{folder}/0") if f"{folder}/0" in tree.files else None
    except Malformed:
        first = None  # too large for what is meant here
    kind, position = positions.read_position(offset, first)
    if offset is None:
        kind, _ = positions.read_position(planned, first)
    if offset is None and planned is None and first is not None and first.startswith(b"\0"):
        kind = "kafka"
    if position is None and kind == "unknown":
        findings.append(finding("SOURCE_UNKNOWN", folder, source=key))
    elif position is not None:
        said = positions.describe_position(kind, position)
        findings.append(finding("SOURCE_KEPT", folder, source=key, kind=kind, position=said))
    began = None
    if kind == "kafka" and first is not None:
        try:
            began = json.dumps(positions.initial_offsets(first), separators=(",", ":"))
        except Malformed as problem:
            findings.append(finding("KAFKA_START_UNREADABLE", f"{folder}/0", source=key, why=problem.why))
    return SourceProgress(
        index,
        kind,
        offset,
        name=name,
        position=position,
        bare=not tree.names(f"sources/{key}"),
        first_json=began if offset is None else None,
    )


def _begun_file_source(tree: Tree, folder: str, offset: str | None, planned: str | None) -> bool:
    """A file source that has read nothing yet: it makes its log's directory at once, others do not but Kafka's."""
    if offset is not None or _shows_kafka(tree, folder):
        return False
    return formats.log_offset(planned) is not None or (planned is None and folder in tree.directories)


def _shows_kafka(tree: Tree, folder: str) -> bool:
    """Whether entry 0 is where a Kafka source began: a zero byte before the version, and no file named."""
    try:
        return f"{folder}/0" in tree.files and tree.bytes_of(f"{folder}/0").startswith(b"\0")
    except Malformed:
        return False


def _judge_reach(
    folder: str,
    key: str,
    names: dict[int, str],
    reached: int | None,
    ahead: int | None,
    findings: list[Finding],
) -> None:
    if reached is not None and reached >= 0 and reached not in names:
        findings.append(finding("SOURCE_LOG_MISSING", f"{folder}/{reached}", source=key, entry=reached))
    elif ahead is not None and ahead != reached and ahead not in names:
        findings.append(finding("SOURCE_LOG_PLANNED_MISSING", f"{folder}/{ahead}", source=key, entry=ahead))


def _tally_with_findings(
    tree: Tree,
    folder: str,
    key: str,
    entry: int,
    name: str,
    reached: int | None,
    late: bool,
    findings: list[Finding],
) -> tuple[EntryTally, EntryTally] | None:
    """One log file counted; a header without entries betrays itself only by what it does not say."""
    file = f"{folder}/{name}"
    try:
        before, after = _tally_log_file(tree, file, reached)
    except Malformed as problem:
        if late and not name.endswith(".compact"):
            findings.append(
                finding("SOURCE_LOG_PLANNED_MISSING", file, source=key, entry=f"{entry} ({problem.why})")
            )
        else:
            findings.append(finding("SOURCE_LOG_UNREADABLE", file, source=key, why=problem.why))
        return None
    if not before.count and not after.count and not late:
        findings.append(finding("SOURCE_LOG_HEADER_ONLY", file, entry=entry, source=key))
    elif name.endswith(".compact") and (why := _explain_incomplete_entry(before, after, entry)):
        findings.append(finding("SOURCE_LOG_INCOMPLETE", file, entry=entry, source=key, why=why))
    return before, after


def _tally_log_file(tree: Tree, file: str, reached: int | None) -> tuple[EntryTally, EntryTally]:
    """One log file tallied; the same bytes, whatever their name, are gone through once. Raises Malformed."""
    known = tree.proven(file)
    tallies = _TALLIES.get((known, reached)) if known else None
    if tallies is None:
        tallies = logscan.tally_entries(tree.pieces(file), reached)
        _TALLIES.put((tree.digests[file], reached), tallies)
    return tallies


def _explain_incomplete_entry(before: EntryTally, after: EntryTally, entry: int) -> str | None:
    """Whether a compacted entry betrays that lines are gone: each log id up to its own has a file at least.

    Not so in a log that was rebuilt from a listing, whose files all have one id.
    """
    first = (before.first or after.first)[0]
    last = after.newest or before.newest
    if last is None or first.batch_id == last.batch_id:
        return None
    if first.batch_id or last.batch_id != entry:
        return f"it begins with files of entry {first.batch_id} and ends with those of {last.batch_id}"
    count = before.count + after.count
    return f"it names {count} files for {entry + 1} entries" if count <= entry else None
