"""One batch of a checkpoint as its files tell it, or two beside each other. Only reads; state is not listed.

Files: offsets/<batch> is written before a batch runs, commits/<batch> after its sink has committed
(MicroBatchExecution). Which input files a batch took is in the source's own log, between the log ids of the
batch before and its own. Damage is said beside what can still be read, never raised.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from recovery.checkpoints import formats, logpages, positions
from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.formats import CommitFile, Malformed, OffsetFile, OffsetLine
from recovery.checkpoints.inspection import VERSION, open_checkpoint
from recovery.checkpoints.logpages import LogPage, LogSpan
from recovery.checkpoints.progress import folders_in
from recovery.checkpoints.storage import MAX_FILES, Store, reaching
from recovery.errors import NotFound

MAX_SOURCES = 10_000


@dataclass(frozen=True)
class Problem:
    """A file of the batch that is missing or cannot be read, and why."""

    file: str
    why: str


@dataclass(frozen=True)
class BatchSource:
    """One source's line."""

    key: str
    kind: str
    #: the exact text; None: `-`
    offset_json: str | None
    #: the batch before is there to show where it begins
    begins: bool
    #: the line of the batch before
    begins_json: str | None = None
    #: what a file source's log holds for this batch; None for other sources
    files: LogSpan | None = None
    #: the line's values, if its shape is known
    position: Mapping[str, Any] | None = None
    #: of a file source: its directory below `sources/`; two lines of one source share one
    log: str | None = None


@dataclass(frozen=True)
class CheckpointBatch:
    """A batch. Times and watermarks are epoch milliseconds."""

    number: int
    location: str
    planned: bool
    committed: bool
    format: int | None = None
    commit_format: int | None = None
    planned_ms: int | None = None
    watermark_ms: int | None = None
    #: from the commit
    next_watermark_ms: int | None = None
    conf: dict[str, str] = field(default_factory=dict)
    sources: tuple[BatchSource, ...] = ()
    #: operator id -> state partitions, as the commit names them; None: no commit of state format 2; `{}`: the
    #: query has no stateful step
    operators: dict[str, int] | None = None
    #: an operation that Spark put in by itself (a repartition), else None
    control: str | None = None
    problems: tuple[Problem, ...] = ()
    #: the nearest earlier batch on disk
    before: int | None = None
    #: the nearest later batch on disk
    after: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values: of files the first hundred."""
        return asdict(self)


@dataclass(frozen=True)
class ChangedValue:
    """One value that differs; None: it is not there."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class SourceStep:
    """One source in both batches. `files`: what its log holds between the two positions; `same`: equal lines."""

    key: str
    kind: str
    before_json: str | None
    after_json: str | None
    #: "same", "moved", "added", "removed"
    change: str
    files: LogSpan | None = None


@dataclass(frozen=True)
class Difference:
    """What differs from batch `before` to batch `after`; both are in full beside it.

    `operators` says nothing where `operators_untold` names a batch: its commit does not tell its operators.
    """

    before: CheckpointBatch
    after: CheckpointBatch
    sources: tuple[SourceStep, ...]
    header: tuple[ChangedValue, ...]
    conf: tuple[ChangedValue, ...]
    operators: tuple[ChangedValue, ...]
    operators_untold: tuple[int, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, the batches by their numbers."""
        return {**asdict(self), "before": self.before.number, "after": self.after.number}


def read_batch(location: str, number: int) -> CheckpointBatch:
    """A batch of a checkpoint directory, or of the newest version in a flow's directory.

    Raises NotFound where neither an offset nor a commit file has this number, Unreachable, WrongUse.
    """
    with reaching(location):
        return _read_batch_files(_open_listed_tree(location), number)


def compare_batches(location: str, first: int, other: int) -> Difference:
    """Two batches, the older one first. Raises as `read_batch`."""
    with reaching(location):
        tree = _open_listed_tree(location)
        before, after = (_read_batch_files(tree, n) for n in sorted((first, other)))
        return diff_batches(before, after, {s.key: _step_files(tree, before, s) for s in after.sources})


def diff_batches(
    before: CheckpointBatch, after: CheckpointBatch, files: Mapping[str, LogSpan | None] | None = None
) -> Difference:
    """What differs; `files` by source: what its log holds between both positions. Pure."""
    old = {s.key: s for s in before.sources}
    new = {s.key: s for s in after.sources}
    steps = [
        _compare_source(key, old.get(key), new.get(key), (files or {}).get(key)) for key in {**new, **old}
    ]
    header = _list_changed_values(_list_header_values(before), _list_header_values(after))
    untold = tuple(b.number for b in (before, after) if b.operators is None)
    return Difference(
        before,
        after,
        tuple(steps),
        header,
        _list_changed_values(before.conf, after.conf),
        ()
        if untold
        else _list_changed_values(
            _drop_missing_values(before.operators or {}), _drop_missing_values(after.operators or {})
        ),
        tuple(dict.fromkeys(untold)),
    )


def log_page(location: str, key: str, number: int) -> LogPage:
    """A page of the log of source `key`, newest first. Raises NotFound where there is no such file source."""
    with reaching(location):
        tree = _open_listed_tree(location)
        folder = f"sources/{key}"
        if folder not in tree.directories:
            raise NotFound(f"Source {key} keeps no log in {tree.store.location}.")
        return logpages.page_of_log(tree, folder, number)


def numbered_versions(store: Store) -> dict[int, str]:
    """Number -> name of the versions in a flow's directory. Raises OSError."""
    return {int(e.name): e.name for e in store.entries() if e.is_dir and VERSION.fullmatch(e.name)}


def _open_listed_tree(location: str) -> Tree:
    """The checkpoint in use at a location, its logs listed. Raises as `opened`."""
    return list_log_files(open_checkpoint(location)[0])


def list_log_files(store: Store) -> Tree:
    """Names and sizes of metadata, offsets/, commits/ and the sources' logs; state/ may hold millions."""
    files: dict[str, int] = {}
    directories: set[str] = set()
    waiting = ["", "offsets", "commits", "sources"]
    for folder in waiting:
        try:
            entries = store.entries(folder, MAX_FILES)
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if not entry.is_dir:
                files[name] = entry.size
                continue
            directories.add(name)
            if folder == "sources" and len(waiting) < MAX_SOURCES:
                waiting.append(name)
    return Tree(store, files, directories)


def _read_batch_files(tree: Tree, number: int) -> CheckpointBatch:
    offsets, commits = tree.numbers("offsets"), tree.numbers("commits")
    if number not in offsets | commits:
        raise NotFound(
            f"Batch {number} is not in {tree.store.location}. {_describe_held_batches(offsets | commits)}",
            code="no_batch",
        )
    problems: list[Problem] = []
    plan = _read_offsets(tree, number, problems)
    commit = _read_commit(tree, number, problems) if number in commits else None
    before = _read_offsets_before(tree, number) if plan else None
    logs = folders_in(tree, plan, [file for file in (before, plan) if file]) if plan else {}
    sources = (
        [_read_batch_source(tree, number, line, logs[line.key], before) for line in plan.sources]
        if plan
        else []
    )
    return CheckpointBatch(
        number,
        tree.store.location,
        number in offsets,
        number in commits,
        plan.version if plan else None,
        commit.version if commit else None,
        plan.timestamp_ms if plan else None,
        plan.watermark_ms if plan else None,
        commit.watermark_ms if commit else None,
        plan.conf if plan else {},
        tuple(sources),
        _count_state_ids(commit) if commit else None,
        plan.control if plan else None,
        tuple(problems),
        max((n for n in offsets | commits if n < number), default=None),
        min((n for n in offsets | commits if n > number), default=None),
    )


def _describe_held_batches(numbers: set[int]) -> str:
    return f"It holds batches {min(numbers)} to {max(numbers)}." if numbers else "It holds no batch."


def _read_offsets(tree: Tree, number: int, problems: list[Problem]) -> OffsetFile | None:
    try:
        return formats.parse_offsets(tree.bytes_of(f"offsets/{number}"))
    except Malformed as problem:
        problems.append(Problem(f"offsets/{number}", problem.why))
        return None


def _read_commit(tree: Tree, number: int, problems: list[Problem]) -> CommitFile | None:
    try:
        return formats.parse_commit(tree.bytes_of(f"commits/{number}"))
    except Malformed as problem:
        problems.append(Problem(f"commits/{number}", problem.why))
        return None


def _read_offsets_before(tree: Tree, number: int) -> OffsetFile | None:
    """The batch before, where it is still there and readable. Batch 0 begins at nothing, which is known."""
    if number == 0:
        return OffsetFile(1, 0, 0, {}, ())
    return _read_offsets(tree, number - 1, [])


def _read_batch_source(
    tree: Tree, number: int, line: OffsetLine, log: str, before: OffsetFile | None
) -> BatchSource:
    earlier = {s.key: s.offset_json for s in before.sources} if before else {}
    begins = before is not None and (number == 0 or line.key in earlier)
    begins_json = earlier.get(line.key)
    folder = f"sources/{log}"
    upto, after = formats.log_offset(line.offset_json), formats.log_offset(begins_json)
    if upto is not None and folder in tree.directories:
        files = None
        if begins and (begins_json is None or after is not None):
            files = logpages.files_between(tree, folder, -1 if after is None else after, upto)
        return BatchSource(line.key, "files", line.offset_json, begins, begins_json, files, log=log)
    kind, position = _read_source_position(tree, folder, line.offset_json)
    return BatchSource(line.key, kind, line.offset_json, begins, begins_json, None, position)


def _read_source_position(
    tree: Tree, folder: str, offset_json: str | None
) -> tuple[str, Mapping[str, Any] | None]:
    try:
        first = tree.bytes_of(f"{folder}/0") if f"{folder}/0" in tree.files else None
    except Malformed:
        first = None
    return positions.read_position(offset_json, first)


def _count_state_ids(commit: CommitFile) -> dict[str, int] | None:
    ids = commit.body.get("stateUniqueIds")
    if not isinstance(ids, dict):
        return None
    return {str(k): len(v) for k, v in ids.items() if isinstance(v, list)}


def _step_files(tree: Tree, before: CheckpointBatch, source: BatchSource) -> LogSpan | None:
    """What a file source's log holds between the batch before and this line; None where not known."""
    old = {s.key: s.offset_json for s in before.sources}
    upto = formats.log_offset(source.offset_json)
    after = formats.log_offset(old.get(source.key))
    if source.kind != "files" or upto is None or (after is None and old.get(source.key) is not None):
        return None
    return logpages.files_between(tree, f"sources/{source.log}", -1 if after is None else after, upto)


def _compare_source(
    key: str, old: BatchSource | None, new: BatchSource | None, files: LogSpan | None
) -> SourceStep:
    kind = (new or old).kind  # type: ignore[union-attr]  # a key comes from one of both
    if old is None or new is None:
        change = "removed" if new is None else "added"
    else:
        change = "same" if old.offset_json == new.offset_json else "moved"
    before, after = (s.offset_json if s else None for s in (old, new))
    return SourceStep(key, kind, before, after, change, files)


def _list_header_values(batch: CheckpointBatch) -> dict[str, str]:
    values = {
        "watermark": batch.watermark_ms,
        "next watermark": batch.next_watermark_ms,
        "offset format": batch.format,
        "commit format": batch.commit_format,
        "control batch": batch.control,
    }
    return _drop_missing_values(values)


def _drop_missing_values(values: Mapping[str, Any]) -> dict[str, str]:
    return {k: str(v) for k, v in values.items() if v is not None}


def _list_changed_values(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[ChangedValue, ...]:
    keys = [k for k in sorted({*before, *after}) if before.get(k) != after.get(k)]
    return tuple(ChangedValue(k, before.get(k), after.get(k)) for k in keys)
