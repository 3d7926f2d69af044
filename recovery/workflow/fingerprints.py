"""Marks by which a later look tells whether anything has moved."""

import hashlib
from collections.abc import Mapping

import fsspec


def of_code(files: Mapping[str, str]) -> dict[str, str]:
    """sha256 of each source file's UTF-8 bytes, by path."""
    return {path: hashlib.sha256(text.encode()).hexdigest() for path, text in sorted(files.items())}


def of_tree(location: str) -> str:
    """sha256 over relative name, size and mtime of every file below; "absent" when there is none.

    Hadoop's `.crc` sidecars count too: a rewrite of equal bytes is a change.
    """
    fs, root = fsspec.core.url_to_fs(location)
    fs.invalidate_cache()
    if not fs.exists(root):
        return "absent"
    entries = fs.find(root, detail=True)
    digest = hashlib.sha256()
    for path in sorted(entries):
        info = entries[path]
        stamp = info.get("mtime") or info.get("LastModified") or ""
        digest.update(f"{path[len(root) :]}\0{info.get('size')}\0{stamp}\n".encode())
    return digest.hexdigest()
