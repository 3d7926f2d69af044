"""Marks by which a later look tells whether anything has moved."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from recovery import variables
from recovery.checkpoints.access import carry_access
from recovery.checkpoints.state.names import is_state_data
from recovery.checkpoints.storage import MAX_FILES, READERS, DirectoryEntry, Store, reaching
from recovery.contracts.codec import seal
from recovery.errors import Unreachable
from recovery.eventlogs.values import is_row_setting
from recovery.pipelines.itself import ATTEMPTS
from recovery.plans.drift import SETTINGS

MAX_DEPTH = 32  # directories one in the other; a table has one for each partition column

Files = dict[
    str, tuple[int, int | None]
]  # relative name -> bytes, mtime in ms (None: the store does not tell)


def of_code(files: Mapping[str, str]) -> dict[str, str]:
    """sha256 of each source file's UTF-8 bytes, by path."""
    return {path: hashlib.sha256(text.encode()).hexdigest() for path, text in sorted(files.items())}


def digest_of_code(files: Mapping[str, str]) -> str:
    """One sha256 over all source files: their paths and texts."""
    return hashlib.sha256(repr(sorted(of_code(files).items())).encode()).hexdigest()


def of_settings(spec: Mapping[str, Any]) -> dict[str, str]:
    """sha256 of each part of a pipeline's settings that its code depends on, by part. What is empty is as what is not
    said. Retries stand in the configuration, and a recovery pauses them: they are left out. A configuration may hold
    secrets: only the hash is kept."""
    configuration = dict(spec.get("configuration") or {})
    configuration.pop(ATTEMPTS, None)
    row_settings = {name: configuration.pop(name) for name in sorted(configuration) if is_row_setting(name)}
    told = {
        **spec,
        "schema": spec.get("schema") or spec.get("target"),
        "configuration": configuration,
        "session": row_settings,
        "variables": variables.of_settings(spec),
    }
    return {part: seal({part: told.get(part) or None}) for part in SETTINGS}


def of_checkpoint(location: str) -> str:
    """As `of_tree`, for a flow's directory of checkpoint versions, without the files that hold state.

    Spark's maintenance writes and removes those after the query has ended; a batch that ran shows in the logs.
    """
    return of_tree(location, leave_out=lambda name: is_state_data(name.partition("/")[2]))


def of_tree(location: str, *, leave_out: Callable[[str], bool] = lambda name: False) -> str:
    """sha256 over relative name, size and mtime of every file below; "absent" when there is no such place.

    `leave_out` says of a relative name that it does not count. Hadoop's `.crc` sidecars do: a rewrite of equal bytes
    is a change. Raises Unreachable when the storage does not answer, or where there is more than is looked at:
    nothing could be said of the rest.
    """
    files = files_below(location)
    if files is None:
        return "absent"
    digest = hashlib.sha256()
    for name in sorted(n for n in files if not leave_out(n)):
        size, stamp = files[name]
        line = f"{name}\0{size}\0{'' if stamp is None else stamp}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def files_below(location: str) -> Files | None:
    """Every file below a place; None when there is no such place. Raises Unreachable as `of_tree` does."""
    with reaching(location):
        store = Store.open(location)
        try:
            top = store.entries()
        except FileNotFoundError:
            return None
        return _below(store, top)


def _below(store: Store, top: Iterable[DirectoryEntry]) -> Files:
    """Every file, one level of directories after the other; a link back to a directory is not followed."""
    files: Files = {}
    seen = {store.identity("")}
    folders = _take("", top, files)
    with ThreadPoolExecutor(1 if store.local else READERS) as pool:
        for _ in range(MAX_DEPTH):
            folders = [f for f in folders if _fresh(store, f, seen)]
            if not folders:
                return files
            found = zip(folders, pool.map(carry_access(lambda f: _entries(store, f)), folders), strict=True)
            folders = [inner for folder, entries in found for inner in _take(f"{folder}/", entries, files)]
            if len(files) + len(folders) > MAX_FILES:
                raise Unreachable(f"{store.location} has more than {MAX_FILES} files. Check the path.")
    if folders:
        raise Unreachable(
            f"{store.location} is nested more than {MAX_DEPTH} directories deep. Check the path."
        )
    return files


def _fresh(store: Store, folder: str, seen: set[tuple[int, int] | None]) -> bool:
    place = store.identity(folder)
    if place is not None and place in seen:
        return False
    seen.add(place)
    return True


def _entries(store: Store, folder: str) -> list[DirectoryEntry]:
    """What a directory holds; nothing where it is gone since it was listed."""
    try:
        return store.entries(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _take(start: str, entries: Iterable[DirectoryEntry], files: Files) -> list[str]:
    """Puts the files of one directory among `files`; gives its directories' names."""
    folders = []
    for entry in entries:
        if entry.name in (".", ".."):
            continue  # a store that lists these would lead out of the directory
        if entry.is_dir:
            folders.append(start + entry.name)
        else:
            files[start + entry.name] = (entry.size, entry.mtime_ms)
    return folders
