"""`deep`: state files opened and checked, in parallel, each in bounded memory.

A file with a checksum file of Spark's (`<file>.crc`, JSON: CRC32C and size) is compared with that, as Spark does
when it reads (ChecksumCheckpointFileManager). Others are read as Spark reads them: deltas, snapshots and changelogs
block by block and record by record, zips by their members' checksums. Of SST files size and footer are checked; their
blocks are RocksDB's to check.
"""

import struct
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from recovery.checkpoints.formats import Malformed, number, object_of, text_of
from recovery.checkpoints.state.blocks import UnknownCodec, plain
from recovery.checkpoints.state.checksums import crc32c
from recovery.checkpoints.state.names import StateFile, StoreFiles
from recovery.checkpoints.state.records import check_records
from recovery.checkpoints.state.rocksdb import BAD_ZIP, NO_ZIP, parse_snapshot, store_failed
from recovery.checkpoints.tree import Tree

Progress = Callable[[int, int], None]  # files checked, files in all; called from the caller's own thread

THREADS = 8
AHEAD = 4 * THREADS  # files under way or waiting: what bounds memory, whatever the number of files
CHUNK = 1 << 20
MAX_UNPACKED = 1 << 32  # RocksDB's small files in a zip: megabytes at most
SST_MAGIC = struct.pack("<Q", 0x88E241B785F4CFF7)  # kBlockBasedTableMagicNumber, the last eight bytes


class Unchecked(Exception):
    """This file is not of a kind that is checked here."""


@dataclass
class Verified:
    """`problems`: by file. `useless`: files that cannot be loaded, with the zips whose SST files cannot.

    `unchecked`: by file, why it was not checked.
    """

    problems: dict[str, Malformed] = field(default_factory=dict)
    useless: set[str] = field(default_factory=set)
    unchecked: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Answer:
    file: str
    problems: tuple[tuple[str, Malformed], ...] = ()  # of the file, or of SST files that it names
    unchecked: str | None = None


def verify(tree: Tree, stores: Iterable[StoreFiles], progress: Progress | None = None) -> Verified:
    """Check every versioned file of these stores and what the zips name. Raises OSError when the store fails."""
    work = [(store, file) for store in stores for file in store.versioned]
    found = Verified()
    for done, answer in enumerate(_in_parallel(tree, work), start=1):
        for file, problem in answer.problems:
            found.problems[file] = problem
            found.useless |= {file, answer.file}
        if answer.unchecked:
            found.unchecked[answer.file] = answer.unchecked
        if progress:
            progress(done, len(work))
    return found


def _in_parallel(tree: Tree, work: list[tuple[StoreFiles, StateFile]]) -> Iterator[_Answer]:
    waiting: deque[Future[_Answer]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            for store, file in work:
                waiting.append(pool.submit(_check, tree, store, file))
                if len(waiting) >= AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _check(tree: Tree, store: StoreFiles, file: StateFile) -> _Answer:
    try:
        sure = f"{file.name}.crc" in store.sidecars and _sidecar(tree, file)
        if file.kind == "zip":
            return _Answer(file.name, tuple(_zip(tree, store, file, sure)))
        if not sure:
            with tree.store.stream(file.name) as stream:
                check_records(plain(stream), changelog=file.kind == "changelog")
    except FileNotFoundError:
        return _Answer(file.name, unchecked="it has gone meanwhile")  # a running query cleans up
    except UnknownCodec:
        return _Answer(file.name, unchecked="its compression is neither lz4 nor zstd")
    except Unchecked as reason:
        return _Answer(file.name, unchecked=str(reason))
    except Malformed as problem:
        return _Answer(file.name, ((file.name, problem),))
    return _Answer(file.name)


def _sidecar(tree: Tree, file: StateFile) -> bool:
    """True: the file is what its checksum file says. Malformed: it is not, or the checksum file is damaged."""
    try:
        told = object_of(text_of(tree.store.read(f"{file.name}.crc", 1 << 16)))
        value, size = number(told, "value"), number(told, "mainFileSize")
    except Malformed as problem:
        raise Malformed(f"its checksum file cannot be read, {problem.why}") from problem
    if told.get("algorithm") != "CRC32C":
        raise Unchecked(f"its checksum is of an unknown kind, {str(told.get('algorithm'))[:20]}")
    if size != file.size:
        raise Malformed(f"it has {file.size} bytes, and its checksum file says {size}")
    crc = 0
    for piece in tree.store.chunks(file.name, CHUNK):
        crc = crc32c(crc, piece)
    if crc != value & 0xFFFFFFFF:
        raise Malformed("its CRC32C is not the one in its checksum file")
    return True


def _zip(tree: Tree, store: StoreFiles, file: StateFile, sure: bool) -> Iterator[tuple[str, Malformed]]:
    """What is wrong with a zip's own bytes, else with the SST files that it names."""
    with tree.store.stream(file.name) as stream:
        snapshot = parse_snapshot(stream)
        if not sure:
            _members(stream)
    for name, size in snapshot.files.items():
        whole = f"{store.folder}/{name}"
        here = store.shared.get(whole)
        if here is None:
            yield whole, Malformed(f"it is missing, and {file.name} names it")
        elif size and here != size:
            yield whole, Malformed(f"it has {here} bytes, and {file.name} says {size}")
        elif name.endswith(".sst") and not _has_footer(tree, whole, here):
            yield whole, Malformed("it does not end as an SST file ends")


def _members(stream: object) -> None:
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


def _has_footer(tree: Tree, name: str, size: int) -> bool:
    if size < len(SST_MAGIC):
        return False
    with tree.store.stream(name) as stream:
        stream.seek(size - len(SST_MAGIC))
        return bool(stream.read(len(SST_MAGIC)) == SST_MAGIC)
