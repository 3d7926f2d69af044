"""Lists input files exactly as Spark's file source does, in the order in which it lists them.

Source: FileStreamSource.fetchAllFiles, InMemoryFileIndex, PartitioningAwareFileIndex.allFiles, HadoopFSUtils
(which names are hidden), GlobPattern. Where the input is itself the table of a file sink, its log decides.
"""

import re
from collections.abc import Iterator, Sequence

from recovery.checkpoints import sinklog
from recovery.checkpoints.storage import DirectoryEntry, Store, reaching
from recovery.checkpoints.uris import canonical_uri, decode_uri
from recovery.contracts.readers import ReaderOptions
from recovery.errors import InputMissing, Unreachable
from recovery.linear import Linear
from recovery.sources.base import InputFile

MAX_DEPTH = 32  # ends symlink loops
GLOB = re.compile(r"[{}\[\]*?\\]")
PARTITION = re.compile(r"[^=/]+=[^/]*")


def list_files(location: str, *, options: ReaderOptions) -> tuple[InputFile, ...]:
    """Files under a directory, a file or a Hadoop glob, in listing order.

    Options (any case): `recursiveFileLookup`, `pathGlobFilter`. Raises Unreachable when the storage fails or
    a path without wildcards does not exist, which Spark refuses too.
    """
    lower = {k.lower(): str(v) for k, v in options.items()}
    recursive = lower.get("recursivefilelookup", "").lower() == "true"
    only = glob_pattern(lower["pathglobfilter"]) if lower.get("pathglobfilter") else None
    with reaching(location):
        glob = GLOB.search(location) is not None
        files = [
            f
            for root in _iterate_roots(location)
            for f in _list_files_below(root, recursive, by_log=not glob)
        ]
    if strange := next((f.path for f in files if not _is_text(f.path)), None):
        shown = strange.encode(errors="backslashreplace").decode()
        raise Unreachable(
            f"The name of {shown} is not UTF-8. Rename the file or take it away, then look again.",
            code="name_not_utf8",
        )
    if only is None:
        return tuple(files)
    fits = only.matches([f.path.rsplit("/", 1)[-1] for f in files])
    return tuple(file for file, yes in zip(files, fits, strict=True) if yes)


def by_log(location: str) -> bool:
    """Whether a file sink's log says there which files there are, with the sizes and times that they had then."""
    if GLOB.search(location):
        return False
    with reaching(location):
        root = Store.open(location)
        return root.is_dir() and sinklog.read_sink_log(root).present


def _is_text(name: str) -> bool:
    """Whether it can be written down: bytes of a file's name that are no UTF-8 come as lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_hidden_name(name: str) -> bool:
    """Names that Spark never lists (HadoopFSUtils.shouldFilterOutPathName)."""
    if name.startswith(("_common_metadata", "_metadata")):
        return False
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def glob_pattern(glob: str) -> Linear:
    """A Hadoop glob for one name: `*`, `?`, `[a-z]`, `[^a]`, `{a,b}`, `\\` before a plain character.

    Raises Unreachable.
    """
    out, depth, index = [], 0, 0
    while index < len(glob):
        char = glob[index]
        if char == "\\" and index + 1 < len(glob):
            index += 1
            out.append(re.escape(glob[index]))
        elif char == "[" and "]" in glob[index + 2 :]:
            end = glob.index("]", index + 2)
            inner = glob[index + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[^{inner[1:]}]" if inner[0] in "!^" else f"[{inner}]")
            index = end
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "{" and "}" in glob[index:]:
            depth += 1
            out.append("(?:")
        else:
            plain = {"*": "[^/]*", "?": "[^/]"}.get(char, "|" if char == "," and depth else re.escape(char))
            out.append(plain)
        index += 1
    try:
        return Linear("".join(out))
    except ValueError:
        raise Unreachable(
            f"The pattern {glob} cannot be read. Correct it in the code; Spark would refuse it too.",
            code="bad_pattern",
        ) from None


def _iterate_roots(location: str) -> Iterator[Store]:
    """The directories and files that a location means. Wildcards are resolved part by part, sorted as Hadoop does."""
    if not GLOB.search(location):
        root = Store.open(location)
        if not root.exists():
            raise InputMissing(f"{location} does not exist. Check the path; Spark would refuse it too.")
        yield root
        return
    parts = location.split("/")
    first = next(i for i, part in enumerate(parts) if GLOB.search(part))
    stores = [Store.open("/".join(parts[:first]) or "/")]
    for depth, part in enumerate(parts[first:], first):
        stores = list(_resolve_path_part(stores, part, last=depth == len(parts) - 1))
    yield from stores


def _resolve_path_part(above: Sequence[Store], part: str, *, last: bool) -> Iterator[Store]:
    wanted = glob_pattern(part)
    for store in above:
        if not GLOB.search(part):
            if store.exists(part):
                yield store.child(part)
            continue
        entries = store.entries() if store.is_dir() else []
        entries = sorted((e for e in entries if last or e.is_dir), key=lambda e: e.name)
        for entry, fits in zip(entries, wanted.matches([e.name for e in entries]), strict=True):
            if fits:
                yield store.child(entry.name)


def _list_files_below(root: Store, recursive: bool, *, by_log: bool) -> list[InputFile]:
    """`by_log`: where a file sink's log is there, it decides; not below a wildcard (FileStreamSource.hasMetadata)."""
    if not root.is_dir():
        info = root.fs.info(root.root)
        above, _, name = root.root.rpartition("/")
        if is_hidden_name(name):
            return []  # a wildcard may match a hidden file; Spark drops it all the same
        entry = next(e for e in Store(root.fs, above or "/", above).entries() if e.name == name)
        return [_input_file(root, "", DirectoryEntry(name, int(info["size"]), False, entry.mtime_ms))]
    if by_log and (log := sinklog.read_sink_log(root)).present:
        return [InputFile(decode_uri(f.path), f.size, f.mtime_ms) for f in log.files if f.action == "add"]
    leaves = list(_iterate_leaf_files(root, "", 0))
    partitioned = any(any(PARTITION.fullmatch(p) for p in above.split("/")) for above, _ in leaves)
    if not (recursive or partitioned):
        leaves = [(above, entry) for above, entry in leaves if not above]
    return [
        _input_file(root, f"{above}/{entry.name}" if above else entry.name, entry) for above, entry in leaves
    ]


def _iterate_leaf_files(root: Store, above: str, depth: int) -> Iterator[tuple[str, DirectoryEntry]]:
    """(directory, file) pairs: a directory's own files first, then what is deeper (HadoopFSUtils.listLeafFiles)."""
    try:
        entries = [e for e in root.entries(above) if not is_hidden_name(e.name)]
    except FileNotFoundError:
        return  # gone since it was listed
    yield from ((above, e) for e in entries if not e.is_dir)
    for entry in entries:
        if entry.is_dir and depth < MAX_DEPTH:
            yield from _iterate_leaf_files(root, f"{above}/{entry.name}" if above else entry.name, depth + 1)


def _input_file(root: Store, name: str, entry: DirectoryEntry) -> InputFile:
    where = root.path(name)
    uri = canonical_uri(where) if root.local else canonical_uri(root.fs.unstrip_protocol(where))
    return InputFile(uri, entry.size, entry.mtime_ms or 0)
