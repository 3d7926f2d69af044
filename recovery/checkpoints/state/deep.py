"""`deep`: state files opened and checked, in parallel, each in bounded memory.

A file with a checksum file of Spark's (`<file>.crc`, JSON: CRC32C and size) is compared with that, as Spark does
when it reads (ChecksumCheckpointFileManager). Others are read as Spark reads them: deltas, snapshots and changelogs
block by block and record by record, zips by their members' checksums, SST files that a zip names by those of their
blocks.
"""

import zipfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from recovery.checkpoints.access import carry_access
from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.formats import Malformed, number_of, object_of, text_of
from recovery.checkpoints.state.blocks import UnknownCodec, plain_blocks
from recovery.checkpoints.state.checksums import crc32c
from recovery.checkpoints.state.names import StateFile, StoreFiles
from recovery.checkpoints.state.records import check_records
from recovery.checkpoints.state.rocksdb import BAD_ZIP, NO_ZIP, RocksDbSnapshot, parse_snapshot, store_failed
from recovery.checkpoints.state.sst import FilterDamaged, Unchecked, check_sst

Progress = Callable[[int, int], None]  # files checked, files in all; called from the caller's own thread

THREADS = 8
AHEAD = 4 * THREADS  # files under way or waiting: what bounds memory, whatever the number of files
CHUNK = 1 << 20
MAX_UNPACKED = 1 << 32  # RocksDB's small files in a zip: megabytes at most


@dataclass
class VerifiedFiles:
    """`problems`: by file. `useless`: files that cannot be loaded, with the zips whose SST files cannot.

    `filters`: SST files of which the filter alone is damaged. `unchecked`: by file, why it was not checked.
    """

    problems: dict[str, Malformed] = field(default_factory=dict)
    useless: set[str] = field(default_factory=set)
    unchecked: dict[str, str] = field(default_factory=dict)
    filters: dict[str, Malformed] = field(default_factory=dict)


@dataclass(frozen=True)
class _Answer:
    file: str
    #: of the file, or of SST files that it names
    problems: tuple[tuple[str, Malformed], ...] = ()
    unchecked: str | None = None
    #: SST files that are there as it says
    names: tuple[str, ...] = ()


def verify_state_files(
    tree: Tree, stores: Iterable[StoreFiles], progress: Progress | None = None
) -> VerifiedFiles:
    """Check every versioned file of these stores and what the zips name. Raises OSError when the store fails."""
    stores = list(stores)
    work = [(store, file) for store in stores for file in store.versioned]
    tables = {name: size for store in stores for name, size in store.shared.items() if name.endswith(".sst")}
    verified, bases = VerifiedFiles(), defaultdict[str, list[str]](list)  # SST file -> zips that name it

    # one after the other: which SST files count is known once every zip has been read
    first = _in_parallel(partial(_check_file, tree, store, file) for store, file in work)
    then = _in_parallel(partial(_check_sst, tree, name, size, name in bases) for name, size in tables.items())
    for done, answer in enumerate(chain(first, then), start=1):
        for name in answer.names:
            bases[name].append(answer.file)
        for file, problem in answer.problems:
            if isinstance(problem, FilterDamaged):
                verified.filters[file] = problem
                continue
            verified.problems[file] = problem
            verified.useless |= {file, answer.file, *bases.get(file, ())}
        if answer.unchecked:
            verified.unchecked[answer.file] = answer.unchecked
        if progress:
            progress(done, len(work) + len(tables))
    return verified


def _in_parallel(checks: Iterable[Callable[[], _Answer]]) -> Iterator[_Answer]:
    waiting: deque[Future[_Answer]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            for check in checks:
                waiting.append(pool.submit(carry_access(check)))
                if len(waiting) >= AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _check_file(tree: Tree, store: StoreFiles, file: StateFile) -> _Answer:
    try:
        sure = f"{file.name}.crc" in store.sidecars and _matches_sidecar(tree, file)
        if file.kind == "zip":
            return _check_zip(tree, store, file, sure)
        if not sure:
            with tree.store.stream(file.name) as stream:
                check_records(plain_blocks(stream), changelog=file.kind == "changelog")
    except FileNotFoundError:
        return _Answer(file.name, unchecked="it has gone meanwhile")  # a running query cleans up
    except UnknownCodec:
        return _Answer(file.name, unchecked="its compression is neither lz4 nor zstd")
    except Unchecked as reason:
        return _Answer(file.name, unchecked=str(reason))
    except Malformed as problem:
        return _Answer(file.name, ((file.name, problem),))
    return _Answer(file.name)


def _matches_sidecar(tree: Tree, file: StateFile) -> bool:
    """True: the file is what its checksum file says. Malformed: it is not, or the checksum file is damaged."""
    try:
        sidecar = object_of(text_of(tree.store.read(f"{file.name}.crc", 1 << 16)))
        value, size = number_of(sidecar, "value"), number_of(sidecar, "mainFileSize")
    except Malformed as problem:
        raise Malformed(f"its checksum file cannot be read, {problem.why}") from problem
    if sidecar.get("algorithm") != "CRC32C":
        raise Unchecked(f"its checksum is of an unknown kind, {str(sidecar.get('algorithm'))[:20]}")
    if size != file.size:
        raise Malformed(f"it has {file.size} bytes, and its checksum file gives {size}")
    crc = 0
    for piece in tree.store.chunks(file.name, CHUNK):
        crc = crc32c(crc, piece)
    if crc != value & 0xFFFFFFFF:
        raise Malformed("its CRC32C is not the one in its checksum file")
    return True


def _check_sst(tree: Tree, name: str, size: int, named: bool) -> _Answer:
    """An SST file, each once however many zips name it; what none names is never read."""
    if not named:
        return _Answer(name)
    try:
        with tree.store.stream(name) as stream:
            check_sst(stream, size)
    except FileNotFoundError:
        return _Answer(name, unchecked="it has gone meanwhile")
    except Unchecked as reason:
        return _Answer(name, unchecked=str(reason))
    except Malformed as problem:
        return _Answer(name, ((name, problem),))
    return _Answer(name)


def _check_zip(tree: Tree, store: StoreFiles, file: StateFile, sure: bool) -> _Answer:
    """A zip's own bytes, and whether the SST files that it names are there in their sizes."""
    with tree.store.stream(file.name) as stream:
        snapshot = parse_snapshot(stream)
        if not sure:
            _read_zip_members(stream)
    problems = dict(_check_named_files(store, file.name, snapshot))
    tables = [f"{store.folder}/{name}" for name in snapshot.files if name.endswith(".sst")]
    return _Answer(file.name, tuple(problems.items()), names=tuple(t for t in tables if t not in problems))


def _check_named_files(
    store: StoreFiles, zipped: str, snapshot: RocksDbSnapshot
) -> Iterator[tuple[str, Malformed]]:
    for name, size in snapshot.files.items():
        whole = f"{store.folder}/{name}"
        here = store.shared.get(whole)
        if here is None:
            yield whole, Malformed(f"it is missing, and {zipped} names it")
        elif size and here != size:
            yield whole, Malformed(f"it has {here} bytes, and {zipped} says {size}")


def _read_zip_members(stream: object) -> None:
    """Every member of a zip read against its CRC32."""
    try:
        with zipfile.ZipFile(stream) as bundle:  # type: ignore[call-overload]
            if sum(item.file_size for item in bundle.infolist()) > MAX_UNPACKED:
                raise Unchecked("it holds more than is unpacked here")
            if (bad := bundle.testzip()) is not None:
                raise Malformed(f"{bad[:100]} in it does not have its checksum")
    except BAD_ZIP as error:
        if store_failed(error):
            raise
        raise Malformed(NO_ZIP) from error
