"""A file system of fsspec's for tests: slow, inconsistent, lying or failing midway, as far as it is told."""

import time
from collections.abc import Callable
from typing import Any, ClassVar

from fsspec.implementations.memory import MemoryFileSystem


class OddStore(MemoryFileSystem):
    """Files as in a dictionary of its own; `before` is called with (operation, path) before every call.

    `listing` may change what a directory's listing says.
    """

    protocol = "odd"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    cachable = False
    before: ClassVar[Callable[[str, str], None]] = staticmethod(lambda _operation, _path: None)
    listing: ClassVar[Callable[[str, list[Any]], list[Any]]] = staticmethod(lambda _path, infos: infos)
    calls: ClassVar[list[tuple[str, str]]] = []

    @classmethod
    def reset(cls) -> None:
        """Empty, quick and honest again."""
        cls.store.clear()
        cls.pseudo_dirs[:] = [""]
        cls.before = staticmethod(lambda _operation, _path: None)
        cls.listing = staticmethod(lambda _path, infos: infos)
        cls.calls = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return f"/{path.removeprefix('odd:').strip('/')}".rstrip("/")

    def _asked(self, operation: str, path: str) -> None:
        type(self).calls.append((operation, path))
        type(self).before(operation, path)

    def ls(self, path: str, detail: bool = True, **words: Any) -> Any:
        self._asked("ls", path)
        infos = type(self).listing(path, super().ls(path, detail=True, **words))
        return infos if detail else [i["name"] for i in infos]

    def _open(self, path: str, mode: str = "rb", *args: Any, **words: Any) -> Any:
        if mode == "rb":
            self._asked("open", path)
        return super()._open(path, mode, *args, **words)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **words: Any) -> bytes:
        self._asked("open", path)
        data: bytes = super().cat_file(path, start=start, end=end, **words)
        return data


def slow(seconds: float) -> Callable[[str, str], None]:
    """Every call takes so long."""
    return staticmethod(lambda _operation, _path: time.sleep(seconds))  # type: ignore[return-value]
