"""Reads and judges one checkpoint. Only reads; whatever the bytes are, the answer is findings or one sentence.

Where the facts come from: MicroBatchExecution.populateStartOffsets reads the two newest offset files and the
newest commit; FileStreamSource reads the newest compacted entry of its log and all later ones.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from recovery.checkpoints import filelog, formats
from recovery.checkpoints.absent import KeepsState, judge_absence
from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.findings import finding
from recovery.checkpoints.fingerprints import LOGS, CheckpointMarks, marks_of, superseded_files
from recovery.checkpoints.formats import CommitFile, Malformed, OffsetFile
from recovery.checkpoints.header_consistency import judge_agreement, judge_resumption, partitions_by_headers
from recovery.checkpoints.headers import judge_headers, stray_offsets, tracks_asynchronously
from recovery.checkpoints.input_file_checks import judge_inputs
from recovery.checkpoints.inside import refuse_inside, refuse_log
from recovery.checkpoints.location_checks import judge_place
from recovery.checkpoints.progress import read_sources
from recovery.checkpoints.report import CheckpointReport, Finding, StateOperator
from recovery.checkpoints.rewind_history import judge_older
from recovery.checkpoints.sidecars import judge_sidecars
from recovery.checkpoints.state.deep import Progress
from recovery.checkpoints.state.read import QueryStanding, read_operators
from recovery.checkpoints.storage import MAX_FILES, Store, reaching
from recovery.checkpoints.table_log_checks import beside_table
from recovery.checkpoints.writer import before_2_2, written_by
from recovery.errors import Unreachable

PARTS = {"metadata", "offsets", "commits", "sources", "state"}
SHOWN_BATCHES = 100  # Spark keeps this many (minBatchesToRetain)
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
VERSION = re.compile(r"[0-9]{1,9}")
OPERATOR_FILES = re.compile(r"state/[^/]+/(0/)?_(metadata|stateSchema)/")


@dataclass(frozen=True)
class InspectionRequest:
    """What an inspection is to look at besides, and what is known already: as `inspect` says."""

    sink: str | None = None
    deep: bool = False
    inputs: bool = False
    keeps_state: KeepsState | None = None
    progress: Progress | None = None


def list_versions(flow_location: str) -> list[int]:
    """Numbers of the checkpoint versions in an SDP flow directory, ascending ([]: it has never run).

    Any numeric name counts, a file's too, as it does in SystemMetadata.getLatestCheckpointDir.
    Raises Unreachable when the storage fails; a missing directory has no versions.
    """
    with reaching(flow_location):
        try:
            return sorted(_list_version_names(Store.open(flow_location)))
        except FileNotFoundError:
            return []


def read_fingerprint(location: str) -> str:
    """sha256 (hex) over names, sizes and the contents of metadata, offsets, commits and source logs.

    `location` as for `inspect`; names and sizes only of source log entries that a newer compacted entry
    replaces. Of the state it counts schemas and partitions, not the files of single versions: Spark's maintenance
    writes snapshots and removes old files after the query has ended (StateStore.doMaintenance, seen on 4.2), and the
    state of a batch is the same before and after. Equal means that the stream has not moved.
    """
    return read_marks(location).fingerprint


def read_marks(location: str) -> CheckpointMarks:
    """Both marks of a checkpoint: `fingerprint`, and `exact`, which counts every state file's name and size too."""
    with reaching(location):
        store, _, _ = _resolve_version(Store.open(location))
        return marks_of(tree_of(store))


def inspect_checkpoint(
    location: str,
    *,
    sink: str | None = None,
    deep: bool = False,
    inputs: bool = False,
    keeps_state: KeepsState | None = None,
    progress: Progress | None = None,
) -> CheckpointReport:
    """Judge a checkpoint directory, or the newest version in an SDP flow directory.

    `sink`: location of the table; its log is compared. `deep`: parse also the files that only a rewind would
    read, and check every state file; `progress` is called with (state files checked, all of them). `inputs`: list
    the directories of the input files that the logs name, and say which are gone. `keeps_state`: what is known
    of the code; None: the caller compares its operators with those of the report. Raises Unreachable when a path
    cannot be read, WrongUse for a path of an unknown scheme; damage is never an exception but a finding.
    """
    with reaching(location):
        store, version, first = _resolve_version(Store.open(location))
        tree = tree_of(store)
        known = InspectionRequest(sink, deep, inputs, keeps_state, progress)
        return _judge_tree(tree, version, first, known)


def inspect_with_state(location: str, *, sink: str | None, most_bytes: int) -> CheckpointReport:
    """As `inspect_checkpoint` with `deep`, where the state has at most so many bytes; beyond that the state files are
    not read, which is a finding (`STATE_UNREAD`)."""
    report = inspect_checkpoint(location, sink=sink)
    size = sum(operator.size_bytes or 0 for operator in report.state_operators)
    if size <= most_bytes:
        return inspect_checkpoint(location, sink=sink, deep=True)
    unread = finding(
        "STATE_UNREAD", location=location, size=_format_gibibytes(size), limit=_format_gibibytes(most_bytes)
    )
    return replace(report, findings=(*report.findings, unread))


def _format_gibibytes(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def open_checkpoint(location: str) -> tuple[Store, int | None]:
    """The checkpoint directory that `inspect` would judge, and its version number where it is one of a flow's."""
    with reaching(location):
        store, version, _ = _resolve_version(Store.open(location))
        return store, version


def judge_store(store: Store, *, version: int | None = None, sink: str | None = None) -> CheckpointReport:
    """As `inspect`, for a checkpoint that is open already: on disk, or laid out and not yet written."""
    with reaching(store.location):
        return _judge_tree(tree_of(store), version, [], InspectionRequest(sink))


def _list_version_names(flow: Store) -> dict[int, str]:
    return {int(e.name): e.name for e in flow.entries() if VERSION.fullmatch(e.name)}


def _resolve_version(store: Store) -> tuple[Store, int | None, list[Finding]]:
    """The checkpoint directory itself, its version number where it is one of a flow's, findings so far."""
    try:
        entries = store.entries()
    except FileNotFoundError as error:
        raise Unreachable(f"{store.location} does not exist. Check the path.") from error
    except NotADirectoryError as error:
        refuse_inside(store)
        raise Unreachable(f"{store.location} is a file; a checkpoint is a directory.") from error
    parts = PARTS & {e.name for e in entries}
    if not parts & {"offsets", "commits"}:
        refuse_inside(store)
    if parts:
        return store, None, []
    numbered = {int(e.name): e for e in entries if VERSION.fullmatch(e.name)}
    if not any(e.is_dir for e in numbered.values()):
        refuse_log(store, entries)
    if not numbered:
        return store, None, []
    newest = numbered[max(numbered)]
    if newest.is_dir:
        return store.child(newest.name), max(numbered), []
    findings = [finding("VERSION_NOT_A_DIRECTORY", newest.name, name=newest.name)]
    directories = [n for n, e in numbered.items() if e.is_dir]
    if not directories:
        return store, None, findings
    return store.child(numbered[max(directories)].name), max(directories), findings


def tree_of(store: Store) -> Tree:
    """All names below a checkpoint; of a place that is none, the first level: it may be a whole bucket."""
    top = store.entries()
    if not PARTS & {e.name for e in top}:
        files = {e.name: e.size for e in top if not e.is_dir}
        return Tree(store, files, {e.name for e in top if e.is_dir})
    tree = Tree(store, *store.walk())
    if store.local:
        return tree
    unread = superseded_files(tree)
    read = {n: size for n, size in tree.files.items() if _is_log(n) and n not in unread}
    return replace(tree, store=store.prefetch_files(read))


def _is_log(name: str) -> bool:
    return name == "metadata" or name.startswith(LOGS) or bool(OPERATOR_FILES.match(name))


def _judge_tree(
    tree: Tree, version: int | None, first: list[Finding], asked: InspectionRequest
) -> CheckpointReport:
    findings = list(first)
    if not tree.whole:
        findings.append(finding("TOO_MANY_FILES", limit=MAX_FILES))
    known = {name.split("/", 1)[0] for name in (*tree.files, *tree.directories)} & PARTS
    if not known:
        findings += _explain_no_checkpoint(tree, first)
    offsets, commits = _planned_and_committed(tree, findings)
    committed, planned = max(commits, default=None), max(offsets, default=None)
    query_id = _query_id(tree, bool(known), findings)
    commit = _read_newest_commit(tree, committed, findings)
    numbering = len(findings)
    read = _read_offset_files(tree, offsets, committed, planned, findings)
    old = before_2_2(read.values(), commits)
    findings[numbering:numbering] = _compare_numbering(tree, offsets, commits, old=old)
    sources = read_sources(tree, (committed, planned), read, findings)
    conf = (read.get(committed) or read.get(planned) or OffsetFile(1, 0, 0, {}, ())).conf
    standing = QueryStanding(conf, commit, committed, planned, partitions_by_headers(read, planned), old)
    operators = read_operators(tree, standing, findings, deep=asked.deep, progress=asked.progress)
    findings += judge_absence(
        tree,
        read.values(),
        (offsets, commits),
        commit,
        version=standing.version,
        keeps_state=asked.keeps_state,
    )
    _judge_read(tree, read, standing, operators, findings)
    findings += judge_place(tree.store.location) if known else []
    findings += judge_inputs(sources) if asked.inputs else []
    findings += judge_older(tree, findings) if asked.deep else []
    if asked.sink is not None:
        findings += _compare_table(
            asked.sink, tree.store, query_id, (committed, planned), read, operators, deep=asked.deep
        )
    marks = marks_of(tree)
    return CheckpointReport(
        location=tree.store.location,
        format="structured-streaming" if known else "none",
        version=version,
        query_id=query_id,
        last_committed=committed,
        last_planned=planned,
        sources=sources,
        state_operators=operators,
        findings=tuple(findings),
        batches=_summarize_batches(read, offsets, commits),
        conf=conf,
        fingerprint=marks.fingerprint,
        exact_fingerprint=marks.exact,
        size_bytes=sum(tree.files.values()),
        written_by=_written_by(read.get(planned) or read.get(committed), commit, operators, old=old),
        sinks=commit.sinks if commit else (),
        watermark_ms=commit.watermark_ms if commit else None,
        closed_ms=read[committed].watermark_ms if committed in read else None,
    )


def _judge_read(
    tree: Tree,
    read: dict[int | None, OffsetFile],
    standing: QueryStanding,
    operators: tuple[StateOperator, ...],
    findings: list[Finding],
) -> None:
    """Findings on what the files that were read say together; sidecars come last, they pass over what is damaged."""
    committed, planned = standing.committed, standing.planned
    findings += _of_old(planned, operators) if standing.old else []
    findings += _in_the_way(tree)
    findings += judge_headers(tree, read, committed, old=standing.old)
    findings += judge_agreement(read, planned, (committed, standing.commit), operators)
    findings += judge_resumption(read, planned, committed)
    findings += judge_sidecars(tree, findings)


def _compare_table(
    location: str,
    checkpoint: Store,
    query_id: str | None,
    newest: tuple[int | None, int | None],
    read: Mapping[int | None, OffsetFile],
    operators: tuple[StateOperator, ...],
    *,
    deep: bool,
) -> list[Finding]:
    """Findings of the table's log beside the checkpoint. `newest`: the last committed and the last planned batch."""
    committed, planned = newest
    planned_at = {batch: file.timestamp_ms for batch, file in read.items() if batch is not None}
    with reaching(location):
        return beside_table(
            Store.open(location),
            query_id,
            committed,
            planned,
            operators,
            deep=deep,
            planned_at=planned_at,
            checkpoint=checkpoint,
        )


def _planned_and_committed(tree: Tree, findings: list[Finding]) -> tuple[set[int], set[int]]:
    """Numbers of the batches with an offset file, and with a commit; without offset files that are none of a batch."""
    offsets, commits = tree.numbers("offsets"), tree.numbers("commits")
    stray = stray_offsets(offsets, commits)
    findings += [finding("OFFSET_STRAY", f"offsets/{n}", batch=n) for n in sorted(stray)]
    return offsets - stray, commits


def _explain_no_checkpoint(tree: Tree, first: list[Finding]) -> list[Finding]:
    if first:
        return []
    hidden = all(name.startswith(".") for name in (*tree.files, *tree.directories))
    return [finding("CHECKPOINT_EMPTY" if hidden else "NOT_A_CHECKPOINT")]


def _query_id(tree: Tree, known: bool, findings: list[Finding]) -> str | None:
    if "metadata" not in tree.files:
        if known:
            findings.append(finding("METADATA_MISSING", "metadata"))
        return None
    try:
        return formats.parse_metadata(tree.bytes_of("metadata"))
    except Malformed as problem:
        findings.append(finding("METADATA_UNREADABLE", "metadata", why=problem.why))
        return None


def _read_newest_commit(tree: Tree, newest: int | None, findings: list[Finding]) -> CommitFile | None:
    if newest is None:
        return None
    name = f"commits/{newest}"
    try:
        return formats.parse_commit(tree.bytes_of(name))
    except Malformed as problem:
        if problem.newer:
            findings.append(finding("COMMIT_NEWER_FORMAT", name, batch=newest, version=problem.newer))
        else:
            findings.append(finding("COMMIT_UNREADABLE", name, batch=newest, why=problem.why))
        return None


def _written_by(
    newest: OffsetFile | None, commit: CommitFile | None, operators: Sequence[StateOperator], *, old: bool
) -> dict[str, str | None] | None:
    if old:
        return {"at_least": None, "before": "2.2"}
    return written_by(newest, commit, operator_metadata=any(o.metadata_version for o in operators))


def _of_old(planned: int | None, operators: Sequence[StateOperator]) -> list[Finding]:
    """What a Spark before 2.2 left to the session: in how many partitions the state is."""
    partitions = max((o.partitions for o in operators), default=0)
    if not partitions:
        return []
    return [finding("WRITTEN_BEFORE_2_2", f"offsets/{planned}", batch=planned, partitions=partitions)]


def _compare_numbering(tree: Tree, offsets: set[int], commits: set[int], *, old: bool) -> list[Finding]:
    """How the newest offset and the newest commit stand to each other; `old`: there never were commits."""
    committed, planned = max(commits, default=None), max(offsets, default=None)
    if planned is None:
        # A log entry without an offset file is no damage: Spark writes it just before batch 0 is planned.
        left = committed is not None or tree.names("state")
        return [finding("OFFSETS_MISSING", "offsets")] if left else []
    findings: list[Finding] = []
    if planned > 0 and planned - 1 not in offsets and not tracks_asynchronously(offsets, commits):
        findings.append(finding("OFFSET_NEIGHBOUR_MISSING", f"offsets/{planned - 1}", batch=planned - 1))
    if committed is not None and committed > planned:
        findings.append(finding("COMMITS_AHEAD", f"offsets/{committed}", batch=committed, newest=planned))
    elif committed is None or committed < planned:
        if not old and planned - 1 > (-1 if committed is None else committed):
            newest = "missing" if committed is None else committed
            findings.append(
                finding("COMMITS_BEHIND", None, planned=planned, before=planned - 1, newest=newest)
            )
        is_first = planned == 0 and not old
        findings.append(
            finding("FIRST_BATCH_PLANNED", "offsets/0")
            if is_first
            else finding("BATCH_PLANNED", f"offsets/{planned}", batch=planned)
        )
    return findings


def _read_offset_files(
    tree: Tree, offsets: set[int], committed: int | None, planned: int | None, findings: list[Finding]
) -> dict[int | None, OffsetFile]:
    """Offset files by batch, the newest hundred; findings only for those that a restart reads."""
    read: dict[int | None, OffsetFile] = {}
    matter = {b for b in (planned, committed) if b is not None}
    matter |= {b - 1 for b in matter}
    shown = sorted(offsets)[-SHOWN_BATCHES:]
    contents = tree.contents_of([f"offsets/{batch}" for batch in shown])
    for batch in shown:
        name = f"offsets/{batch}"
        try:
            read[batch] = formats.parse_offsets(contents[name]())
        except Malformed as problem:
            if batch not in matter:
                continue
            ahead = committed is None or batch > committed
            if problem.newer:
                findings.append(finding("OFFSET_NEWER_FORMAT", name, batch=batch, version=problem.newer))
            else:
                code = "OFFSET_PLANNED_UNREADABLE" if ahead else "OFFSET_UNREADABLE"
                findings.append(finding(code, name, batch=batch, why=problem.why))
    for batch in sorted(matter & set(read) - {None}):
        _same_sources(tree, read, batch, committed, findings)
    return read


def _same_sources(
    tree: Tree, read: dict[int | None, OffsetFile], batch: int, committed: int | None, findings: list[Finding]
) -> None:
    count = len(read[batch].sources)
    expected = len(read[batch - 1].sources) if batch - 1 in read else max(count, 1)
    if count == expected:
        return
    if read[batch].version > 1 and count:
        # with evolution on the code may add and drop sources, which then have names
        named = read[batch].conf.get(EVOLUTION) == "true"
        here = {line.key for line in read[batch].sources}
        gone = {line.key: line.offset_json for line in read[batch - 1].sources if line.key not in here}
        for key in sorted(gone):
            if named and not _went_on(tree, key, formats.log_offset(gone[key])):
                continue
            findings.append(finding("OFFSET_SOURCE_DROPPED", f"offsets/{batch}", batch=batch, source=key))
        return
    name = f"offsets/{batch}"
    if committed is not None and batch <= committed:
        findings.append(finding("OFFSET_SOURCES_LOST", name, batch=batch, found=count, expected=expected))
    else:
        why = f"it has {count} source lines; the batch before has {expected}"
        findings.append(finding("OFFSET_PLANNED_UNREADABLE", name, batch=batch, why=why))


def _went_on(tree: Tree, key: str, reached: int | None) -> bool:
    """Has a source's log an entry beyond this position, so that the batch without its line has read it?"""
    return reached is not None and reached < max(filelog.index_of(tree.names(f"sources/{key}")), default=-1)


def _in_the_way(tree: Tree) -> list[Finding]:
    """What is where Spark writes next: sidecars of files that are gone, and directories.

    Hadoop's local file system then refuses the rename. A directory is passed over until its number comes.
    """
    if not tree.store.local:
        return []
    findings = []
    for folder in ("offsets", "commits", *(f"sources/{n}" for n in tree.names("sources"))):
        names = tree.names(folder)
        newest = max(filelog.index_of(n for n in names if f"{folder}/{n}" in tree.files), default=-1)
        for name in sorted(names):
            if not (name.startswith(".") and name.endswith(".crc")) or name[1:-4] in names:
                continue
            parsed = filelog.parse_name(name[1:-4])
            if parsed and parsed[0] > newest:
                findings.append(finding("ORPHAN_CRC", f"{folder}/{name}", name=name))
        if str(newest + 1) in names:
            findings.append(
                finding("DIRECTORY_IN_THE_WAY", f"{folder}/{newest + 1}", folder=folder, name=newest + 1)
            )
    return findings


def _summarize_batches(
    read: dict[int | None, OffsetFile], offsets: set[int], commits: set[int]
) -> tuple[dict[str, object], ...]:
    shown = sorted(offsets | commits, reverse=True)[:SHOWN_BATCHES]
    return tuple(
        {
            "batch": batch,
            "planned": batch in offsets,
            "committed": batch in commits,
            "offsets": [line.offset_json for line in read[batch].sources] if batch in read else [],
            "timestamp_ms": read[batch].timestamp_ms if batch in read else None,
        }
        for batch in shown
    )
