"""The files of a program: it, the modules that it imports, its settings. Read only through the storage guard."""

import contextlib
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from recovery.checkpoints.access import scheme_of
from recovery.checkpoints.storage import Store, TooLarge, reaching
from recovery.errors import NotFound, Refused, RepriseError
from recovery.notebook_cells import list_run_targets
from recovery.streams import imports

LARGEST: Final = 4 << 20
MOST_FILES: Final = 200
MOST_NAMES: Final = 2_000
"""So many names of a folder are looked at."""
MOST_FOLDERS: Final = 50
ABOVE: Final = 3
"""Settings that a program finds by its own place are looked for in so many folders: its own, then those above it."""
PACKAGE: Final = "__init__.py"


def program_files(program: str, arguments: Sequence[str] = ()) -> dict[str, bytes]:
    """Path -> bytes, the program first: it, what it imports from its folder or those above it, the notebooks in its
    folder that it runs, and the settings beside these that the code or its `arguments` name. Raises NotFound, Refused,
    Unreachable."""
    folder, _, name = program.rpartition("/")
    _refuse_link_to_other(program)
    with reaching(program):
        shelf, tops = _Shelf(), imports.folders_above(folder)
        found = {program: _read(shelf.store(folder), name)}
        waiting, texts, climbs = [program], {argument.rpartition("/")[2] for argument in arguments}, False
        while waiting:
            path = waiting.pop()
            names = imports.read_names(found[path])
            texts, climbs = texts | names.texts, climbs or names.climbs
            for module in [
                *shelf.modules(path.rpartition("/")[0], names),
                *shelf.run_notebooks(path, found[path], folder),
            ]:
                if module not in found and len(found) < MOST_FILES and not _leads_away(module, tops):
                    found[module] = shelf.read(module)
                    waiting.append(module)
        root = imports.common_folder(list(found))
        for path in shelf.settings(root, texts):
            if path not in found and len(found) < MOST_FILES and not _leads_away(path, tops):
                found[path] = shelf.read(path)
        above = [top for top in tops[:ABOVE] if not _is_below(top, root)] if climbs else []
        for path in shelf.settings_above(above, texts):
            if path not in found and len(found) < MOST_FILES and not _leads_away(path, tops):
                with contextlib.suppress(RepriseError, OSError):  # another program's, perhaps
                    found[path] = shelf.read(path)
    return found


class _Shelf:
    """The folders in which files of one program are looked for; each is listed once."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    def store(self, folder: str) -> Store:
        return Store.open(folder or "/")

    def read(self, path: str) -> bytes:
        folder, _, name = path.rpartition("/")
        return _read(self.store(folder), name)

    def _names(self, folder: str) -> tuple[frozenset[str], frozenset[str]]:
        """(files, folders) in a folder; none where it cannot be listed."""
        if folder not in self._held:
            try:
                entries = self.store(folder).entries("", MOST_NAMES)
            except (OSError, RepriseError):
                entries = []
            files = frozenset(e.name for e in entries if not e.is_dir)
            self._held[folder] = files, frozenset(e.name for e in entries if e.is_dir)
        return self._held[folder]

    def modules(self, folder: str, names: imports.Names) -> Iterator[str]:
        """The files that the imports of a module in this folder may mean."""
        for module in names.relative:
            yield from self._module(_plain(f"{folder}/{module}"))
            yield from self._module(_plain(f"{folder}/{module.rpartition('/')[0]}"))
        found: dict[str, str] = {}
        for module in names.modules:  # a package before what is in it: that is where its modules are
            top = module.split("/")[0]
            for above in [found[top]] if top in found else imports.folders_above(folder):
                files = list(self._module(f"{above}/{module}"))
                if files or module in self._names(above)[1]:
                    found.setdefault(top, above)
                    yield from files
                    break
            else:  # a folder that the code names, and puts on its search path
                beside = self._beside(folder, names) if names.climbs else ()
                yield from next(filter(None, (list(self._module(f"{f}/{module}")) for f in beside)), [])

    def run_notebooks(self, path: str, content: bytes, root: str) -> Iterator[str]:
        """The notebooks in the program's folder that the `%run` cells of a notebook name."""
        for candidates in list_run_targets(path, content, root):
            candidate = candidates[0]  # the one with .py: any other file may be a key or a login
            within, _, name = candidate.rpartition("/")
            if name in self._names(within)[0] and not _leads_away(candidate, [root]):
                yield candidate

    def _beside(self, folder: str, names: imports.Names) -> Iterator[str]:
        """Folders in a module's own and those above it that its strings name."""
        for above in imports.folders_above(folder):
            yield from (f"{above}/{name}" for name in sorted(self._names(above)[1]) if name in names.texts)

    def _module(self, path: str) -> Iterator[str]:
        folder, _, name = path.rpartition("/")
        files, folders = self._names(folder)
        if f"{name}.py" in files:
            yield f"{path}.py"
        elif name in folders and PACKAGE in self._names(path)[0]:
            yield f"{path}/{PACKAGE}"

    def settings(self, root: str, texts: Collection[str]) -> Iterator[str]:
        """Files of settings in the program's folder and the folders in it."""
        below = [name for name in sorted(self._names(root)[1]) if not name.startswith((".", "_"))]
        return self._settings_in([root, *(f"{root}/{name}" for name in below[:MOST_FOLDERS])], texts)

    def settings_above(self, above: Sequence[str], texts: Collection[str]) -> Iterator[str]:
        """Those in folders above it, and in folders of these that the code names: others are other programs'."""
        within = [f"{top}/{name}" for top in above for name in sorted(self._names(top)[1]) if name in texts]
        return self._settings_in([*above, *within[:MOST_FOLDERS]], texts)

    def _settings_in(self, folders: Sequence[str], texts: Collection[str]) -> Iterator[str]:
        for folder in folders:
            for name in sorted(self._names(folder)[0]):
                if imports.is_named(f"{folder}/{name}", frozenset(texts)):
                    yield f"{folder}/{name}"


def _leads_away(path: str, tops: Sequence[str]) -> bool:
    """Is it a link to another folder, or does one of its folders lead out of `tops`, the program's own and those above
    it? Who can write beside a program could have any file read as part of it."""
    if scheme_of(path):
        return False
    folder, _, name = path.rpartition("/")
    real = os.path.realpath(folder)
    return os.path.realpath(path) != str(Path(real) / name) or not any(
        _is_below(real, os.path.realpath(top)) for top in tops
    )


def _is_below(place: str, folder: str) -> bool:
    return f"{place}/".startswith(f"{folder.rstrip('/')}/")


def _plain(path: str) -> str:
    """Without `..`."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def read_file(path: str) -> bytes:
    """Raises NotFound, Refused, Unreachable."""
    folder, _, name = path.rpartition("/")
    _refuse_link_to_other(path)
    with reaching(path):
        return _read(Store.open(folder or "/"), name)


def _refuse_link_to_other(path: str) -> None:
    """Whoever can write beside a program could put a link in its place, and have any file read as code. Raises
    Refused."""
    if path.endswith(".py") and not scheme_of(path) and not os.path.realpath(path).endswith(".py"):
        raise Refused(f"{path} links to a file that is not Python, so it is not read.", code="no_python_file")


def write_file(path: str, content: bytes) -> None:
    """Put a file in the place of the one that is there, whole. Raises Unreachable, Refused."""
    folder, _, name = path.rpartition("/")
    with reaching(path):
        store = Store.open(folder or "/")
        aside = f".{name}.reprise"
        store.remove(aside)
        store.write(aside, content)
        if store.local:  # the secrets in it, and who may start it, stay as they are
            with contextlib.suppress(FileNotFoundError):
                Path(store.path(aside)).chmod(stat.S_IMODE(Path(store.path(name)).stat().st_mode))
        store.replace(aside, name)
        store.sync()


def _read(store: Store, name: str) -> bytes:
    try:
        return store.read(name, LARGEST)
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {store.location}/{name}.") from error
    except IsADirectoryError as error:
        raise Refused(
            f"{store.location}/{name} is a folder: name the program's file.", code="no_file"
        ) from error
    except TooLarge as error:
        raise Refused(
            f"{store.location}/{name} has more than {LARGEST // 1024**2} MB, so it is not read."
        ) from error
