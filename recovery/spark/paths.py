"""Which input files belong to which file source: the rules of Spark's own listing, over plain strings.

A stream's path may be written in several ways (`/in`, `file:/in`, `file:///in`, a glob); the files
that a checkpoint names are full URIs. Both are brought to one form before they are compared.
"""

import re
from functools import lru_cache

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(.*)$", re.DOTALL)
_GLOB = re.compile(r"[{}\[\]*?\\]")  # SparkHadoopUtil.isGlobPath


def plain(uri: str) -> str:
    """One spelling of a decoded path or URI: local files without scheme, others as `scheme://…`."""
    match = _SCHEME.match(uri)
    if not match:
        return _squeeze(uri)
    scheme, rest = match.group(1).lower(), match.group(2)
    if scheme == "file":
        return _squeeze("/" + rest.lstrip("/"))
    authority, slash, path = rest.lstrip("/").partition("/")
    return f"{scheme}://{authority}{slash}{_squeeze(path)}"


def literal(uri: str) -> str:
    """The path as a batch reader takes it for this one file, whatever its name holds.

    A reader treats every path as a Hadoop glob; `__globPaths__=false` does not change that here.
    """
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", plain(uri))


def is_glob(path: str) -> bool:
    """Does Hadoop read this path as a pattern?"""
    return bool(_GLOB.search(path))


def lies_under(uri: str, path: str, *, recursive: bool = False) -> bool:
    """Would a file stream over `path` list the file `uri`? Both decoded.

    Spark (`PartitioningAwareFileIndex.allFiles`) reads the direct children of a root, and deeper
    files only where every directory between is a partition (`column=value`) or the option
    `recursiveFileLookup` is set.
    """
    rest = _below(plain(uri), plain(path).rstrip("/") or "/")
    if rest is None:
        return False
    folders = rest[:-1]
    return recursive or all("=" in folder for folder in folders)


def _below(uri: str, root: str) -> list[str] | None:
    """Path components of `uri` below `root` ([] where it is the root itself), None if elsewhere."""
    if not is_glob(root):
        if uri == root:
            return []
        prefix = root if root.endswith("/") else root + "/"
        return uri[len(prefix) :].split("/") if uri.startswith(prefix) else None
    parts, wanted = uri.split("/"), _split_glob(root)
    if len(parts) < len(wanted):
        return None
    if not all(_pattern(w).fullmatch(p) for w, p in zip(wanted, parts, strict=False)):
        return None
    return parts[len(wanted) :]


def _split_glob(glob: str) -> list[str]:
    """Cut at slashes, but not at those inside braces."""
    parts, depth, current = [], 0, ""
    for char in glob:
        depth += (char == "{") - (char == "}")
        if char == "/" and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    return [*parts, current]


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    """Hadoop's GlobPattern for one path component: `*`, `?`, `[a-c]`, `[^a]`, `{a,b}`, backslash."""
    out, depth, i = "", 0, 0
    while i < len(glob):
        char = glob[i]
        if char == "\\" and i + 1 < len(glob):
            i += 1
            out += re.escape(glob[i])
        elif char == "[" and "]" in glob[i + 2 :]:
            end = glob.index("]", i + 2)
            body = glob[i + 1 : end].replace("\\", "\\\\")
            out += "[" + ("^" + body[1:] if body[0] in "!^" else body) + "]"
            i = end
        else:
            depth += (char == "{") - (char == "}" and depth > 0)
            out += _translated(char, inside_braces=depth > 0)
        i += 1
    return re.compile(out)


def _translated(char: str, *, inside_braces: bool) -> str:
    if char == ",":
        return "|" if inside_braces else ","
    return {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")"}.get(char, re.escape(char))


def _squeeze(path: str) -> str:
    return re.sub(r"/{2,}", "/", path)
