"""Finds the checkpoints of plain streams below some folders. Bounded: in depth, in folders and in names of a folder.

A checkpoint has a file `metadata` and a folder `offsets`; nothing below it is looked into, nor below a table's own
folders.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Final, TypeVar

from recovery.checkpoints.storage import DirectoryEntry, Store, reaching
from recovery.errors import RepriseError
from recovery.streams.standing import StreamProgress, read_progress

Result = TypeVar("Result")

DEEPEST: Final = 8
MOST_FOLDERS: Final = 100_000
MOST_NAMES: Final = 20_000
AT_ONCE: Final = 16
SKIPPED: Final = frozenset({"_spark_metadata", "_delta_log", "_change_data", "_delta_index"})
"""Folders of tables, which hold no checkpoint. Folders of partitions (`day=1`) and hidden ones hold none either."""


@dataclass(frozen=True)
class FoundCheckpoint:
    """A folder that is a checkpoint, and how far it came."""

    place: str
    standing: StreamProgress


@dataclass(frozen=True)
class ScanProblem:
    """A folder that could not be read: the code of the refusal, and its sentence."""

    place: str
    code: str
    says: str


@dataclass(frozen=True)
class Scan:
    """`folders`: how many were listed; `versioned`: checkpoints that are a pipeline's, which numbers them; `is_whole`:
    no bound cut the search short."""

    checkpoints: tuple[FoundCheckpoint, ...] = ()
    folders: int = 0
    versioned: int = 0
    is_whole: bool = True
    problems: tuple[ScanProblem, ...] = ()


@dataclass(frozen=True)
class _Folder:
    place: str
    entries: tuple[DirectoryEntry, ...] = ()
    problem: ScanProblem | None = None

    @property
    def is_checkpoint(self) -> bool:
        kinds = {e.name: e.is_dir for e in self.entries if e.name in ("metadata", "offsets")}
        return kinds == {"metadata": False, "offsets": True}

    @property
    def below(self) -> list[str]:
        return [
            f"{self.place.rstrip('/')}/{e.name}"
            for e in self.entries
            if e.is_dir and not e.name.startswith(".") and "=" not in e.name and e.name not in SKIPPED
        ]


def find_checkpoints(roots: Sequence[str]) -> Scan:
    """Every checkpoint below these folders, by place. What cannot be read is named, and ends nothing."""
    found: dict[str, None] = {}
    problems: list[ScanProblem] = []
    listed, versioned, is_whole = 0, 0, True
    level = list(dict.fromkeys(root.rstrip("/") for root in roots))
    with ThreadPoolExecutor(AT_ONCE, "find-checkpoints") as pool:
        for _ in range(DEEPEST + 1):
            if listed + len(level) > MOST_FOLDERS:
                level, is_whole = level[: MOST_FOLDERS - listed], False
            following: list[str] = []
            for folder in _map(pool, _list_folder, level):
                if folder.problem is not None:
                    problems.append(folder.problem)
                elif folder.is_checkpoint and folder.place.rsplit("/", 1)[-1].isdigit():
                    versioned += 1
                elif folder.is_checkpoint:
                    found[folder.place] = None
                else:
                    is_whole = is_whole and len(folder.entries) < MOST_NAMES
                    following += folder.below
            listed, level = listed + len(level), list(dict.fromkeys(following))
        checkpoints = list(_map(pool, _find_standing, sorted(found)))
    problems += [one for one in checkpoints if isinstance(one, ScanProblem)]
    whole = tuple(one for one in checkpoints if isinstance(one, FoundCheckpoint))
    return Scan(whole, listed, versioned, is_whole and not level, tuple(problems))


def _map(pool: ThreadPoolExecutor, act: Callable[[str], Result], places: Iterable[str]) -> Iterator[Result]:
    """In order. What this thread may read, those of the pool may: each call has the rules of the caller."""
    calls = [pool.submit(copy_context().run, act, place) for place in places]
    return (call.result() for call in calls)


def _list_folder(place: str) -> _Folder:
    try:
        with reaching(place):
            return _Folder(place, tuple(Store.open(place).entries(limit=MOST_NAMES)))
    except RepriseError as error:
        return _Folder(place, problem=ScanProblem(place, error.code, error.sentence))


def _find_standing(place: str) -> FoundCheckpoint | ScanProblem:
    try:
        return FoundCheckpoint(place, read_progress(place))
    except RepriseError as error:
        return ScanProblem(place, error.code, error.sentence)
