"""Places that Spark wrote, as archives: damages are made on them where no Spark runs.

Spark writes absolute paths into logs of files and into the metadata of state. An archive holds the path `ROOT` in
their place; a place that is laid out again has its own, and Hadoop's checksum files fit the files that changed so.
Input files and the table's data files keep their times, since Spark's logs name them; all others have one time.
"""

import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePosixPath

FIXTURES = Path(__file__).parents[1] / "fixtures" / "damages"
RECIPES = FIXTURES / "recipes.json"
ROOT = "/frozen"
WRITTEN_AT_MS = 1_700_000_000_000
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CHUNK = 512  # bytes for each of Hadoop's checksums


@dataclass(frozen=True)
class FrozenEntry:
    """A file, or a directory where `data` is None; `name` begins below the place's root."""

    name: str
    data: bytes | None
    mtime_ms: int = WRITTEN_AT_MS


Entries = tuple[FrozenEntry, ...]


@dataclass(frozen=True)
class FrozenRecipe:
    """What an archive was made by: the digest of the code and settings, and the version of Spark."""

    recipe: str
    spark: str


def is_sidecar(name: str) -> bool:
    """Whether this is the name of one of Hadoop's checksum files."""
    last = PurePosixPath(name).name
    return last.startswith(".") and last.endswith(".crc")


def main_of(name: str) -> str:
    """The file that a checksum file is of."""
    return str(PurePosixPath(name).with_name(PurePosixPath(name).name[1:-4]))


def checksum(data: bytes) -> bytes:
    """What Hadoop writes beside a file of a local file system."""
    parts = [data[n : n + CHUNK] for n in range(0, len(data), CHUNK)]
    return b"crc\0" + CHUNK.to_bytes(4, "big") + b"".join(zlib.crc32(p).to_bytes(4, "big") for p in parts)


def take(root: Path) -> Entries:
    """Everything below `root`, as if `root` were `ROOT`."""
    kept = [_read(path, root) for path in sorted(root.rglob("*"))]
    return _moved(kept, str(root), ROOT)


def lay_out(entries: Entries, root: Path) -> None:
    """Write the entries below `root`, with the paths and times that Spark's logs name."""
    root.mkdir(parents=True)
    for entry in _moved(entries, ROOT, str(root)):
        path = root / entry.name
        if entry.data is None:
            path.mkdir()
            continue
        path.write_bytes(entry.data)
        os.utime(path, ns=(entry.mtime_ms * 1_000_000, entry.mtime_ms * 1_000_000))


def _read(path: Path, root: Path) -> FrozenEntry:
    assert not path.is_symlink(), f"{path}: Spark makes no links"
    name = path.relative_to(root).as_posix()
    if path.is_dir():
        return FrozenEntry(name, None)
    timed = re.fullmatch(r"in\d+/[^/]+|table/[^_.][^/]*", name)
    return FrozenEntry(
        name, path.read_bytes(), path.stat().st_mtime_ns // 1_000_000 if timed else WRITTEN_AT_MS
    )


def _moved(entries: Iterable[FrozenEntry], old: str, new: str) -> Entries:
    """The entries with another root in their text, each checksum file fitting again."""
    before, after = f"{old}/".encode(), f"{new}/".encode()
    files = {e.name: e.data for e in entries if e.data is not None}
    changed = {name: data.replace(before, after) for name, data in files.items() if before in data}
    for name in changed:
        files[name].decode()  # a path inside of bytes with lengths could not be replaced so
        beside = str(PurePosixPath(name).with_name(f".{PurePosixPath(name).name}.crc"))
        if beside in files:
            assert files[beside] == checksum(files[name]), f"{beside} does not fit"
            changed = {**changed, beside: checksum(changed[name])}
    return tuple(FrozenEntry(e.name, changed.get(e.name, e.data), e.mtime_ms) for e in entries)


def shape(entries: Entries) -> list[tuple[str, str]]:
    """What two runs of one recipe have in common: names, and the text of logs, without ids, times and stages."""
    return sorted((_common(entry.name), _common(_text(entry))) for entry in entries)


def _text(entry: FrozenEntry) -> str:
    if entry.data is None:
        return "directory"
    return entry.data.decode() if entry.data.startswith((b"v1\n", b"v2\n", b"{")) else "file"


def _common(text: str) -> str:
    text = re.sub(r"\d{13,}", "<time>", UUID.sub("<uuid>", text))
    # Checksums of state name the stage that wrote them.
    return re.sub(r"Stage= [\d.]+", "Stage= <count>", text)


def archive(name: str) -> Path:
    """Where the place of this base or story is kept."""
    return FIXTURES / f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}.tar.xz"


def pack(entries: Entries) -> bytes:
    """The entries as tar.xz: the same bytes for the same entries, and no owner."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", format=tarfile.PAX_FORMAT, preset=9) as bundle:
        for entry in entries:
            item = tarfile.TarInfo(entry.name)
            item.mtime = entry.mtime_ms / 1000 if entry.mtime_ms % 1000 else entry.mtime_ms // 1000
            item.size, item.mode = len(entry.data or b""), 0o644
            if entry.data is None:
                item.type, item.mode = tarfile.DIRTYPE, 0o755
            bundle.addfile(item, io.BytesIO(entry.data or b""))
    return packed.getvalue()


def unpack(packed: bytes) -> Entries:
    """The entries of such an archive."""
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:xz") as bundle:
        return tuple(
            FrozenEntry(
                item.name,
                None if item.isdir() else bundle.extractfile(item).read(),  # type: ignore[union-attr]
                round(item.mtime * 1000),
            )
            for item in bundle
        )


@cache
def load(name: str) -> Entries:
    """The place of this base or story, as Spark wrote it when it was recorded."""
    return unpack(archive(name).read_bytes())


def recipes() -> dict[str, FrozenRecipe]:
    """Name of a base or story -> what its archive was made by."""
    return {name: FrozenRecipe(**kept) for name, kept in json.loads(RECIPES.read_text()).items()}


def keep(name: str, entries: Entries, recipe: str) -> None:
    """Put an archive in the place of the one before."""
    FIXTURES.mkdir(exist_ok=True)
    known = recipes() if RECIPES.exists() else {}
    known[name] = FrozenRecipe(recipe, version("pyspark"))
    archive(name).write_bytes(pack(entries))
    RECIPES.write_text(json.dumps({n: asdict(known[n]) for n in sorted(known)}, indent=1) + "\n")
    load.cache_clear()
