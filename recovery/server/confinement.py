"""What a process that runs other people's code may see of the machine: a value, and the rules that follow from it.

Standard library only: the processes that are confined read it before they import anything else.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

LISTS = ("hidden", "readable", "writable", "links")


class PathAccess(IntEnum):
    """How much of a folder or file is there for a confined process."""

    HIDDEN = 0
    LISTED = 1  # names, and nothing of what they name
    READABLE = 2
    WRITABLE = 3


#: A right for a folder with all that is in it, or for a file.
Grant = tuple[Path, PathAccess]


def dump_grants(grants: Iterable[Grant]) -> list[list[Any]]:
    """As JSON has them."""
    return [[str(path), int(sight)] for path, sight in grants]


def load_grants(dumped: list[list[Any]]) -> list[Grant]:
    """What `dump_grants` gave."""
    return [(Path(path), PathAccess(sight)) for path, sight in dumped]


@dataclass(frozen=True)
class Confinement:
    """Folders and files by what a confined process may do with them; the longest path that fits decides.

    A path that does not exist is passed over when the confinement is used. Symbolic links are followed.
    """

    #: not there: an empty folder, or an empty file, takes its place
    hidden: tuple[Path, ...] = ()
    #: also below something that is hidden
    readable: tuple[Path, ...] = ()
    #: as far as the user of the process may write there
    writable: tuple[Path, ...] = ()
    #: whether everything that no entry names is hidden; else it is as on the machine
    closed: bool = False
    #: symbolic links by which the rest is called; a closed place has no others
    links: tuple[Path, ...] = ()

    def entries(self) -> dict[Path, PathAccess]:
        """Sight by resolved path, parents before children; what is shown wins over what is hidden at the same path."""
        named = [(path, PathAccess.HIDDEN) for path in self.hidden]
        named += [(path, PathAccess.READABLE) for path in self.readable]
        named += [(path, PathAccess.WRITABLE) for path in self.writable]
        sights = {path.resolve(): sight for path, sight in named if is_there(path)}
        return dict(sorted(sights.items(), key=lambda entry: len(entry[0].parts)))

    def sight(self, path: Path) -> PathAccess:
        """What a confined process may do at this path."""
        return self.sights()(path)

    def sights(self) -> Callable[[Path], PathAccess]:
        """`sight` for many paths: the machine is asked once which of the entries are there."""
        entries, rest = self.entries(), PathAccess.HIDDEN if self.closed else PathAccess.WRITABLE

        def sight(path: Path) -> PathAccess:
            place = path.resolve()
            return next((entries[at] for at in (place, *place.parents) if at in entries), rest)

        return sight

    def grants(self, *, listing: bool = False) -> list[Grant]:
        """The same as a list of rights, each for a folder with all that is in it, or for a file.

        Rights in such a list only add up, so a folder with something in it that may be less is replaced by what it
        holds now: what is made in that folder later is not granted. Links are left out; what they lead to counts.
        With `listing` such a folder can still be listed, and with it, by name, what is hidden in it: without it Python
        finds no module in such a folder.
        """
        start = PathAccess.HIDDEN if self.closed else PathAccess.WRITABLE
        grants = _grant_below(Path("/"), self.entries().get(Path("/"), start), self.entries())
        return [(path, sight) for path, sight in grants if listing or sight is not PathAccess.LISTED]

    def dump(self) -> str:
        """As text for a command line."""
        lists = {name: [str(path) for path in getattr(self, name)] for name in LISTS}
        return json.dumps({**lists, "closed": self.closed})

    @classmethod
    def load(cls, text: str) -> "Confinement":
        """What `dump` wrote."""
        value = json.loads(text)
        lists = {name: tuple(Path(path) for path in value[name]) for name in LISTS}
        return cls(**lists, closed=value["closed"])


def is_there(path: Path) -> bool:
    """Whether a path exists; not where a folder on its way is closed to this user, as then it is to every child."""
    try:
        return path.exists()
    except PermissionError:
        return False


def _grant_below(place: Path, sight: PathAccess, entries: dict[Path, PathAccess]) -> Iterator[Grant]:
    """Rights at `place`, which has `sight`, and below; `entries` are sorted, parents before children."""
    below = {path: own for path, own in entries.items() if place in path.parents}
    if any(own < sight for own in below.values()):
        yield place, PathAccess.LISTED
        towards = {Path(*path.parts[: len(place.parts) + 1]) for path in below}
        with os.scandir(place) as children:
            paths = [Path(child.path) for child in children if not child.is_symlink()]
        for child in paths:
            if child in towards:
                yield from _grant_below(child, entries.get(child, sight), below)
            else:
                yield child, sight
        return
    if sight is not PathAccess.HIDDEN:
        yield place, sight
    for path, own in below.items():
        if not any(parent in below for parent in path.parents):
            yield from _grant_below(path, own, below)
