"""The files of a program: it, and the modules beside it that it imports. Read only through the storage guard."""

import ast
from typing import Final

from recovery.checkpoints.storage import Store, TooLarge, reaching
from recovery.errors import NotFound, Refused

LARGEST: Final = 4 << 20
MOST_FILES: Final = 200
PACKAGE: Final = "__init__.py"


def program_files(program: str) -> dict[str, bytes]:
    """Path -> bytes, the program first. Raises NotFound, Refused, Unreachable."""
    folder, _, name = program.rpartition("/")
    with reaching(program):
        store = Store.open(folder or "/")
        found = {program: _read(store, name)}
        waiting = [program]
        while waiting:
            for module in _imports(found[waiting.pop()]):
                for path in _files_of(store, module):
                    where = f"{folder}/{path}"
                    if where not in found and len(found) < MOST_FILES:
                        found[where] = _read(store, path)
                        waiting.append(where)
    return found


def read_file(path: str) -> bytes:
    """Raises NotFound, Refused, Unreachable."""
    folder, _, name = path.rpartition("/")
    with reaching(path):
        return _read(Store.open(folder or "/"), name)


def write_file(path: str, content: bytes) -> None:
    """Put a file in the place of the one that is there, whole. Raises Unreachable, Refused."""
    folder, _, name = path.rpartition("/")
    with reaching(path):
        store = Store.open(folder or "/")
        aside = f".{name}.reprise"
        store.remove(aside)
        store.write(aside, content)
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


def _imports(content: bytes) -> list[str]:
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError, RecursionError):
        return []
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return sorted({name.split(".")[0] for name in names if name})


def _files_of(store: Store, module: str) -> list[str]:
    """The file of a module that lies beside the program, or those of a package."""
    if store.exists(f"{module}.py"):
        return [f"{module}.py"]
    if not store.exists(f"{module}/{PACKAGE}"):
        return []
    inside = store.entries(module, MOST_FILES)
    return sorted(f"{module}/{e.name}" for e in inside if e.name.endswith(".py") and not e.is_dir)
