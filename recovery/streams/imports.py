"""Which files a Python program consists of: the modules that it imports, and the settings that its code names. Pure."""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

MOST_PARENTS: Final = 3
"""So many folders above a module are looked into for what it imports: its package's root, and what puts that there."""
SETTINGS: Final = (".json", ".yaml", ".yml", ".ini", ".cfg", ".conf", ".toml", ".properties", ".sql", ".avsc")
FOLDERS: Final = frozenset(
    {
        "conf", "config", "configs", "configuration", "env", "environments", "etc", "properties", "queries",
        "resources", "schema", "schemas", "settings", "sql",
    }
)  # fmt: skip
"""What folders of settings are called. Of another folder that the code names, its files may be the stream's input."""
_SECRET: Final = re.compile(
    r"secret|pass(?:word|wd|phrase)|pwd|credential|token|private|keytab|keystore|(?<![a-z])keys?(?![a-z])"
    r"|(?:api|access)keys?|service.?account",
    re.IGNORECASE,
)


LARGEST_MODULE: Final = 200_000
"""In longer modules no imports are looked for, in bytes: a syntax tree takes up to a thousand times as much memory."""


@dataclass(frozen=True)
class Names:
    """What the text of a module names. `modules`: paths that an import may mean, each without its end (`a/b`), from
    some folder of the search path on; `relative`: the same, from the module's own folder on, `..` included;
    `texts`: parts of the paths that its strings may be; `climbs`: whether it makes paths from its own place."""

    modules: tuple[str, ...] = ()
    relative: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset()
    climbs: bool = False


def read_names(content: bytes) -> Names:
    """Of no module where the text is no Python, or is longer or deeper than people write it."""
    if len(content) > LARGEST_MODULE:
        return Names()
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ):  # the last: nested beyond what its stack holds
        return Names()
    modules: list[str] = []
    relative: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                modules += _chain(alias.name)
        elif isinstance(node, ast.ImportFrom):
            up = "../" * (node.level - 1)
            own = [
                node.module or "",
                *(f"{node.module}.{a.name}" if node.module else a.name for a in node.names),
            ]
            names = [name for whole in own for name in _chain(whole)]
            (relative if node.level else modules).extend(f"{up}{name}" for name in names)
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return Names(
        tuple(dict.fromkeys(m for m in modules if m.split("/")[0] not in sys.stdlib_module_names)),
        tuple(dict.fromkeys(relative)),
        frozenset(part for text in texts for part in parts_of(text)),
        any(isinstance(node, ast.Name) and node.id == "__file__" for node in nodes),
    )


def _chain(name: str) -> Iterator[str]:
    """`a.b` means the modules a and a/b."""
    parts = [part for part in name.split(".") if part and part != "*"]
    return ("/".join(parts[:n]) for n in range(1, len(parts) + 1))


def parts_of(text: str) -> Iterator[str]:
    """The parts of a text that may be a path."""
    return (part for part in text.split("/") if part not in ("", ".", "..")) if len(text) < 1000 else iter(())


def is_named(path: str, texts: Sequence[str] | frozenset[str]) -> bool:
    """Is this a file of settings that the code names, by itself or by its folder? What may hold secrets is none, nor is
    a hidden file, as a recovery keeps them beside a checkpoint."""
    folder, _, name = path.rpartition("/")
    if not name.endswith(SETTINGS) or name.startswith(".") or _SECRET.search(name):
        return False
    within = folder.rpartition("/")[2]
    return name in texts or (within in texts and within.lower() in FOLDERS)


def folders_above(folder: str) -> list[str]:
    """A module's folder and those above it, never the root of all, nor what is above a bucket."""
    found = [folder]
    while len(found) <= MOST_PARENTS and (above := found[-1].rpartition("/")[0]).count("/") > 0:
        if above.endswith(":/"):
            break
        found.append(above)
    return found


def common_folder(paths: Sequence[str]) -> str:
    """The deepest folder that holds all of them."""
    parts = [path.split("/")[:-1] for path in paths]
    held = []
    for at in zip(*parts, strict=False):
        if len(set(at)) > 1:
            break
        held.append(at[0])
    return "/".join(held)
