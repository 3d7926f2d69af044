"""Where each source of a checkpoint stands: the committed offset line beside the source's own log."""

from recovery.checkpoints import filelog, formats
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import Malformed, OffsetFile
from recovery.checkpoints.report import Finding, SourceEntry, SourceProgress
from recovery.checkpoints.tree import MAX_LOG_BYTES, Tree


def read_sources(
    tree: Tree, committed: OffsetFile | None, planned: OffsetFile | None, findings: list[Finding]
) -> tuple[SourceProgress, ...]:
    """One progress per source line of the last committed batch (of the planned one, before any commit)."""
    basis = committed or planned
    if basis is None:
        return ()
    ahead = {line.key: line.offset_json for line in planned.sources} if planned else {}
    found = []
    for index, line in enumerate(basis.sources):
        reached = line.offset_json if committed else None
        found.append(_source(tree, index, line.key, reached, ahead.get(line.key), findings))
    return tuple(found)


def _source(
    tree: Tree, index: int, key: str, offset: str | None, planned: str | None, findings: list[Finding]
) -> SourceProgress:
    folder = f"sources/{key}"
    name = None if key == str(index) else key
    reached, ahead = formats.log_offset(offset), formats.log_offset(planned)
    if reached is None and not _begun_file_source(tree, folder, offset, planned):
        findings.append(finding("SOURCE_UNKNOWN", folder, source=key))
        return SourceProgress(index, "unknown", offset, name=name)
    names = filelog.index_of(tree.names(folder))
    _judge_reach(folder, key, names, reached, ahead, findings)
    ids, missing = filelog.needed(names)
    for entry in missing:
        if reached is None or entry <= reached:
            findings.append(finding("SOURCE_LOG_GAP", f"{folder}/{entry}", entry=entry, source=key))
    before: list[SourceEntry] = []
    after: list[SourceEntry] = []
    for entry in ids:
        late = reached is None or entry > reached
        for item in _entries(tree, folder, key, entry, names[entry], late, findings):
            (after if reached is None or item.batch_id > reached else before).append(item)
    return SourceProgress(
        index, "files", offset, reached, tuple(before), tuple(after), bool(filelog.compacted(names)), name
    )


def _begun_file_source(tree: Tree, folder: str, offset: str | None, planned: str | None) -> bool:
    """A file source that has read nothing yet: it makes its log's directory at once, others do not."""
    if offset is not None:
        return False
    return formats.log_offset(planned) is not None or (planned is None and folder in tree.directories)


def _judge_reach(
    folder: str,
    key: str,
    names: dict[int, str],
    reached: int | None,
    ahead: int | None,
    findings: list[Finding],
) -> None:
    if reached is not None and reached not in names:
        findings.append(finding("SOURCE_LOG_MISSING", f"{folder}/{reached}", source=key, entry=reached))
    elif ahead is not None and ahead != reached and ahead not in names:
        findings.append(finding("SOURCE_LOG_PLANNED_MISSING", f"{folder}/{ahead}", source=key, entry=ahead))


def _entries(
    tree: Tree, folder: str, key: str, entry: int, name: str, late: bool, findings: list[Finding]
) -> list[SourceEntry]:
    """Entries of one log file; a header without entries betrays itself only by what it does not say."""
    file = f"{folder}/{name}"
    try:
        found = filelog.parse_source(tree.bytes_of(file, MAX_LOG_BYTES))
    except Malformed as problem:
        if late and not name.endswith(".compact"):
            findings.append(
                finding("SOURCE_LOG_PLANNED_MISSING", file, source=key, entry=f"{entry} ({problem.why})")
            )
        else:
            findings.append(finding("SOURCE_LOG_UNREADABLE", file, source=key, why=problem.why))
        return []
    if not found and not late:
        findings.append(finding("SOURCE_LOG_HEADER_ONLY", file, entry=entry, source=key))
    return found
